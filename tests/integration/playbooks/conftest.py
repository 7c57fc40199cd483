"""What the tests of hosted playbooks share: a service, and a worker that runs pipelines and speaks ``/v1/jobs``."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from statewright.jsonval.codec import decode, encode
from statewright.playbooks.dispatch import Dispatch, dispatch_from_document
from statewright.playbooks.pipeline import PipelineEnd, ToolCall, begin, get_given_outcome, prepare, settle
from statewright.playbooks.policies import Outcome, succeed
from statewright.playbooks.run_record import RunRecord
from statewright.playbooks.task_requests import find_pause
from tests.builders import Json
from tests.integration.flows.conftest import an_error as an_error
from tests.integration.flows.conftest import done
from tests.service import Api, RunningService, a_token

Tool = Callable[[ToolCall, Dispatch], Outcome]

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: case}\n"


def answer_null(call: ToolCall, dispatch: Dispatch) -> Outcome:
    """Every task answers null."""
    return succeed(None)


def run_pipeline(payload: Json, tool: Tool) -> Json:
    """What a worker reports of a job, which waits for nothing between attempts."""
    dispatch = dispatch_from_document(decode(encode(payload)))  # type: ignore[arg-type]
    record, state = RunRecord(dispatch), begin(dispatch)
    given = get_given_outcome(dispatch)
    while not isinstance(state, PipelineEnd):
        if given is None:
            record.begin_attempt(state)
            prepared = prepare(dispatch, state)
            if isinstance(prepared, ToolCall) and find_pause(prepared, dispatch, time.time_ns() // 1_000) is True:
                paused = record.pause(state, prepared)
                assert isinstance(paused, dict)
                return paused
        outcome = given or (prepared if isinstance(prepared, Outcome) else tool(prepared, dispatch))
        given = None
        outcome = record.end_attempt(state, outcome, duration_ms=0, ts="2026-06-01T09:30:00Z")
        turn = settle(dispatch, state, outcome)
        record.take_turn(state, outcome, turn)
        state = turn.state
        if turn.end is not None:
            return record.complete(turn.end, state.results)
    return record.complete(state, {})


@dataclass(frozen=True)
class Playbooks:
    """``/v1/playbooks`` and ``/v1/executions`` as one caller sees them. Short verbs assert success."""

    api: Api
    worker: str = "w-1"

    def upload(self, text: str) -> str:
        """Store a playbook; its path."""
        answer = self.api.post("/v1/playbooks", text.encode(), Content_Type="application/yaml")
        return str(done(answer, 201)["path"])

    def start(self, path: str, **members: Json) -> Json:
        """A new execution of a stored playbook."""
        return done(self.api.post("/v1/executions", {"path": path, **members}), 201)

    def run(self, text: str, **members: Json) -> Json:
        """A new execution of a text without its header."""
        return self.start(self.upload(HEADER + text), **members)

    def read(self, execution: Json) -> Json:
        return done(self.api.get(f"/v1/executions/{execution['id']}"))

    def do(self, execution: Json, verb: str, **body: Json) -> Json:
        """``patch``, ``tokens``, ``evaluate``, ``cancel`` or ``restart``."""
        return done(self.api.post(f"/v1/executions/{execution['id']}/{verb}", body))

    def events(self, execution: Json) -> list[Json]:
        """The whole log."""
        found: list[Json] = []
        while True:
            after = found[-1]["seq"] if found else 0
            page = done(self.api.get(f"/v1/executions/{execution['id']}/events?after={after}&limit=1000"))["items"]
            if not page:
                return found
            found += page

    def poll(self, *kinds: str, most: int = 100, **members: Json) -> list[Json]:
        """Jobs of the kinds; ``compute`` when none is named."""
        types = [f"playbook:{kind}" for kind in kinds or ("compute",)]
        body = {"workerId": self.worker, "jobTypes": types, "maxJobs": most, **members}
        return list(done(self.api.post("/v1/jobs/poll", body))["jobs"])

    def complete(self, job: Json, completion: Json) -> None:
        body = {"workerId": self.worker, "variables": completion}
        done(self.api.post(f"/v1/jobs/{job['id']}/complete", body), 204)

    def work(self, tool: Tool = answer_null, *kinds: str, most: int = 1) -> int:
        """Do jobs, the oldest first, until there are none; how many."""
        count = 0
        while found := self.poll(*kinds, most=most):
            for job in found:
                self.complete(job, run_pipeline(job["variables"], tool))
                count += 1
        return count

    def path(self, path: str) -> str:
        """The URL of a playbook."""
        return f"/v1/playbooks/{quote(path, safe='')}"


@pytest.fixture
def playbooks(service: RunningService, tenant: str) -> Playbooks:
    """The shared service, in a tenant that nobody has seen before."""
    return Playbooks(Api(service.root, a_token(tenant)))


@pytest.fixture
def other(service: RunningService, tenant: str) -> Playbooks:
    """The same, in another tenant."""
    return Playbooks(Api(service.root, a_token(f"{tenant}-other")))
