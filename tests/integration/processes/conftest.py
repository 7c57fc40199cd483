"""A service that hosts the toy language beside that of the program, and nodes of it whose clock a test sets."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar
from uuid import uuid4

import pytest

from statewright import app
from statewright.api.http import dialects
from statewright.app import runtime as languages
from statewright.console import process_languages, routes
from statewright.console.pages.definitions import build_routes
from statewright.failures import ProcessNotFound
from statewright.jsonval.values import JsonObject
from statewright.services.core import Caller
from statewright.services.processes import advancing, definitions, instances, jobs
from statewright.services.processes.background import sweep_leases
from statewright.services.processes.definitions import NewDefinition
from statewright.services.processes.dialects import build_transitions
from statewright.services.processes.hosting import ProcessHost, get_own_queue
from statewright.services.processes.installing import install_language
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.processes.successors import build_end_teller, build_successor_starter
from statewright.services.processes.timers import TimerScanner
from statewright.services.processes.writing import to_entity_id
from statewright.services.runtime import Runtime
from statewright.settings import Secret, Settings
from statewright.storage.processes.instances import InstanceFilter, fetch_events
from tests.database import Template
from tests.integration.processes.errand_interfaces import ERRAND_API, ERRAND_DIALECT, PAGES
from tests.integration.processes.errands import ERRANDS, Errand, Plan, cancel
from tests.integration.steps.conftest import Watch, a_caller
from tests.rehosting import rehost
from tests.service import PATIENCE_S, RunningService, hosted

T = TypeVar("T")

UNKNOWN = ProcessNotFound("no such errand")


INSTALLED = install_language(ERRANDS, transitions=build_transitions(ERRAND_DIALECT))


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    """The program has the toy language, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(languages, "LANGUAGES", (*languages.LANGUAGES, INSTALLED))
        patch.setattr(dialects, "PROCESS_APIS", (ERRAND_API, *dialects.PROCESS_APIS))
        patch.setattr(process_languages, "LANGUAGES", (*process_languages.LANGUAGES, PAGES))
        patch.setattr(routes, "ROUTES", (*routes.ROUTES, *build_routes(PAGES)))
        yield


@dataclass(frozen=True)
class Office:
    """One node as one caller sees it."""

    runtime: Runtime
    caller: Caller

    @property
    def host(self) -> ProcessHost[Plan, Errand]:
        return self.runtime.processes.hosts.get(ERRANDS)

    async def draw(self, id_: str = "errand", limit: int = 10, ask: str = "fetch", **more: str) -> None:
        """Store a definition."""
        plan = {"id": id_, "ask": ask, "lift": "lift", "limit": limit, "within": "PT1H", **more}

        def build_document(version: int) -> JsonObject:
            return {"id": id_, "version": version}

        source = json.dumps(plan)
        new = NewDefinition(
            id=id_, name=id_, description="", source=source, content=source, build_document=build_document
        )
        await definitions.store(self.host, self.caller, new)

    async def send(self, definition: str = "errand", key: str = "", **data: object) -> Errand:
        request = instances.StartRequest(definition_id=definition, business_key=key, variables=dict(data))  # type: ignore[arg-type]
        return await instances.start(self.host, self.caller, request)

    async def read(self, errand: Errand) -> Errand:
        return await instances.get_instance(self.host, self.caller, errand.id)

    async def claim(self, *types: str, worker: str = "w", lease: float = 30) -> tuple[ClaimedJob, ...]:
        claim = JobClaim(worker_id=worker, job_types=types, max_jobs=10, lease=timedelta(seconds=lease))
        return await jobs.claim(get_own_queue(self.host), self.caller, claim)

    async def complete(self, job: ClaimedJob, **result: object) -> None:
        await jobs.complete(get_own_queue(self.host), self.caller, job.id, dict(result))  # type: ignore[arg-type]

    async def trace(self, errand: Errand) -> list[str]:
        portions = instances.stream_history(self.host, self.caller, errand.id)
        return [f"{line.node_id} {line.node_type} {line.status}" async for lines in portions for line in lines]

    async def sweep(self) -> int:
        return await sweep_leases(self.runtime.processes)

    async def cancel(self, errand: Errand) -> None:
        id_ = to_entity_id(errand.id)
        await advancing.advance(self.host, self.caller, id_, cancel, kind="errand.cancel", unknown=UNKNOWN)

    async def start_children(self) -> int:
        """Start instances that others wait for and whose node did not; those are due after a while."""
        return await build_successor_starter(self.runtime.processes, scan_interval=timedelta(seconds=1)).run_once()

    async def tell_ends(self) -> int:
        """Tell parents that their children have ended, where the node did not on which they did."""
        return await build_end_teller(self.runtime.processes, scan_interval=timedelta(seconds=1)).run_once()

    async def log(self, errand: Errand) -> list[tuple[int, str]]:
        events = await fetch_events(
            self.runtime.core.pool, self.caller.tenant, to_entity_id(errand.id), after=0, limit=99
        )
        return [(event.number, json.loads(event.event)["node"]) for event in events]

    async def children(self, definition: str) -> list[Errand]:
        matching = InstanceFilter(definition_id=definition)
        found = await instances.stream_instances(self.host, self.caller, matching)
        return [child async for portion in found.portions for child in portion]

    async def scan(self) -> int:
        return (await TimerScanner(self.runtime.processes, scan_interval=timedelta(seconds=1)).run_once()).fired


@asynccontextmanager
async def a_node(database: str, tenant: str, clock: Watch) -> AsyncIterator[Office]:
    """A node that does nothing on its own."""
    settings = Settings(iam_mode="mock", postgres_url=Secret(database), log_level="error")
    async with app.run_without_listeners(settings) as runtime:
        yield Office(rehost(runtime, clock), a_caller(tenant))


@pytest.fixture
def clock() -> Watch:
    return Watch()


@pytest.fixture
async def offices(database: str, clock: Watch) -> AsyncIterator[tuple[Office, Office]]:
    """Two nodes on one database."""
    tenant = f"tenant-{uuid4().hex[:8]}"
    async with a_node(database, tenant, clock) as first, a_node(database, tenant, clock) as second:
        yield first, second


@pytest.fixture(scope="module")
def service(installed: None, database_template: Template) -> Iterator[RunningService]:
    """A service of its own: the shared one has not this language."""
    with hosted(database_template.clone()) as running:
        yield running


@pytest.fixture
def office(service: RunningService, tenant: str) -> Office:
    return Office(service.parts.runtime, a_caller(tenant))


@dataclass(frozen=True)
class Loop:
    """The event loop of the service, for a test's thread."""

    loop: asyncio.AbstractEventLoop

    def __call__(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)


@pytest.fixture
def run(service: RunningService) -> Loop:
    return Loop(service.loop)
