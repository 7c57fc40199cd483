"""No request of the step language holds the event loop for long (docs/reference/steps.md#limits-of-an-operation)."""

import json

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct

from statewright.api.grpc.steps.messages import fill_struct
from statewright.proto.workflow.v1 import engine_pb2 as pb
from tests.integration.event_loop.bodies import (
    MAX_BODY,
    MAX_EVENT,
    USUAL_BODY,
    USUAL_EVENT,
    Body,
    document,
    fill,
    record,
    repeat,
)
from tests.integration.event_loop.conftest import TENANT, Door
from tests.integration.event_loop.watchdog import require_free_loop
from tests.integration.node import a_node
from tests.integration.steps_grpc.engine import engine_of, refused
from tests.integration.steps_http.conftest import definition, polled, started, step, uploaded
from tests.service import Api, RunningService, a_token

DEFINITIONS: dict[str, Body] = {
    "steps-50000": lambda: _steps(50_000),
    "steps-10000": lambda: _steps(9_999),
    "long-expression": lambda: _expression(300_000),
    "many-expressions": lambda: json.dumps(
        definition(
            "many",
            step("t", "TRANSFORMATION", "end", transformations={f"k{n}": "1" + "+1" * 100 for n in range(2_000)}),
        )
    ).encode(),
    "wide-metadata": lambda: fill(
        '{"id":"wide","name":"w","steps":[{"id":"end","name":"e","type":"END"}],"metadata":{"v":[',
        record,
        "]}}",
        USUAL_BODY,
    ),
    "cut-off": lambda: fill('{"id":"cut","steps":[', record, ""),
}

SHAPES = ("numbers", "records", "empty-arrays", "names", "long-numbers")


def _steps(count: int) -> bytes:
    steps = [step(f"s{n}", "WAIT", f"s{n + 1}") for n in range(count)]
    return json.dumps({"id": f"long-{count}", "name": "long", "steps": [*steps, step(f"s{count}", "END")]}).encode()


def _expression(terms: int) -> bytes:
    return json.dumps(
        definition("terms", step("t", "TRANSFORMATION", "end", transformations={"n": "1" + "+1" * terms}))
    ).encode()


@pytest.fixture(scope="module")
def v1(service: RunningService) -> Api:
    """The root of the service as the tenant sees it whose definitions are stored."""
    api = Api(service.root, a_token(TENANT))
    uploaded(
        api,
        definition("waits", step("wait", "WAIT", "end")),
        definition(
            "works",
            step("work", "SERVICE_TASK", "more", jobType="work"),
            step("more", "SERVICE_TASK", "end", jobType="more"),
        ),
        definition("asks", step("ask", "USER_TASK", "end")),
        definition("fails", step("work", "SERVICE_TASK", "end", jobType="fails")),
        definition(
            "pushed",
            step("push", "SERVICE_TASK", "done", jobType="held-push"),
            step("done", "SERVICE_TASK", "end", jobType="held-pushed"),
        ),
    )
    return api


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_large_definition_leaves_the_loop_free(name: str, door: Door, v1: Api) -> None:
    door.require_free("POST /v1/definitions", DEFINITIONS[name]())


@pytest.mark.parametrize("line", ["", "/warnings", "/diagram"])
def test_reading_a_large_definition_leaves_the_loop_free(line: str, door: Door, v1: Api) -> None:
    assert door.send("POST /v1/definitions", _steps(9_998))[0] == 201
    door.require_free(f"GET /v1/definitions/long-9998{line}")


def _variables(name: str) -> bytes:
    return b'{"variables":%b}' % document(name, MAX_EVENT)


def _start(definition_id: str, name: str) -> bytes:
    return b'{"definitionId":"%b","variables":%b}' % (definition_id.encode(), document(name, MAX_EVENT))


@pytest.mark.parametrize("name", SHAPES)
def test_starting_with_large_variables_leaves_the_loop_free(name: str, door: Door, v1: Api) -> None:
    door.require_free("POST /v1/instances", _start("waits", name))


@pytest.mark.parametrize("name", SHAPES)
def test_a_large_result_of_a_job_leaves_the_loop_free(name: str, door: Door, v1: Api) -> None:
    def complete() -> None:
        started(v1, "works")
        [job] = polled(v1, "work", maxJobs=1)
        assert door.send(f"POST /v1/jobs/{job['id']}/complete", _variables(name))[0] == 204
        polled(v1, "more", maxJobs=1)

    require_free_loop(door.service.loop, complete)


