"""The validation rules, each with its exact text (docs/reference/steps.md#validation,
docs/reference/steps.md#rules-for-tables, docs/reference/steps.md#members-that-tables-do-not-have).
"""

import json

import pytest

from statewright.jsonval.values import JsonObject
from statewright.processes.language import Rejection
from statewright.steps import Accepted, accept_definition, accept_text
from statewright.steps.documents import definition_from_document
from statewright.steps.upload import MAX_STEPS
from statewright.steps.validation import HIT_POLICIES, find_violations
from tests.unit.steps.builders import (
    a_definition,
    a_rule,
    a_step,
    decision,
    end,
    fork,
    join,
    service,
    table,
    timer,
    transformation,
    user,
    wait,
)


def found(document: JsonObject) -> list[str]:
    return list(find_violations(definition_from_document(document)))


def of_steps(*steps: JsonObject) -> list[str]:
    return found(a_definition(*steps))


def test_a_valid_definition_has_no_violations():
    assert found(a_definition()) == []


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"id": ""}, "id is required"),
        ({"id": "x" * 301}, "id must be ≤ 256 characters, got 301"),
        ({"id": "my flow"}, 'id "my flow" must match ^[A-Za-z0-9_:\\-]+$'),
        ({"id": "order@v2"}, 'id "order@v2" must match ^[A-Za-z0-9_:\\-]+$'),
        ({"id": "a\n"}, 'id "a\\n" must match ^[A-Za-z0-9_:\\-]+$'),
        ({"name": ""}, "name is required"),
        ({"steps": []}, "steps must not be empty"),
        ({"autoStartNextWorkflow": True}, "nextWorkflowId is required when autoStartNextWorkflow is true"),
    ],
)
def test_rules_1_to_6_are_about_the_definition(members: JsonObject, message: str):
    assert found(a_definition() | members) == [message]


@pytest.mark.parametrize("definition_id", ["LOS::loan-registration-workflow", "greet-workflow", "a_1", "x" * 256])
def test_letters_digits_underscores_colons_and_hyphens_make_an_id(definition_id: str):
    assert found(a_definition(id=definition_id)) == []


def test_rule_7_a_step_without_an_id_is_named_by_its_place_and_not_looked_at_further():
    assert of_steps(service("work", "end"), end(), {"name": "", "type": "NONE"}) == ["step[2] id is required"]


def test_rule_8_step_ids_are_unique():
    assert of_steps(service("score", "end"), service("score", "end"), end()) == ['duplicate step id: "score"']


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (service("score", "end", name=""), 'step "score": name is required'),
        (a_step("score", "MAIL_TASK", nextStep="end"), 'step "score": unsupported type "MAIL_TASK"'),
        (a_step("score", "", nextStep="end"), 'step "score": unsupported type ""'),
        (service("score", "end", jobType=""), 'step "score" (SERVICE_TASK): jobType is required'),
        (
            decision("route", {}, nextStep="end"),
            'step "route" (DECISION): conditionalNextSteps must not be empty',
        ),
        (
            transformation("calc", "end"),
            'step "calc" (TRANSFORMATION): transformations must not be empty',
        ),
        (
            fork("fork", "end", "end"),
            'step "fork" (PARALLEL_GATEWAY): parallelNextSteps must have at least 2 entries',
        ),
        (service("score", "end", jobType="x", joinStep="gone"), 'step "score" joinStep references unknown step "gone"'),
    ],
)
def test_rules_9_to_12_14_and_15_are_about_a_single_step(step: JsonObject, message: str):
    assert of_steps(step, end()) == [message]


@pytest.mark.parametrize(
    ("step", "step_type"),
    [
        (transformation("calc", "", x=1), "TRANSFORMATION"),
        (wait("calc", ""), "WAIT"),
        (join("calc", ""), "JOIN_GATEWAY"),
        (table("calc", "", a_rule()), "DECISION_TABLE"),
    ],
)
def test_rule_13_some_types_need_a_next_step(step: JsonObject, step_type: str):
    assert of_steps(service("first", conditionalNextSteps={"a": "calc", "b": "end"}), step, end()) == [
        f'step "calc" ({step_type}): nextStep is required'
    ]


def test_what_goes_into_an_index_is_short():
    long = "x" * 257
    tagged: JsonObject = {"dispatch": {"rate": {"calculationNodesTags": long}}}
    assert of_steps(service("a", "end", jobType=long), end()) == ['step "a": jobType must be ≤ 256 characters, got 257']
    assert found(a_definition(service("a", "end", jobType="rate"), end(), metadata=tagged)) == [
        'step "a": metadata.dispatch of its jobType: calculationNodesTags must be ≤ 256 characters, got 257'
    ]


