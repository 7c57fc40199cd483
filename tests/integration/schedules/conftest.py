"""A service whose scheduler is switched off, and schedulers of the tests' own whose clock they set."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import asyncpg
import pytest
from msgspec.structs import replace

from statewright.entity import ScheduledTask
from statewright.ids import system_clock
from statewright.services.core import Core
from statewright.services.scheduler import ScheduleConfig, Scheduler, TaskOutcome, fire_task
from statewright.storage.work import TASKS
from tests.builders import Json, automated
from tests.database import Template
from tests.integration.transactions.conftest import callback as callback
from tests.integration.transactions.conftest import serving as serving
from tests.service import PATIENCE_S, Api, RunningService, done, hosted
from tests.takings import take

T = TypeVar("T")

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def service(database_template: Template) -> Iterator[RunningService]:
    """A service that arms and never fires; tasks wait for a test's own scheduler. It ends with its module, for idle it
    takes a fiftieth of a processor.
    """
    with hosted(database_template.clone(), scheduler_enabled=False) as running:
        yield running


@dataclass
class Watch:
    """A clock that shows what a test sets (epoch milliseconds)."""

    at: int

    def __call__(self) -> int:
        return self.at * 1000


@dataclass(frozen=True)
class Timers:
    """The tasks of the shared service, and schedulers for them that live whenever a test says."""

    service: RunningService
    pace: ScheduleConfig = field(default_factory=ScheduleConfig)

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Do something on the service's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.service.loop).result(PATIENCE_S)

    def core(self, clock: "Watch | int") -> Core:
        """The service's parts with another clock, or one that stands at an instant (epoch milliseconds)."""
        return replace(self.service.parts.runtime.core, clock=Watch(clock) if isinstance(clock, int) else clock)

    def scheduler(self, clock: "Watch | int", **pace: Any) -> Scheduler:
        """The scheduler of a node with a clock of its own."""
        return Scheduler(self.core(clock), replace(self.pace, **pace))

    def scan(self, at: int) -> int:
        """Scan once and let everything that was taken come to its end; how many tasks were taken."""
        return self.begin_scan(at).result(PATIENCE_S)

    def begin_scan(self, at: int) -> "Future[int]":
        """The same, without waiting for the end."""

        async def scan() -> int:
            scheduler = self.scheduler(at)
            taken = (await scheduler.run_once()).taken
            await scheduler.wait_idle()
            return taken

        return asyncio.run_coroutine_threadsafe(scan(), self.service.loop)

    def take(self, at: int) -> list[ScheduledTask]:
        """Take what is due as a node that then dies."""
        pool, backoff = self.service.parts.runtime.core.pool, self.pace.backoff.total_seconds() * 1000
        return self.run(take(pool, TASKS, [], now=at, until=at + round(backoff), limit=100))

    def fire(self, task: ScheduledTask, at: int) -> TaskOutcome:
        """Let a taken task take effect."""
        return self.run(fire_task(self.core(at), task, grace_ms=100))

    def of(self, entity: str) -> list[Json]:
        """The stored tasks of an entity, ordered by their names."""
        query = "SELECT * FROM scheduled_task WHERE entity = $1 ORDER BY state, transition"
        return [dict(row) for row in self.sql(query, entity)]

    def due(self, entity: str) -> int:
        """When the only task of an entity fires, in epoch milliseconds."""
        [task] = self.of(entity)
        return int(task["fire_at"])

    def all_due(self, entities: list[str]) -> int:
        """When every task of some entities is due."""
        [row] = self.sql("SELECT max(fire_at) FROM scheduled_task WHERE entity = ANY ($1)", entities)
        return int(row["max"])

    def sql(self, query: str, *arguments: object) -> list[Any]:
        """Ask the database behind the service's back."""

        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.service.database)
            try:
                return await connection.fetch(query, *arguments)
            finally:
                await connection.close()

        return self.run(ask())


@pytest.fixture
def timers(service: RunningService) -> Iterator[Timers]:
    timers = Timers(service)
    yield timers
    timers.sql("DELETE FROM scheduled_task")


def scheduled(name: str, *, to: str, delay_ms: int = HOUR_MS, **members: Json) -> Json:
    """A transition that fires some time after its state was reached; an hour unless a test says otherwise."""
    timeout = members.pop("timeout_ms", None)
    schedule = {"delayMs": delay_ms} | ({} if timeout is None else {"timeoutMs": timeout})
    return automated(name, to=to, schedule=schedule, **members)


def timed_by(name: str, *, to: str, function: str = "when", tags: str = "node", **config: Json) -> Json:
    """A transition whose time a calculation member decides."""
    asked = {"name": function, "resultKind": "Schedule", "calculationNodesTags": tags, **config}
    return automated(name, to=to, schedule={"function": asked})


def import_cyclic(api: Api, workflow: Json, model: str = "prize/1") -> None:
    """Replace the workflows of a model by one that may go round for ever."""
    body = {"importMode": "REPLACE", "allowCycles": True, "workflows": [workflow]}
    done(api.post(f"/model/{model}/workflow/import", body))


def of_type(events: list[Json], kind: str) -> list[Json]:
    """The audit events of one type, in order."""
    return [event for event in events if event["eventType"] == kind]


def all_events(api: Api, entity: str) -> list[Json]:
    """Every state machine event of an entity, oldest first."""
    return list(reversed(done(api.get(f"/audit/entity/{entity}?eventType=StateMachine&limit=1000"))["items"]))


def meanwhile(work: Callable[[], T]) -> "Future[T]":
    """Do something on a thread of its own."""
    pool = ThreadPoolExecutor(max_workers=1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def now_ms() -> int:
    """The machine's time."""
    return system_clock() // 1000