def test_a_job_that_a_member_does_with_large_variables_leaves_the_loop_free(door: Door, v1: Api) -> None:
    large = document("empty-arrays", USUAL_EVENT)
    body = b'{"definitionId":"pushed","variables":%b}' % large
    result = b'"success":true,"payload":{"type":"JSON","data":%b}' % large
    with a_node(door.service, TENANT, "held-push") as node:

        def push() -> None:
            assert door.send("POST /v1/instances", body)[0] == 201
            node.answer_literally(result.decode())
            polled(v1, "held-pushed", maxJobs=1, waitSeconds=30)

        require_free_loop(door.service.loop, push)


def test_a_poll_for_too_many_types_leaves_the_loop_free(door: Door, v1: Api) -> None:
    """The shortest ones, since most of those have room in a request."""
    door.require_free("POST /v1/jobs/poll", repeat('{"workerId":"w","jobTypes":[', '""', "]}", MAX_BODY))
    types = [""] * (MAX_EVENT // 2 - 100)
    with engine_of(door.service, door.api.token) as engine:

        def poll() -> None:
            reason = refused(engine, "INVALID_ARGUMENT", "PollJobs", worker_id="w", job_types=types)
            assert reason == f"jobTypes must be ≤ 1000, got {len(types)}"

        require_free_loop(door.service.loop, poll)


def test_large_signals_and_results_of_people_leave_the_loop_free(door: Door, v1: Api) -> None:
    def signal() -> None:
        instance = started(v1, "waits")["id"]
        assert door.send(f"POST /v1/instances/{instance}/signals/wait", document("records"))[0] == 204

    def complete() -> None:
        instance = started(v1, "asks")["id"]
        line = f"POST /v1/instances/{instance}/user-tasks/ask/complete"
        assert door.send(line, _variables("records"))[0] < 300

    require_free_loop(door.service.loop, signal)
    require_free_loop(door.service.loop, complete)


def test_a_large_reason_of_a_failed_job_leaves_the_loop_free(door: Door, v1: Api) -> None:
    def fail() -> None:
        started(v1, "fails")
        [job] = polled(v1, "fails", maxJobs=1)
        body = json.dumps({"errorMessage": "\\" * (USUAL_BODY // 3), "retryable": False}).encode()
        assert door.send(f"POST /v1/jobs/{job['id']}/fail", body)[0] == 204

    require_free_loop(door.service.loop, fail)


@pytest.mark.parametrize("line", ["/{id}", "/{id}/history", "/{id}/diagram", "?definitionId=waits&pageSize=3"])
def test_reading_instances_with_large_variables_leaves_the_loop_free(line: str, door: Door, v1: Api) -> None:
    status, answer = door.send("POST /v1/instances", _start("waits", "records"))
    assert status == 201
    door.require_free(f"GET /v1/instances{line.format(id=json.loads(answer)['id'])}")


def test_an_inbox_of_large_tasks_leaves_the_loop_free(door: Door, v1: Api) -> None:
    for _ in range(8):
        assert door.send("POST /v1/instances", _start("asks", "records"))[0] == 201
    door.require_free("GET /v1/user-tasks?definitionId=asks")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([pb.WorkflowStep()] * 100_000, id="many-steps"),
        pytest.param([pb.WorkflowStep(parallel_next_steps=["s"] * 200_000)], id="many-branches"),
    ],
)
def test_a_large_definition_over_grpc_is_refused_and_leaves_the_loop_free(
    steps: list[pb.WorkflowStep], door: Door
) -> None:
    with engine_of(door.service, door.api.token) as engine:

        def upload() -> None:
            with pytest.raises(grpc.RpcError) as refusal:
                engine("UploadDefinition", definition={"id": "large", "name": "n", "steps": steps})
            assert refusal.value.code() is grpc.StatusCode.INVALID_ARGUMENT

        require_free_loop(door.service.loop, upload)


def test_variables_of_very_many_names_over_grpc_are_refused_and_leave_the_loop_free(door: Door) -> None:
    """What protobuf takes for them grows with the square."""
    variables = Struct()
    fill_struct(variables, {f"k{n}": True for n in range(170_000)})
    with engine_of(door.service, door.api.token) as engine:

        def start() -> None:
            reason = refused(engine, "INVALID_ARGUMENT", "StartInstance", definition_id="waits", variables=variables)
            assert reason == "an object, or the attributes of an event, have at most 50000 members"

        require_free_loop(door.service.loop, start)


@pytest.mark.parametrize("name", ["numbers", "records", "empty-arrays"])
def test_large_variables_over_grpc_leave_the_loop_free(name: str, door: Door, v1: Api) -> None:
    """Their messages are three times as long as JSON, or more."""
    variables = Struct()
    fill_struct(variables, json.loads(document(name, 700_000)))
    with engine_of(door.service, door.api.token) as engine:

        def start_and_read() -> None:
            started = engine("StartInstance", definition_id="waits", variables=variables).instance
            engine("GetInstance", id=started.id)

        require_free_loop(door.service.loop, start_and_read)
