"""Calculation members that die, keep silent, repeat themselves or talk nonsense, in every execution mode.

Each test plays one fault with an entity for each mode. The outcomes are the table of docs/transactions.md.
"""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from statewright.proto.cloudevents_pb2 import CloudEvent
from tests.builders import a_processor
from tests.database import Template, kept_open
from tests.e2e.faults import (
    BEFORE_THE_CALL,
    DONE,
    DONE_IN_TWO,
    FAILED_ON_RECORD,
    MODES,
    RAN,
    RESULT,
    ROLLED_BACK,
    WENT_ON,
    Held,
    Stage,
    Told,
    by_mode,
    taken,
)
from tests.e2e.program import started
from tests.integration.node import Node, Request
from tests.service import eventually

BRIEF_MS = 2000
"""A reply deadline that every callout reaches its member in, also on a busy machine."""

LARGEST = 6_000_000
"""The largest message that the program takes."""

OK = Told(200)
FAILED = Told(400, "WORKFLOW_FAILED")
NOBODY = Told(503, "NO_COMPUTE_MEMBER_FOR_TAG", retryable=True)
LOST = Told(503, "COMPUTE_MEMBER_DISCONNECTED", retryable=True)
LOST_BETWEEN = Told(400, "WORKFLOW_FAILED", cause="COMPUTE_MEMBER_DISCONNECTED")
LATE = Told(400, "WORKFLOW_FAILED", cause="DISPATCH_TIMEOUT")
OVERTAKEN = Told(409, "CONFLICT", retryable=True)
STALE = Told(412, "ENTITY_MODIFIED")

ANSWER = {"type": "JSON", "data": RESULT}
ERROR = {"code": "E", "message": "out of stock"}

WORKING = """
import time
from pathlib import Path
from statewright.sdk import Node

node = Node(tags=["{tag}"])

@node.processor("work")
def work(document, context):
    Path(f"working-{{context.entity_id}}").touch()
    time.sleep(120)
"""

MAYFLY = """
from statewright.sdk import Node

node = Node(tags=["mayfly"])

@node.processor("work")
def work(document):
    return document | {"motivation": "processed"}
"""


