"""The step engine over a real database, its clock in the test's hands.

Services are called as the doors call them. Nothing happens on its own here: a test says when timers are looked at,
leases are swept and successors are started. A second ``Host`` on the same database is another node.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

import pytest

from statewright import app
from statewright.entity import Principal
from statewright.ids import TenantId, system_clock
from statewright.jsonval.values import JsonObject
from statewright.processes.changes import FailureReport, NodeExecution
from statewright.services.core import Caller
from statewright.services.processes import dialects, failed_jobs, jobs, successors, tasks
from statewright.services.processes import instances as hosted
from statewright.services.processes.background import end_rests, sweep_leases
from statewright.services.processes.dialects import InstanceQuery
from statewright.services.processes.hosting import ProcessHost, find_shared_queue
from statewright.services.processes.instances import StartRequest, StreamedPage
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.processes.tasks import TaskQuery
from statewright.services.processes.timers import TimerScanner
from statewright.services.runtime import Runtime
from statewright.services.steps.dialect import STEP_DIALECT, stream_history
from statewright.settings import Secret, Settings
from statewright.steps import Instance, Process
from tests.builders import Json
from tests.rehosting import rehost

T = TypeVar("T")

PATIENCE_S = 60.0
"""After so long a fact that has not come true is taken for a failure."""


class Watch:
    """A clock that a test moves on; it starts at the present, so that ids and versions rise with it."""

    def __init__(self) -> None:
        self._ahead = 0

    def __call__(self) -> int:
        return system_clock() + self._ahead

    def advance(self, by: timedelta) -> None:
        self._ahead += by // timedelta(microseconds=1)


@dataclass(frozen=True)
class Host:
    """One node of the step engine as one caller sees it."""

    runtime: Runtime
    caller: Caller
    clock: Watch

    @property
    def steps(self) -> ProcessHost[Process, Instance]:
        return STEP_DIALECT.find_host(self.runtime.processes)

    async def upload(self, *documents: Json) -> None:
        for document in documents:
            await dialects.upload_definition(STEP_DIALECT, self.runtime.processes, self.caller, json.dumps(document))

    async def start(self, definition: str, business_key: str = "", **variables: Json) -> Instance:
        request = StartRequest(definition_id=definition, variables=variables, business_key=business_key)
        return await hosted.start(self.steps, self.caller, request)

    async def read(self, instance: "Instance | str") -> Instance:
        return await hosted.get_instance(self.steps, self.caller, _id(instance))

    async def history(self, instance: "Instance | str") -> tuple[NodeExecution, ...]:
        found = await stream_history(self.runtime.processes, self.caller, _id(instance))
        return tuple([line async for lines in found.portions for line in lines])

    async def trace(self, instance: "Instance | str") -> list[str]:
        """Steps and what became of them, in order."""
        return [f"{line.node_id} {line.status}" for line in await self.history(instance)]

    async def claim(self, *types: str, worker: str = "w", most: int = 10, **more: Json) -> tuple[ClaimedJob, ...]:
        request = JobClaim(worker_id=worker, job_types=types, max_jobs=most, **more)
        return await jobs.claim(find_shared_queue(self.runtime.processes), self.caller, request)

    async def job(self, type_: str, worker: str = "w") -> ClaimedJob:
        """The only job of a type."""
        [job] = await self.claim(type_, worker=worker)
        return job

    async def complete(self, job: "ClaimedJob | str", **variables: Json) -> None:
        await jobs.complete(
            find_shared_queue(self.runtime.processes), self.caller, job if isinstance(job, str) else job.id, variables
        )

    async def do(self, type_: str, **variables: Json) -> None:
        """Claim the only job of a type and complete it."""
        await self.complete(await self.job(type_), **variables)

    async def fail(
        self,
        job: ClaimedJob,
        message: str = "boom",
        *,
        retryable: bool = True,
        worker: str = "",
        retry_after_s: int | None = None,
    ) -> None:
        report = FailureReport(
            worker_id=worker or job.worker_id, message=message, retryable=retryable, retry_after_s=retry_after_s
        )
        await failed_jobs.fail(find_shared_queue(self.runtime.processes), self.caller, job.id, report)

    async def approve(self, instance: Instance, step: str, by: str = "", **variables: Json) -> None:
        await self._ask(instance, "complete", {"variables": variables, "completedBy": by}, step)

    async def signal(self, instance: "Instance | str", step: str, **variables: Json) -> None:
        await self._ask(instance, "signal", variables, step)

    async def cancel(self, instance: Instance, reason: str = "") -> Instance:
        return await self._ask(instance, "cancel", {"reason": reason})

    async def retry(self, instance: "Instance | str", step: str, **variables: Json) -> Instance:
        return await self._ask(instance, "retry", {"variables": variables}, step)

    async def _ask(self, instance: "Instance | str", verb: str, document: JsonObject, step: str = "") -> Instance:
        done = await dialects.ask(
            STEP_DIALECT, self.runtime.processes, self.caller, _id(instance), verb, document, segments={"stepId": step}
        )
        return done.instance

    async def all(self, **filters: Json) -> tuple[Instance, ...]:
        return await read_page(await self.stream(page_size=1000, **filters))

    async def stream(self, **wanted: Json) -> StreamedPage[Instance]:
        return await dialects.stream_instances(
            STEP_DIALECT, self.runtime.processes, self.caller, InstanceQuery(**wanted)
        )

    async def stream_inbox(self, **wanted: Json | timedelta) -> StreamedPage[JsonObject]:
        asked: TaskQuery = TaskQuery(**wanted)  # type: ignore[arg-type]
        return await tasks.stream_open_tasks(self.runtime.processes, self.caller, asked)

    async def inbox(self, **wanted: Json | timedelta) -> tuple[JsonObject, ...]:
        return await read_page(await self.stream_inbox(**wanted))

    async def after(self, **span: float) -> int:
        """Let time pass and timers be looked at; how many fired."""
        self.clock.advance(timedelta(**span))
        return (await TimerScanner(self.runtime.processes, scan_interval=timedelta(seconds=1)).run_once()).fired

    async def sweep(self, **span: float) -> int:
        """Let time pass and leases be looked at; how many had ended."""
        self.clock.advance(timedelta(**span))
        return await sweep_leases(self.runtime.processes)

    async def end_rests(self, **span: float) -> int:
        """Let time pass and resting jobs be looked at; how many can be claimed again."""
        self.clock.advance(timedelta(**span))
        return await end_rests(self.runtime.processes)

    async def chain(self) -> int:
        """Start the successors that nobody has started, as a node does that finds them in the outbox."""
        self.clock.advance(timedelta(minutes=20))
        return await successors.build_successor_starter(
            self.runtime.processes, scan_interval=timedelta(seconds=1)
        ).run_once()

    async def count(self, query: str, *arguments: object) -> int:
        """A number from the database, behind everybody's back."""
        async with self.runtime.core.pool.connection() as connection:
            return int(await connection.fetchval(query, *arguments))

    def of(self, tenant: str) -> "Host":
        """The same node as another tenant sees it."""
        return Host(self.runtime, a_caller(tenant), self.clock)