def test_rule_16_a_gateway_needs_a_join():
    assert of_steps(fork("fork", "", "a", "end"), service("a", "end"), end()) == [
        'step "fork" (PARALLEL_GATEWAY): joinStep is required'
    ]


@pytest.mark.parametrize(
    ("step", "reference"),
    [
        (service("score", "gone"), "nextStep"),
        (user("score", "gone"), "nextStep"),
        (wait("score", "gone"), "nextStep"),
        (join("score", "gone"), "nextStep"),
        (transformation("score", "gone", x=1), "nextStep"),
        (table("score", "gone", a_rule()), "nextStep"),
        (decision("score", {"true": "gone"}), "conditionalNextSteps target"),
        (service("score", "end", conditionalNextSteps={"true": "gone"}), "conditionalNextSteps target"),
        (fork("score", "gone", "end", "end"), "joinStep"),
        (fork("score", "end", "end", "gone"), "parallelNextSteps"),
        (service("score", "end", boundaryEvents=[timer("PT1H", "gone")]), "boundaryEvents[0].targetStepId"),
    ],
)
def test_rule_17_every_reference_resolves(step: JsonObject, reference: str):
    first = service("first", conditionalNextSteps={"a": "score", "b": "end"})
    assert of_steps(first, step, end()) == [f'step "score" {reference} references unknown step "gone"']


def test_rule_17_covers_references_that_the_type_of_a_step_does_not_follow():
    assert of_steps(decision("route", {"true": "end"}, nextStep="gone"), end()) == [
        'step "route" nextStep references unknown step "gone"'
    ]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"type": "SIGNAL"}, ': unsupported type "SIGNAL" (only TIMER is in scope)'),
        ({"type": ""}, ': unsupported type "" (only TIMER is in scope)'),
        ({"duration": ""}, ": duration is required for TIMER events"),
        ({"duration": "5 minutes"}, ': invalid ISO-8601 duration "5 minutes"'),
        ({"targetStepId": ""}, ": targetStepId is required"),
    ],
)
def test_rules_18_to_20_are_about_boundary_events(event: JsonObject, message: str):
    events = [timer("PT1H", "end"), timer("PT1H", "end") | event]
    assert of_steps(service("score", "end", boundaryEvents=[*events]), end()) == [
        f'step "score" boundaryEvents[1]{message}'
    ]


def test_rule_21_every_step_is_reachable():
    assert of_steps(service("work", "end"), user("island", "beach"), service("beach", "end"), end()) == [
        'step "island" is unreachable from the first step',
        'step "beach" is unreachable from the first step',
    ]


def test_rule_22_an_end_is_reachable():
    assert of_steps(service("work", "work")) == ["no END step is reachable from the first step"]


def test_reachability_follows_every_kind_of_reference():
    steps = (
        fork("fork", "join", "a", "b"),
        service("a", "join", boundaryEvents=[timer("PT1H", "late")]),
        decision("b", {"true": "c", "false": "join"}),
        service("c", "join"),
        service("late", "join"),
        join("join", "end"),
        end(),
    )
    assert of_steps(*steps) == []


def test_a_chain_of_tens_of_thousands_of_steps_is_walked_without_recursion():
    steps = [service(f"s{n}", f"s{n + 1}") for n in range(20_000)]
    assert of_steps(*steps, end("s20000")) == []


def test_boundary_events_are_accepted_on_any_step_but_a_decision_table():
    events = {"boundaryEvents": [timer("PT1H", "end")]}
    steps = (decision("route", {"true": "calc"}, **events), transformation("calc", "end", x=1) | events, end())
    assert of_steps(*steps) == []


@pytest.mark.parametrize("policy", HIT_POLICIES)
def test_all_nine_hit_policies_are_recognised(policy: str):
    assert of_steps(table("t", "end", a_rule(), hitPolicy=policy), end()) == []


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("Z", 'unsupported hitPolicy "Z"'),
        ("u", 'unsupported hitPolicy "u"'),
        ("C*", 'unsupported hitPolicy "C*"'),
        ("Z+", 'unsupported hitPolicy "Z+"'),
        ("U+", "aggregator suffix is only valid on hitPolicy C"),
        ("F#", "aggregator suffix is only valid on hitPolicy C"),
        ("A>", "aggregator suffix is only valid on hitPolicy C"),
        ("R<", "aggregator suffix is only valid on hitPolicy C"),
    ],
)
def test_other_hit_policies_are_not(policy: str, message: str):
    assert of_steps(table("t", "end", a_rule(), hitPolicy=policy), end()) == [f'step "t" (DECISION_TABLE): {message}']