@pytest.fixture(scope="module")
def stage(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One program for all faults of this module: none of them may leave it worse than it was."""
    home = tmp_path_factory.mktemp("program")
    with (
        kept_open(database_template.clone()) as database,
        started(home, POSTGRES_URL=database, GRPC_MAX_MESSAGE_BYTES=str(LARGEST)) as program,
    ):
        stage = Stage(program.ready(), database)
        yield stage
        stage.clients.shutdown()
        assert program.terminate() == 0
        assert program.errors == []


def test_a_member_that_answers_with_an_error(stage: Stage) -> None:
    cases = stage.cases("failing")
    with stage.member("failing") as node:
        stage.fire(cases)
        for request in taken(node, cases):
            node.answer(request, success=False, error=ERROR)
        assert stage.outcomes(cases) == by_mode(
            fatal=(FAILED, ROLLED_BACK), savepoint=(OK, WENT_ON), between=(FAILED, FAILED_ON_RECORD)
        )


def test_callbacks_of_a_processor_that_fails(stage: Stage) -> None:
    """Only those that were outside of any transaction have lasted."""
    cases = stage.cases("noting")
    with stage.member("noting") as node:
        stage.fire(cases)
        requests = taken(node, cases)
        stage.call_back(requests, cases, note="failing")
        for request in requests:
            node.answer(request, success=False, error=ERROR)
        assert stage.outcomes(cases) == by_mode(
            fatal=(FAILED, ROLLED_BACK), savepoint=(OK, WENT_ON), between=(FAILED, FAILED_ON_RECORD)
        )
        assert stage.notes("failing") == {"COMMIT_BEFORE_DISPATCH"}


def test_callbacks_of_a_processor_that_succeeds(stage: Stage) -> None:
    cases = stage.cases("noting-well")
    with stage.member("noting-well") as node:
        stage.fire(cases)
        requests = taken(node, cases)
        stage.call_back(requests, cases, note="succeeding")
        assert stage.notes("succeeding") == {"COMMIT_BEFORE_DISPATCH"}
        for request in requests:
            node.answer(request, payload=ANSWER)
        assert {case.told for case in cases} == {OK}
        assert stage.notes("succeeding") == set(MODES)


def test_callbacks_of_a_run_that_fails_later(stage: Stage) -> None:
    cases = stage.cases("noting-first", then=[a_processor("rest", tags="failing-last")])
    with stage.member("noting-first") as node, stage.member("failing-last") as last:
        stage.fire(cases)
        requests = taken(node, cases)
        stage.call_back(requests, cases, note="failing later")
        for request in requests:
            node.answer(request, payload=ANSWER)
        for request in taken(last, cases):
            last.answer(request, success=False, error=ERROR)
        assert {case.told for case in cases} == {FAILED}
        assert stage.notes("failing later") == {"COMMIT_BEFORE_DISPATCH"}


def test_a_node_that_was_killed_before_the_dispatch(stage: Stage, tmp_path: Path) -> None:
    cases = stage.cases("gone")
    left = stage.program.log.count("member_left")
    with stage.node_program(tmp_path, "working", WORKING.format(tag="gone")) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    eventually(lambda: stage.program.log.count("member_left") > left)
    stage.fire(cases)
    assert stage.outcomes(cases) == by_mode(
        fatal=(NOBODY, ROLLED_BACK), savepoint=(OK, WENT_ON), between=(NOBODY, FAILED_ON_RECORD)
    )


def test_a_node_that_is_killed_while_it_works(stage: Stage, tmp_path: Path) -> None:
    cases = stage.cases("killed")
    with stage.node_program(tmp_path, "working", WORKING.format(tag="killed")) as process:
        stage.fire(cases)
        eventually(lambda: all((tmp_path / f"working-{case.id}").exists() for case in cases))
        process.send_signal(signal.SIGKILL)
        assert stage.outcomes(cases) == by_mode(
            fatal=(LOST, ROLLED_BACK), savepoint=(OK, WENT_ON), between=(LOST_BETWEEN, FAILED_ON_RECORD)
        )


def test_a_node_that_is_killed_after_its_answer(stage: Stage, tmp_path: Path) -> None:
    cases = stage.cases("mayfly", then=[a_processor("rest", tags="steady")])
    with stage.member("steady") as steady, stage.node_program(tmp_path, "mayfly", MAYFLY) as process:
        stage.fire(cases)
        requests = taken(steady, cases)
        process.send_signal(signal.SIGKILL)
        process.wait()
        for request in requests:
            steady.answer(request)
        assert stage.outcomes(cases) == by_mode(
            fatal=(OK, twice(DONE)), savepoint=(OK, twice(WENT_ON)), between=(OK, twice(DONE_IN_TWO))
        )


def twice(held: Held) -> Held:
    """The same after two processors."""
    at = held.events.index(RAN)
    return replace(held, events=(*held.events[:at], RAN, *held.events[at:]))


def test_a_member_that_hangs_and_answers_late(stage: Stage) -> None:
    cases = stage.cases("silent", responseTimeoutMs=BRIEF_MS)
    with stage.member("silent") as node:
        stage.fire(cases)
        requests = taken(node, cases)
        expected = by_mode(fatal=(LATE, ROLLED_BACK), savepoint=(OK, WENT_ON), between=(LATE, FAILED_ON_RECORD))
        assert stage.outcomes(cases) == expected
        for request in requests:  # too late: nobody waits any more
            node.answer(request, payload=ANSWER)
        assert_still_serving(stage, node, "silent")
        assert stage.outcomes(cases) == expected


def assert_still_serving(stage: Stage, node: Node, tag: str) -> None:
    """The same stream still brings callouts and takes answers; everything said before has been read by then."""
    cases = stage.cases(tag)
    stage.fire(cases)
    for _ in cases:
        node.return_next(RESULT)
    assert {case.told for case in cases} == {OK}


def test_a_member_that_answers_with_garbage(stage: Stage) -> None:
    """What names no callout is ignored; what names one and cannot be used fails it."""
    cases = stage.cases("babbling")
    with stage.member("babbling") as node:
        stage.fire(cases)
        for request in taken(node, cases):
            for event in garbage(request):
                node.send(event)
        assert stage.outcomes(cases) == by_mode(
            fatal=(FAILED, ROLLED_BACK), savepoint=(OK, WENT_ON), between=(FAILED, FAILED_ON_RECORD)
        )
        assert_still_serving(stage, node, "babbling")


def garbage(request: Request) -> list[CloudEvent]:
    """Answers that are none; the last one says whose it would be."""
    kind, unusable = (
        "EntityProcessorCalculationResponse",
        f'{{"requestId": "{request["requestId"]}", "success": "yes"}}',
    )
    return [
        *(an_event(kind, text_data=text) for text in ("", "{", "[]", "null", '{"success": true}')),
        an_event(kind),
        an_event(kind, binary_data=b"\xff\x00"),
        an_event("NoSuchEvent", text_data="{}"),
        an_event(kind, text_data=unusable),
    ]


def an_event(kind: str, **data: str | bytes) -> CloudEvent:
    """Any event."""
    return CloudEvent(id="g", source="node", spec_version="1.0", type=kind, **data)


def test_a_member_that_answers_twice(stage: Stage) -> None:
    cases = stage.cases("repeating")
    with stage.member("repeating") as node:
        stage.fire(cases)
        for request in taken(node, cases):
            node.answer(request, payload=ANSWER)
            node.answer(request, payload={"type": "JSON", "data": {**RESULT, "motivation": "second thoughts"}})
            node.answer(request, success=False, error=ERROR)
        expected = by_mode(fatal=(OK, DONE), savepoint=(OK, WENT_ON), between=(OK, DONE_IN_TWO))
        assert stage.outcomes(cases) == expected
        assert_still_serving(stage, node, "repeating")
        assert stage.outcomes(cases) == expected


def test_a_member_that_answers_with_five_megabytes(stage: Stage) -> None:
    text = "x" * 5_000_000
    cases = stage.cases("heavy")
    with stage.member("heavy") as node:
        stage.fire(cases)
        for request in taken(node, cases):
            node.answer(request, payload={"type": "JSON", "data": {**RESULT, "motivation": text}})
        whole, in_two = replace(DONE, motivation=text), replace(DONE_IN_TWO, motivation=text)
        expected = by_mode(fatal=(OK, whole), savepoint=(OK, WENT_ON), between=(OK, in_two))
        assert (stage.outcomes(cases) == expected) is True  # which spares a failure the comparison of megabytes


def test_a_member_whose_answer_is_over_the_limit(stage: Stage) -> None:
    """It ends the stream, and with it every call that is under way there."""
    cases = stage.cases("too-heavy")
    with stage.member("too-heavy") as node:
        stage.fire(cases)
        first, *_ = taken(node, cases)
        node.answer(first, payload={"type": "JSON", "data": {"motivation": "x" * (LARGEST + 1)}})
        assert stage.outcomes(cases) == by_mode(
            fatal=(LOST, ROLLED_BACK), savepoint=(OK, WENT_ON), between=(LOST_BETWEEN, FAILED_ON_RECORD)
        )
        eventually(lambda: node.ending is not None)
        assert node.ending == "RESOURCE_EXHAUSTED"


def test_somebody_else_writes_the_entity_during_the_call(stage: Stage) -> None:
    cases = stage.cases("overtaken")
    with stage.member("overtaken") as node:
        stage.fire(cases)
        requests = taken(node, cases)
        meanwhile = {case.id: stage.api.update(case.id, {**RESULT, "motivation": "meanwhile"}) for case in cases}
        for request in requests:
            node.answer(request, payload=ANSWER)
        found = stage.outcomes(cases)
    for case in cases:
        told, held = found[case.mode]
        mine = tuple(event for event in stage.events(case) if event not in stage.events(case, meanwhile[case.id]))
        assert told == OVERTAKEN, case.mode
        versions, events = (3, BEFORE_THE_CALL.events) if "BEFORE" in case.mode else (2, ())
        assert (held.state, held.motivation, held.timers) == ("NEW", "meanwhile", ("NEW",)), case.mode
        assert (held.versions, tuple(event for event, _ in mine)) == (versions, events), case.mode


def test_the_client_demands_a_version_that_is_gone(stage: Stage) -> None:
    cases = stage.cases("stale")
    with stage.member("stale") as node:
        for case in cases:
            stage.api.update(case.id)
            before = stage.held(case)
            stage.fire([case], If_Match=case.created_in)
            if "BEFORE" not in case.mode:
                # compared when the run is saved, as ever (docs/reference/workflows.md#preconditions)
                node.answer_next(payload=ANSWER)
            assert (case.told, stage.held(case)) == (STALE, before), case.mode
        assert node.is_idle


def test_a_later_processor_of_the_run_fails(stage: Stage) -> None:
    cases = stage.cases("failing-later", then=[a_processor("rest", tags="last")])
    with stage.member("failing-later") as node, stage.member("last") as last:
        stage.fire(cases)
        for request in taken(node, cases):
            node.answer(request, payload=ANSWER)
        for request in taken(last, cases):
            last.answer(request, success=False, error=ERROR)
        assert stage.outcomes(cases) == by_mode(
            fatal=(FAILED, ROLLED_BACK), savepoint=(FAILED, ROLLED_BACK), between=(FAILED, BEFORE_THE_CALL)
        )
