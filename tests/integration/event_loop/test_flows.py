"""No request about flows holds the event loop for long (docs/reference/flows.md)."""

import json

import pytest

from tests.builders import Json
from tests.integration.event_loop.bodies import MAX_EVENT, USUAL_BODY, Body, document, fill, record
from tests.integration.event_loop.conftest import TENANT, Door
from tests.integration.event_loop.watchdog import require_free_loop
from tests.integration.flows.conftest import Flows
from tests.service import Api, RunningService, a_token

DEFINITIONS: dict[str, Body] = {
    "nodes-9990": lambda: _source(" → ".join(f"t{n}" for n in range(9_990))),
    "guards-3000": lambda: _source(" → ".join(f'? `$[?(@.n={n} and @.k="k{n}")]` t{n}' for n in range(3_000))),
    "unfinished": lambda: _source(" → ".join("t" for _ in range(9_990)) + " →"),
}
LARGEST = max(MAX_EVENT, USUAL_BODY)
SHAPES = ("numbers", "records", "empty-arrays", "names", "long-numbers")


def _source(text: str) -> bytes:
    return json.dumps({"id": "large", "source": text}).encode()


@pytest.fixture(scope="module")
def flows(service: RunningService) -> Flows:
    """What is started has its definition stored already."""
    found = Flows(Api(service.root, a_token(TENANT)))
    found.upload("large-in → large-out", "chain")
    found.upload("answered-in → answered-out", "answered")
    found.upload("* element", "each", concurrency=2)
    found.upload("wait:event (- event: large -) → after", "waits")
    return found


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("verb", ["definitions", "validate"])
def test_a_large_text_leaves_the_loop_free(name: str, verb: str, door: Door) -> None:
    door.require_free(f"POST /v1/flows/{verb}", DEFINITIONS[name]())


def _start(flow: str, name: str) -> bytes:
    return b'{"definitionId":"%b","input":%b}' % (flow.encode(), document(name, LARGEST))


def _start_instance(door: Door, flow: str, name: str) -> Json:
    status, answer = door.send("POST /v1/flows/instances", _start(flow, name))
    assert status == 201, answer[:500]
    return json.loads(answer)


@pytest.mark.parametrize("name", SHAPES)
def test_starting_with_a_large_input_leaves_the_loop_free(name: str, door: Door, flows: Flows) -> None:
    door.require_free("POST /v1/flows/instances", _start("chain", name))


def test_starting_an_iteration_over_much_leaves_the_loop_free(door: Door, flows: Flows) -> None:
    door.require_free("POST /v1/flows/instances", fill('{"definitionId":"each","input":[', record, "]}"))


@pytest.mark.parametrize("name", SHAPES)
def test_a_large_output_leaves_the_loop_free(name: str, door: Door, flows: Flows) -> None:
    def complete() -> None:
        flows.start("answered")
        job = flows.job("answered-in")
        body = b'{"workerId":"w-1","variables":%b}' % document(name, LARGEST)
        assert door.send(f"POST /v1/jobs/{job['id']}/complete", body)[0] == 204
        flows.poll("answered-out", most=1)

    require_free_loop(door.service.loop, complete)


@pytest.mark.parametrize("line", ["", "/history", "/diagram"])
def test_reading_a_large_instance_leaves_the_loop_free(line: str, door: Door, flows: Flows) -> None:
    instance = _start_instance(door, "chain", "records")
    door.require_free(f"GET /v1/flows/instances/{instance['id']}{line}")


def test_events_and_changes_with_large_values_leave_the_loop_free(door: Door, flows: Flows) -> None:
    def send() -> None:
        flows.start("waits")
        body = b'{"event":"large","output":%b}' % document("records", LARGEST)
        status, answer = door.send("POST /v1/flows/events", body)
        assert (status, json.loads(answer)["tasks"]) == (200, 1)

    def change() -> None:
        instance = flows.start("waits")
        flows.do(instance, "terminate")
        flows.do(instance, "terminate")
        body = b'{"node":1,"input":%b}' % document("records", LARGEST)
        assert door.send(f"POST /v1/flows/instances/{instance['id']}/change", body)[0] == 200

    require_free_loop(door.service.loop, send)
    require_free_loop(door.service.loop, change)