Node = Callable[[], "asyncio.Future[Host]"]


def a_caller(tenant: str) -> Caller:
    return Caller(Principal(id="alice", name="alice", kind="user", tenant=TenantId(tenant)))


@asynccontextmanager
async def a_node(database: str, tenant: str) -> AsyncIterator[Host]:
    """A node that does nothing on its own."""
    settings = Settings(iam_mode="mock", postgres_url=Secret(database), log_level="error")
    clock = Watch()
    async with app.run_without_listeners(settings) as runtime:
        yield Host(rehost(runtime, clock), a_caller(tenant), clock)


@pytest.fixture
async def host(database: str) -> AsyncIterator[Host]:
    """A node on a database of its own."""
    async with a_node(database, f"tenant-{uuid4().hex[:8]}") as node:
        yield node


@pytest.fixture
async def hosts(database: str) -> AsyncIterator[tuple[Host, Host]]:
    """Two nodes on one database, for the same tenant."""
    tenant = f"tenant-{uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(a_node(database, tenant))
        second = await stack.enter_async_context(a_node(database, tenant))
        yield first, second


def service_task(id_: str, then: str = "", **members: Json) -> Json:
    """A SERVICE_TASK whose job type is its id unless said otherwise."""
    return step(id_, "SERVICE_TASK", then, **({"jobType": id_} | members))


def step(id_: str, type_: str, then: str = "", **members: Json) -> Json:
    following = {"nextStep": then} if then else {}
    return {"id": id_, "name": id_, "type": type_, **following, **members}


def end(id_: str = "end") -> Json:
    return step(id_, "END")


def definition(id_: str, *steps: Json, **members: Json) -> Json:
    return {"id": id_, "name": id_, "steps": list(steps), **members}


def timer(after: str, to: str, *, interrupting: bool = False) -> Json:
    return {"type": "TIMER", "duration": after, "interrupting": interrupting, "targetStepId": to}


THREE_STEPS = definition("chain", service_task("a", "b"), service_task("b", "c"), service_task("c", "end"), end())
"""Three service tasks in a row."""


async def until(fact: Callable[[], object]) -> None:
    """Wait for a fact that nobody announces."""
    for _ in range(int(PATIENCE_S / 0.005)):
        if fact():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the fact did not come true")


async def read_page(page: StreamedPage[T]) -> tuple[T, ...]:
    """The whole of a page."""
    return tuple([instance async for portion in page.portions for instance in portion])


def _id(instance: "Instance | str") -> str:
    return instance if isinstance(instance, str) else instance.id
