"""The tables of docs/reference/conditions.md#which-stored-values-an-operator-can-match: which stored kinds an
operator can match at all.
"""

import pytest

from statewright.conditions import parse
from statewright.conditions.checks import check
from statewright.conditions.syntax import OPERATORS, PRESENCE, RANGES
from statewright.failures import ConditionTypeMismatch
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import fields, matches, matching, simple
from tests.unit.conditions.reference import EVERYTHING, KINDS, OPERANDS, PAGE, page

ORDERING = ("GREATER_THAN", "GREATER_OR_EQUAL", "LESS_THAN", "LESS_OR_EQUAL", "BETWEEN", "BETWEEN_INCLUSIVE")
MATCHABLE = {
    "IS_NULL": {"null"},
    "NOT_NULL": {"number", "string", "boolean", "array", "object"},
    "EQUALS": {"number", "string", "boolean"},
    "NOT_EQUAL": {"number", "string", "boolean"},
    **{operator: {"number", "string"} for operator in ORDERING},
}
"""Operator -> kinds; the others are text operators."""


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_matches_only_stored_values_of_its_kinds(operator: str, kind: str):
    operands: list[JsonValue] = [[a, b] for a in OPERANDS for b in OPERANDS] if operator in RANGES else OPERANDS
    can_match = any(matching(KINDS[kind], EVERYTHING, operator, operand) for operand in operands)
    assert can_match is (kind in MATCHABLE.get(operator, {"string"}))


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_absent_member_is_matched_by_is_null_alone(operator: str):
    condition = simple("$.v", operator, ["", ""] if operator in RANGES else "")
    assert matches(condition, {}, fields(v=EVERYTHING)) is (operator == "IS_NULL")
    assert matches(condition, {"v": None}, fields(v=EVERYTHING)) is (operator == "IS_NULL")


@pytest.mark.parametrize("operator", sorted(PRESENCE))
def test_presence_ignores_operand_and_types(operator: str):
    for operand in (None, "x", [], [1, 2, 3]):
        assert matches(simple("$.v", operator, operand), {"v": []}) is (operator == "NOT_NULL")


@pytest.mark.parametrize(
    ("declared", "operand", "kinds"),
    [
        ("INTEGER", 17, "number"),
        ("DOUBLE", 17, "number"),
        ("UNBOUND_DECIMAL", 17, "number"),
        *(("STRING", operand, "string") for operand in (17, "abc", True, "2031-05-06")),
        ("BOOLEAN", True, "boolean"),
        ("LOCAL_DATE", "2031-05-06", "date"),
        ("INTEGER STRING", 17, "number string"),
        *(("INTEGER STRING", operand, "string") for operand in ("abc", True, "2031-05-06")),
        *(("BOOLEAN STRING", operand, "string") for operand in (17, "abc", "2031-05-06")),
        ("BOOLEAN STRING", True, "boolean string"),
        *(("LOCAL_DATE STRING", operand, "string") for operand in (17, "abc", True, "2031-05-06")),
    ],
)
def test_the_declared_types_decide_what_an_operand_can_equal(declared: str, operand: JsonValue, kinds: str):
    check(parse(simple("$.v", "EQUALS", operand)), fields(v=declared))
    stored: list[JsonValue] = [17, True, "17", "abc", "true", "2031-05-06", None, [17], {"v": 17}]
    kind_of = {int: "number", bool: "boolean", str: "string"}
    found = {kind_of[type(value)] for value in matching(stored, declared, "EQUALS", operand)}
    assert found == {"string" if kind == "date" else kind for kind in kinds.split()}


@pytest.mark.parametrize(
    ("declared", "operand"),
    [
        *(("INTEGER", operand) for operand in ("abc", True, "2031-05-06")),
        *(("BOOLEAN", operand) for operand in (17, "abc", "2031-05-06")),
        *(("LOCAL_DATE", operand) for operand in (17, "abc", True)),
        *(("NULL", operand) for operand in (17, "abc", True, "2031-05-06")),
    ],
)
def test_an_operand_that_means_nothing_to_the_declared_types_is_refused(declared: str, operand: JsonValue):
    with pytest.raises(ConditionTypeMismatch):
        check(parse(simple("$.v", "EQUALS", operand)), fields(v=declared))


@pytest.mark.parametrize("operand", [17, "abc", True, "2031-05-06"])
def test_without_declared_types_comparisons_match_nothing(operand: JsonValue):
    for operator in ("EQUALS", "NOT_EQUAL", "LESS_THAN", "GREATER_OR_EQUAL"):
        assert not any(matches(simple("$.v", operator, operand), {"v": stored}) for stored in (17, "abc", True))


def test_a_year_is_no_mismatch_on_a_time_of_day_and_matches_nothing():
    check(parse(simple("$.v", "NOT_EQUAL", 2031)), fields(v="LOCAL_TIME"))
    assert matching(["10:30", "2031"], "LOCAL_TIME", "NOT_EQUAL", 2031) == []


def test_the_reference_says_what_the_evaluator_does():
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.unit.conditions.reference"
