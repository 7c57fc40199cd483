"""What an import says of criteria (docs/reference/workflows.md#checks-of-criteria, decision W11)."""

import pytest

from statewright.conditions import find_criterion_defects, parse
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import array, group, lifecycle, simple

FUNCTION: JsonValue = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (simple("$.a", "MATCHES_PATTERN", "(?=x)"), 'invalid MATCHES_PATTERN regex "(?=x)": '),
        (lifecycle("version", "EQUALS", 1), 'unknown meta filter field "version": invalid field path'),
        (
            lifecycle("creationDate", "LESS_THAN", "soon"),
            'operand[0] soon parses into no temporal type for field "creationDate": condition type mismatch',
        ),
        (
            lifecycle("lastUpdateTime", "BETWEEN", ["2031", "soon"]),
            'operand[1] soon parses into no temporal type for field "lastUpdateTime": condition type mismatch',
        ),
        (
            lifecycle("lastUpdateTime", "BETWEEN", "2031, soon"),
            'operand[1] soon parses into no temporal type for field "lastUpdateTime": condition type mismatch',
        ),
        (simple("$.a", "IS_CHANGED"), 'unknown operatorType "IS_CHANGED"; valid: '),
        (simple("$.a", ""), "missing operatorType; valid: "),
        (group("NOT"), 'unknown group operator "NOT"'),
        (group("AND", FUNCTION), 'condition type "function"'),
        (simple("$.a", "EQUALS", {}), "condition value is an object"),
        (simple("$.a", "BETWEEN", "5"), "operator BETWEEN requires exactly two operands"),
        (simple("$.a[?(@.b)]", "EQUALS", 1), 'unsupported field path "$.a[?(@.b)]"'),
        (array("$..a", "x"), 'unsupported field path "$..a"'),
    ],
)
def test_what_can_never_be_evaluated_is_found_wherever_it_stands(condition: JsonValue, message: str):
    for nested in (condition, group("AND", group("OR"), group("OR", condition))):
        (finding,) = find_criterion_defects(parse(nested))
        assert finding.startswith(message)


@pytest.mark.parametrize(
    "condition",
    [
        group("AND"),
        FUNCTION,
        {"type": "function"},
        simple("$.added.by.processor", "EQUALS", "x"),
        simple("a.b[0].c[*]", "LESS_THAN", 5),
        simple("", "IS_NULL"),
        simple("$.a", "BETWEEN", "1,2"),
        lifecycle("creationDate", "BETWEEN", "2031, 2032"),
        lifecycle("creationDate", "CONTAINS", "soon"),
        lifecycle("creationDate", "EQUALS", None),
        lifecycle("state", "EQUALS", "soon"),
        array("$.route", "x", None),
    ],
)
def test_what_may_make_sense_one_day_passes(condition: JsonValue):
    assert list(find_criterion_defects(parse(condition))) == []


def test_all_findings_are_told():
    condition = group("AND", simple("$.a", "REGEXP"), lifecycle("x", "EQUALS"), simple("$.b", "BETWEEN", 1))
    assert len(list(find_criterion_defects(parse(condition)))) == 3
