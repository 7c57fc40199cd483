"""Files and calls of eight requests, in a running service and warm, held to scripts/code_figures.toml.

Each walk is taken several times. The service has work of its own besides, which falls into some of them: what counts
are the files that all of the times have in common, and the fewest calls (docs/architecture.md#size).
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import statewright
from scripts.measure_code import MEASURED_WALKS, judge_walks, read_figures
from scripts.trace_calls import CallTracer, Trace
from statewright.ids import TenantId
from tests.builders import SAMPLE, Json, a_processor, a_workflow, manual
from tests.database import Template
from tests.integration.playbooks.conftest import HEADER
from tests.integration.steps_http.conftest import definition, done, polled, started, step, uploaded
from tests.service import Api, RunningService, a_token, eventually, hosted

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(statewright.__file__).parent
TENANT = "walks"
WARM_UP, TIMES = 2, 24
QUIET_S = 0.03
TURNS = 30
BESIDE = (
    "proto/",
    "api/http/connections.py",
    *(f"storage/models.py::{name}" for name in ("follow", "_follow_once", "_build_listener")),
    *(f"services/processes/wakeups.py::{name}" for name in ("TypeListener", "Wakeups", "DueRows", "LogFollowers")),
    "services/processes/background.py",
    "services/processes/push.py",
    "conditions/wire.py::parse_tags",
)
"""Not counted: generated code, looking for idle connections, and announcements, which come back from the database
before the response or after it, with the pushing of jobs that they begin.
"""

WORKFLOW = a_workflow(
    Open=[manual("check", to="Closed", processors=[a_processor("check")])],
    Closed=[manual("reopen", to="Open")],
)
STEPS = definition("walk", step("work", "SERVICE_TASK", "end", jobType="work"))
PLAYBOOK = HEADER.replace("case", "walk") + (
    "workflow:\n- {step: start, tool: {kind: compute}, next: {arcs: [{step: then}]}}\n"
    "- {step: then, tool: {kind: later}}\n"
)


class Walks:
    """A service whose calls are counted, and the requests as one tenant makes them."""

    def __init__(self, service: RunningService, tracer: CallTracer) -> None:
        self.service, self.tracer = service, tracer
        self._pause = threading.Event()
        self.api = service.api(TENANT)
        self.v1 = Api(service.root, a_token(TENANT))

    def take(self, request: Callable[[], object]) -> Trace:
        """What one request goes through."""
        eventually(self._is_quiet)
        self.tracer.begin()
        request()
        self._turn()
        return self.tracer.end()

    def take_warm(self, prepare: Callable[[], Callable[[], object]]) -> Trace:
        """What a request goes through each time, once all is warm; ``prepare`` makes it, uncounted."""
        traces = [self.take(prepare()) for _ in range(WARM_UP + TIMES)][WARM_UP:]
        return Trace(frozenset.intersection(*(one.files for one in traces)), min(one.calls for one in traces))

    def _is_quiet(self) -> bool:
        """Whether nothing is called for a while: what was asked of the service before may have had consequences."""
        self.tracer.begin()
        self._pause.wait(QUIET_S)
        return self.tracer.end().calls == 0

    def _turn(self) -> None:
        """Let everything be done that can be done at once."""

        async def turn() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(turn(), self.service.loop).result()


@pytest.fixture(scope="module")
def walks(database_template: Template) -> Iterator[Walks]:
    tracer = CallTracer(PACKAGE, BESIDE)
    threading.setprofile(tracer)
    try:
        with hosted(database_template.clone()) as service:
            yield Walks(service, tracer)
    finally:
        threading.setprofile(None)


def run_walks(walks: Walks) -> dict[str, Trace]:
    """All eight."""
    api, v1 = walks.api, walks.v1
    api.a_model(WORKFLOW)
    entity = api.create().id
    uploaded(v1, STEPS)
    done(v1.post("/v1/playbooks", PLAYBOOK.encode(), Content_Type="application/yaml"), 201)
    api.create({**SAMPLE, "year": 1901})

    def search() -> None:
        condition = {"type": "simple", "jsonPath": "$.year", "operatorType": "EQUALS", "value": 1901}
        [_] = api.post("/search/direct/prize/1", condition).text.splitlines()

    def transition() -> Callable[[], object]:
        if api.state(entity) == "Closed":
            api.update(entity, fire="reopen")
        return lambda: api.update(entity, fire="check")

    def poll() -> Callable[[], object]:
        started(v1, "walk")

        def claim() -> None:
            [_] = polled(v1, "work", maxJobs=1)

        return claim

    def complete() -> Callable[[], object]:
        started(v1, "walk")
        [job] = polled(v1, "work", maxJobs=1)
        return lambda: done(v1.post(f"/v1/jobs/{job['id']}/complete", {"workerId": "w-1", "variables": {}}), 204)

    def playbook_event() -> Callable[[], object]:
        done(v1.post("/v1/executions", {"path": "walk"}), 201)
        [job] = polled(v1, "playbook:compute", maxJobs=1)
        body: Json = {"workerId": "w-1", "variables": {"status": "ok", "result": None}}

        def report() -> None:
            done(v1.post(f"/v1/jobs/{job['id']}/complete", body), 204)

        return report

    with run_node(walks.service):
        return {
            "create": walks.take_warm(lambda: api.create),
            "get": walks.take_warm(lambda: lambda: api.read(entity)),
            "search": walks.take_warm(lambda: search),
            "sync_transition": walks.take_warm(transition),
            "step_start": walks.take_warm(lambda: lambda: started(v1, "walk")),
            "poll": walks.take_warm(poll),
            "complete": walks.take_warm(complete),
            "playbook_event": walks.take_warm(playbook_event),
        }


@contextmanager
def run_node(service: RunningService) -> Iterator[None]:
    """A calculation node whose processor changes nothing, in a process of its own."""
    command = [sys.executable, "-m", "tests.integration.walks.node", service.grpc, service.url]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(a_token(TENANT, "node", user_roles=None, scopes=["ROLE_M2M"]) + "\n")
        process.stdin.flush()
        try:
            eventually(lambda: service.parts.members.list_members(TenantId(TENANT)))
            yield
        finally:
            process.terminate()


def test_no_walk_has_become_longer(walks: Walks) -> None:
    traces = run_walks(walks)
    now = {f"walk_{name}": {"files": len(trace.files), "calls": trace.calls} for name, trace in traces.items()}
    MEASURED_WALKS.parent.mkdir(exist_ok=True)
    MEASURED_WALKS.write_text(json.dumps(now))
    files = {name: sorted(trace.files) for name, trace in traces.items()}
    MEASURED_WALKS.with_name("walk_files.json").write_text(json.dumps(files, indent=1))
    assert judge_walks(now, read_figures()) == []
