"""Criteria at import: what is refused, what is warned of, what is left alone
(docs/reference/workflows.md#checks-of-criteria, decision W11).
"""

import pytest

from statewright.conditions import KnownFields
from statewright.failures import ValidationFailed
from statewright.jsonval.values import DataType, JsonObject, JsonValue
from statewright.schema.node import DeclaredField
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


MODEL = KnownFields(
    {
        "$.kind": DeclaredField(types=frozenset({DataType.STRING})),
        "$.total": DeclaredField(types=frozenset({DataType.INTEGER})),
        "$.lines[*].weight": DeclaredField(types=frozenset({DataType.DOUBLE})),
        "$.route[*]": DeclaredField(types=frozenset({DataType.STRING}), is_array=True),
    }
)


def check(workflow: JsonObject, fields: KnownFields | None = None) -> tuple[str, ...]:
    return tuple(f"{find.workflow}: {find.message}" for find in check_incoming(a_request(workflow), fields))


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
    first, second = check_incoming(a_request(workflow))
    assert (first.workflow, first.state, first.transition) == ("parcel", None, None)
    assert (second.workflow, second.state, second.transition) == ("parcel", "A", "go")
    assert first.message.startswith(text)
    assert second.message.startswith(text)


NO_CONDITIONS = [{"type": "oracle"}, {}, "$.total > 1", 7, [], within({"type": "group"}, depth=60)]


@pytest.mark.parametrize("criterion", NO_CONDITIONS)
def test_the_strict_contract_refuses_what_is_no_condition(criterion):
    with pytest.raises(ValidationFailed) as refused:
        check(with_transition(a_transition(criterion=criterion)))
    assert refused.value.message.startswith(f"{AT_TRANSITION}: criterion cannot be evaluated: ")


@pytest.mark.parametrize("criterion", NO_CONDITIONS)
def test_the_seed_contract_warns_of_what_is_no_condition(criterion):
    (warning,) = check(with_transition(a_transition(criterion=criterion), version=SEED))
    assert warning.startswith("parcel: criterion cannot be evaluated: ")


@pytest.mark.parametrize("version", ["1.3", SEED])
@pytest.mark.parametrize(
    ("criterion", "text"),
    [
        (simple("EQUALS", 1, path="$.colour"), 'the model has no field "$.colour"'),
        (simple("IS_NULL", None, path="$.colour"), 'the model has no field "$.colour"'),
        (
            simple("GREATER_THAN", "many", path="$.total"),
            'operand "many" of $.total fits none of its declared types [INTEGER]',
        ),
        (
            simple("EQUALS", "x", path="$.lines"),
            "field path $.lines is an object or array: only IS_NULL and NOT_NULL apply to it",
        ),
        ({"type": "array", "jsonPath": "$.stops", "values": ["OSL"]}, 'the model has no field "$.stops"'),
        (
            {"type": "function", "function": {"name": "f"}},
            'function "f" has no calculationNodesTags: any member of the tenant may be asked',
        ),
        (
            {"type": "function", "name": "f"},
            "the function has no name, which is in function.name: no member knows it",
        ),
    ],
)
def test_what_matches_nothing_of_the_model_is_a_finding_and_no_refusal(criterion, text, version):
    assert check(with_transition(a_transition(criterion=criterion), version=version), MODEL) == (f"parcel: {text}",)


@pytest.mark.parametrize(
    "criterion",
    [
        simple("EQUALS", "parcel"),
        simple("BETWEEN", "1,5", path="$.total"),
        simple("GREATER_THAN", 12.5, path="$.lines[*].weight"),
        simple("NOT_NULL", None, path="$.lines[0]"),
        simple("IS_NULL", None, path="route"),
        {"type": "array", "jsonPath": "$.route", "values": ["OSL", None]},
        {"type": "function", "function": {"name": "f", "config": {"calculationNodesTags": "risk"}}},
        lifecycle("state", "EQUALS", "A"),
    ],
)
def test_what_fits_the_model_is_no_finding(criterion):
    assert check(with_transition(a_transition(criterion=criterion), criterion=criterion), MODEL) == ()


def test_findings_are_bounded():
    criterion = {"type": "group", "operator": "OR", "conditions": [simple("EQUALS", 1, path="x" * 5000)] * 500}
    found = check_incoming(a_request(a_workflow(criterion=criterion)), MODEL)
    assert len(found) == 100
    assert max(len(finding.message) for finding in found) < 1100


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


def test_patterns_that_take_too_long_to_compile_together_are_refused():
    parts: list[JsonValue] = [simple("MATCHES_PATTERN", rf"{number}\pL{{1,100}}") for number in range(60)]
    condition: JsonObject = {"type": "group", "operator": "OR", "conditions": parts}
    for workflow in (a_workflow(criterion=condition), with_transition(a_transition(criterion=condition))):
        with pytest.raises(ValidationFailed, match="too long to compile"):
            check(workflow)