@pytest.mark.parametrize("decision_table", [None, {}, {"rules": []}])
def test_a_decision_table_has_rules(decision_table: "JsonObject | None"):
    step = a_step("t", "DECISION_TABLE", nextStep="end", decisionTable=decision_table)
    assert of_steps(step, end()) == ['step "t" (DECISION_TABLE): decisionTable.rules must not be empty']


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("conditionalNextSteps", {"true": "end"}),
        ("transformations", {"x": 1}),
        ("parallelNextSteps", ["end"]),
        ("joinStep", "end"),
        ("jobType", "x"),
        ("delegateClass", "x"),
        ("retryCount", 1),
        ("boundaryEvents", [timer("PT1H", "end")]),
    ],
)
def test_members_of_other_types_are_not_allowed_on_a_decision_table(name: str, value: object):
    step = table("t", "end", a_rule()) | {name: value}
    assert of_steps(step, end()) == [f'step "t" (DECISION_TABLE): {name} is not allowed']


def test_empty_members_of_other_types_are_allowed_on_a_decision_table():
    step = table("t", "end", a_rule(), jobType="", retryCount=0, boundaryEvents=[], transformations={})
    assert of_steps(step, end()) == []


def test_members_of_other_types_are_accepted_and_ignored_elsewhere():
    assert of_steps(end() | {"jobType": "x", "retryCount": 3, "hitPolicy": "Z", "transformations": {"x": 1}}) == []


def test_messages_come_in_the_order_of_the_rules_and_within_a_step_in_the_order_of_its_members():
    document = a_definition(
        {"type": "END"},
        fork("fork", "", "gone"),
        service("fork", "lost", name="", jobType="", boundaryEvents=[timer("", "gone", interrupting=True)]),
        id="",
        autoStartNextWorkflow=True,
    )
    assert found(document) == [
        "id is required",
        "nextWorkflowId is required when autoStartNextWorkflow is true",
        "step[0] id is required",
        'duplicate step id: "fork"',
        'step "fork" (PARALLEL_GATEWAY): parallelNextSteps must have at least 2 entries',
        'step "fork" (PARALLEL_GATEWAY): joinStep is required',
        'step "fork" parallelNextSteps references unknown step "gone"',
        'step "fork": name is required',
        'step "fork" (SERVICE_TASK): jobType is required',
        'step "fork" nextStep references unknown step "lost"',
        'step "fork" boundaryEvents[0]: duration is required for TIMER events',
        'step "fork" boundaryEvents[0].targetStepId references unknown step "gone"',
    ]


def test_all_violations_are_told_together():
    outcome = accept_text(json.dumps({"steps": []}))
    assert isinstance(outcome, Rejection)
    assert outcome.reason == (
        "validation error: validation errors:\n  id is required\n  name is required\n  steps must not be empty"
    )


def test_over_grpc_the_reason_does_without_its_prefix():
    outcome = accept_definition(definition_from_document({"id": "a", "name": "b", "steps": []}))
    assert outcome == Rejection("bad-request", "validation errors:\n  steps must not be empty")


def test_what_is_accepted_comes_with_its_content_hash():
    outcome = accept_definition(definition_from_document(a_definition()))
    assert isinstance(outcome, Accepted)
    assert len(outcome.content) == 64


def test_expressions_variables_and_cycles_are_not_checked():
    assert (
        of_steps(decision("route", {"((": "calc", "x": "end"}), transformation("calc", "route", x="${)}"), end()) == []
    )


def test_quotes_in_names_are_escaped():
    assert of_steps(service('a"b', "c\\d"), end())[0] == 'step "a\\"b" nextStep references unknown step "c\\\\d"'


def test_a_definition_of_too_many_steps_is_refused_by_their_number():
    steps = [service(f"s{n}", f"s{n + 1}") for n in range(MAX_STEPS)]
    document = {"id": "many", "name": "Many", "steps": [*steps, end(f"s{MAX_STEPS}")]}
    outcome = accept_text(json.dumps(document))
    assert isinstance(outcome, Rejection)
    assert outcome.reason == "validation error: validation errors:\n  steps must be ≤ 10000, got 10001"
    document["steps"] = [*steps[1:], end(f"s{MAX_STEPS}")]
    assert isinstance(accept_text(json.dumps(document)), Accepted)
