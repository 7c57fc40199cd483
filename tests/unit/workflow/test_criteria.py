"""Criteria at import: what is refused, what is warned of, what is left alone
(docs/reference/workflows.md#checks-of-criteria, decision W11).
"""

import pytest

from statewright.failures import ValidationFailed
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow import check_incoming
from tests.unit.workflow.builders import SEED, a_request, a_transition, a_workflow, with_transition

AT_WORKFLOW = 'workflow "parcel"'
AT_TRANSITION = 'workflow "parcel" state "A" transition "go"'


def simple(operator: str, value: JsonValue, path: str = "$.kind") -> JsonObject:
    return {"type": "simple", "jsonPath": path, "operatorType": operator, "value": value}


def lifecycle(field: str, operator: str, value: JsonValue) -> JsonObject:
    return {"type": "lifecycle", "field": field, "operatorType": operator, "value": value}


def within(condition: JsonObject, depth: int = 2) -> JsonObject:
    for _ in range(depth):
        condition = {"type": "group", "operator": "AND", "conditions": [condition]}
    return condition


def check(workflow: JsonObject) -> tuple[str, ...]:
    return check_incoming(a_request(workflow))


REFUSED = [
    (simple("MATCHES_PATTERN", "(?=x)"), 'invalid MATCHES_PATTERN regex "(?=x)": '),
    (simple("MATCHES_PATTERN", "("), 'invalid MATCHES_PATTERN regex "(": '),
    (lifecycle("colour", "EQUALS", "red"), 'unknown meta filter field "colour": invalid field path'),
    (
        lifecycle("creationDate", "GREATER_THAN", "soon"),
        'operand[0] soon parses into no temporal type for field "creationDate": condition type mismatch',
    ),
]


@pytest.mark.parametrize("wrap", [lambda condition: condition, within], ids=["whole", "in groups"])
@pytest.mark.parametrize(("condition", "text"), REFUSED)
def test_the_strict_contract_refuses_what_can_never_be_evaluated(condition, text, wrap):
    for workflow, place in (
        (a_workflow(criterion=wrap(condition)), AT_WORKFLOW),
        (with_transition(a_transition(criterion=wrap(condition))), AT_TRANSITION),
    ):
        with pytest.raises(ValidationFailed) as refused:
            check(workflow)
        assert refused.value.message.startswith(f"{place}: {text}")


@pytest.mark.parametrize(("condition", "text"), REFUSED)
def test_the_seed_contract_warns_of_it(condition, text):
    workflow = with_transition(a_transition(criterion=condition), version=SEED, criterion=condition)
    first, second = check(workflow)
    assert first.startswith(f"{AT_WORKFLOW}: {text}")
    assert second.startswith(f"{AT_TRANSITION}: {text}")


@pytest.mark.parametrize("version", ["1.3", SEED])
@pytest.mark.parametrize("criterion", [{"type": "oracle"}, {}, "text", 7, [], within({"type": "group"}, depth=60)])
def test_what_is_no_condition_is_accepted_with_a_warning(criterion, version):
    (warning,) = check(with_transition(a_transition(criterion=criterion), version=version))
    assert warning.startswith(f"{AT_TRANSITION}: criterion cannot be evaluated: ")


@pytest.mark.parametrize(
    "criterion",
    [
        None,
        simple("EQUALS", "x"),
        simple("MATCHES_PATTERN", "^a+$"),
        simple("GREATER_THAN", 12.5, path="$.lines[*].weight"),
        lifecycle("creationDate", "CONTAINS", "soon"),
        lifecycle("lastUpdateTime", "LESS_THAN", "2031-04-01"),
        lifecycle("state", "EQUALS", "A"),
        within(simple("EQUALS", "x"), depth=50),
        {"type": "group", "operator": "OR", "conditions": []},
        {"type": "array", "jsonPath": "$.route", "operation": "EQUALS", "value": ["OSL"]},
        {"type": "function", "function": {"name": "f", "config": {"retryPolicy": "LINEAR"}}},
        {"type": "simple", "jsonPath": "$.kind", "operation": "IS_NULL", "value": None},
    ],
)
def test_evaluable_criteria_are_fine(criterion):
    assert check(with_transition(a_transition(criterion=criterion), criterion=criterion)) == ()


def test_structure_is_judged_before_criteria():
    bad = simple("MATCHES_PATTERN", "(")
    with pytest.raises(ValidationFailed, match="initialState"):
        check_incoming(a_request(a_workflow("one", criterion=bad), a_workflow("two", initialState="")))
