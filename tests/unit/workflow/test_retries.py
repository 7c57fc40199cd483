import random

import pytest

from statewright.failures import ValidationFailed
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow import Processor, check_incoming
from statewright.workflow.retries import NOTHING_DONE, PERHAPS_DONE, RetryRule, parse_retry
from tests.unit.workflow.builders import (
    SEED,
    STRICT,
    a_processor,
    a_request,
    a_transition,
    a_workflow,
    with_processor,
    with_transition,
)

ASKED: JsonObject = {"type": "function", "function": {"name": "fits", "config": {"calculationNodesTags": "x"}}}


def own(retry: JsonValue) -> JsonObject:
    return {"statewright": {"retry": retry}}


def refusal(workflow: JsonObject) -> str:
    with pytest.raises(ValidationFailed) as refused:
        check_incoming(a_request(workflow))
    return refused.value.message


def test_a_rule_has_defaults():
    assert parse_retry({}) == RetryRule(
        attempts=3, delay_s=0.5, max_delay_s=30, factor=2, jitter=0.2, total_s=60, failover=True, causes=NOTHING_DONE
    )


def test_every_member_of_a_rule_is_read():
    text = b"""{"attempts": 5, "delay": "PT0.2S", "factor": 1.5, "maxDelay": "PT2M", "jitter": 0, "totalTime": "PT10M",
                "failover": false, "on": ["ERROR", "TIMEOUT"]}"""
    assert parse_retry(decode(text)) == RetryRule(
        attempts=5,
        delay_s=0.2,
        max_delay_s=120,
        factor=1.5,
        jitter=0,
        total_s=600,
        failover=False,
        causes=frozenset(("ERROR", "TIMEOUT")),
    )


@pytest.mark.parametrize(
    ("mode", "causes"),
    [("SYNC", NOTHING_DONE), ("ASYNC_NEW_TX", NOTHING_DONE), ("COMMIT_BEFORE_DISPATCH", NOTHING_DONE | PERHAPS_DONE)],
)
def test_without_on_it_depends_on_the_mode_what_is_tried_again(mode, causes):
    processor = Processor(name="price", execution_mode=mode, annotations=own({}))
    assert processor.retry is not None
    assert processor.retry.causes == causes


def test_a_thousand_pauses_keep_to_the_jitter_and_are_not_all_equal():
    rule = RetryRule(delay_s=1, factor=2, max_delay_s=3, jitter=0.25)
    chances = random.Random(7)
    for attempt, middle in [(1, 1), (2, 2), (3, 3), (4, 3)]:
        pauses = [rule.compute_pause_s(attempt, chances.random()) for _ in range(1000)]
        assert all(0.75 * middle <= pause <= 1.25 * middle for pause in pauses)
        assert len(set(pauses)) > 900
        assert min(pauses) < 0.8 * middle
        assert max(pauses) > 1.2 * middle


@pytest.mark.parametrize(
    ("retry", "message"),
    [
        (7, " must be an object"),
        (
            {"attemps": 2},
            ".attemps is unknown; known: attempts, delay, factor, maxDelay, jitter, totalTime, failover, on",
        ),
        ({"attempts": 0}, ".attempts must be an integer from 1 to 20"),
        ({"attempts": 21}, ".attempts must be an integer from 1 to 20"),
        ({"attempts": True}, ".attempts must be an integer from 1 to 20"),
        ({"delay": 5}, ".delay must be an ISO 8601 duration from PT0S to PT10M, such as PT0.5S"),
        ({"delay": "P1M"}, ".delay must be an ISO 8601 duration from PT0S to PT10M, such as PT0.5S"),
        ({"maxDelay": "PT601S"}, ".maxDelay must be an ISO 8601 duration from PT0S to PT10M, such as PT0.5S"),
        ({"totalTime": "PT0.5S"}, ".totalTime must be an ISO 8601 duration from PT1S to PT10M, such as PT0.5S"),
        ({"factor": 0.5}, ".factor must be a number from 1 to 10"),
        ({"jitter": 2}, ".jitter must be a number from 0 to 1"),
        ({"failover": "yes"}, ".failover must be true or false"),
        ({"on": "ERROR"}, ".on must be an array"),
        ({"on": ["OOPS"]}, '.on has "OOPS"; known: NO_MEMBER, NOT_SENT, DISCONNECTED, TIMEOUT, ERROR'),
    ],
)
@pytest.mark.parametrize("version", [STRICT, SEED])
def test_an_import_refuses_a_rule_that_does_not_fit(version, retry, message):
    place = 'workflow "parcel" state "A" transition "go" processor "price": annotations.statewright.retry'
    workflow = with_processor(a_processor(annotations=own(retry))) | {"version": version}
    assert refusal(workflow) == place + message


def test_what_is_stored_already_and_does_not_fit_has_no_effect():
    assert Processor(name="price", annotations=own({"attempts": 99})).retry is None
    assert Processor(name="price", annotations={"statewright": 3}).retry is None


@pytest.mark.parametrize(
    ("workflow", "message"),
    [
        (a_workflow(annotations={"statewright": {"x": 1}}), 'workflow "parcel": annotations.statewright.x is unknown'),
        (
            a_workflow(annotations={"statewright": 1}),
            'workflow "parcel": annotations.statewright must be a JSON object',
        ),
        (
            with_transition(a_transition(annotations=own({}))),
            (
                'workflow "parcel" state "A" transition "go": annotations.statewright.retry is for processors and for '
                "criteria that are functions"
            ),
        ),
        (
            with_transition(a_transition(criterionAnnotations=own({}))),
            (
                'workflow "parcel" state "A" transition "go" criterionAnnotations: annotations.statewright.retry is '
                "for processors and for criteria that are functions"
            ),
        ),
        (
            a_workflow(criterion=ASKED, criterionAnnotations=own({"attempts": "2"})),
            (
                'workflow "parcel" criterionAnnotations: annotations.statewright.retry.attempts must be an integer '
                "from 1 to 20"
            ),
        ),
    ],
)
def test_whatever_the_service_does_not_read_is_refused_below_its_name(workflow, message):
    assert refusal(workflow) == message


def test_criteria_that_members_judge_have_rules_too():
    guarded = a_transition(criterion=ASKED, criterionAnnotations=own({"attempts": 2}))
    request = a_request(with_transition(guarded, criterion=ASKED, criterionAnnotations=own({"attempts": 4})))
    check_incoming(request)
    [workflow] = request.workflows
    transition = workflow.find_transition("A", "go")
    assert workflow.criterion_retry is not None
    assert transition is not None
    assert transition.criterion_retry is not None
    assert (workflow.criterion_retry.attempts, transition.criterion_retry.attempts) == (4, 2)
