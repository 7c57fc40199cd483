"""Groups, positional arrays, and what cannot be evaluated (docs/reference/conditions.md#group,
docs/reference/conditions.md#array, docs/reference/conditions.md#groups-of-values).
"""

import pytest

from statewright.conditions import EvaluationError
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import a_field, array, fields, group, lifecycle, matches, simple

YES = lifecycle("state", "EQUALS", "PACKED")
NO = lifecycle("state", "EQUALS", "NEW")
FUNCTION: JsonValue = {"type": "function", "function": {"name": "f"}}
ROUTE = {"$.route[*]": a_field("STRING")}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (group("AND"), True),
        (group("OR"), False),
        (group("AND", YES), True),
        (group("AND", YES, NO), False),
        (group("OR", NO, YES), True),
        (group("OR", NO, NO), False),
        (group("OR", NO, group("AND")), True),
        (group("AND", YES, group("OR")), False),
        (group("AND", YES, group("OR", NO, YES), YES), True),
        (group("and", YES, NO), False),
        (group("Or", YES, NO), True),
    ],
)
def test_and_needs_all_and_or_needs_one(condition: JsonValue, expected: bool):
    assert matches(condition, {}) is expected


def test_a_leaf_that_can_match_nothing_makes_an_and_false_and_is_inert_in_an_or():
    mismatch = simple("$.n", "EQUALS", "abc")
    assert not matches(group("AND", YES, mismatch), {"n": 1}, fields(n="INTEGER"))
    assert matches(group("OR", mismatch, YES), {"n": 1}, fields(n="INTEGER"))


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (simple("$.a", "IS_CHANGED"), 'unknown operator "IS_CHANGED"'),
        (simple("$.a", "equals"), 'unknown operator "equals"'),
        (simple("$.a", ""), "condition has no operator"),
        (lifecycle("state", "NOT_EQUALS"), 'unknown operator "NOT_EQUALS"'),
        (lifecycle("version", "EQUALS", 1), 'unknown meta filter field "version"'),
        (simple("$.a", "MATCHES_PATTERN", "(?=x)"), "invalid MATCHES_PATTERN regex"),
        (group("NOT", YES), 'unknown group operator "NOT"'),
        (group(""), "unknown group operator"),
        (FUNCTION, "function"),
        (group("AND", FUNCTION), "function"),
    ],
)
def test_what_cannot_be_judged_is_an_error_of_the_evaluation(condition: JsonValue, reason: str):
    with pytest.raises(EvaluationError, match=reason):
        matches(condition, {"a": "x"})


def test_a_group_that_is_decided_does_not_get_to_what_cannot_be_judged():
    assert not matches(group("AND", NO, FUNCTION), {})
    assert matches(group("OR", YES, group("NOT")), {})
    with pytest.raises(EvaluationError):
        matches(group("OR", NO, FUNCTION), {})


@pytest.mark.parametrize(
    ("values", "route", "expected"),
    [
        (["OSL", None, "BGO"], ["OSL", "TRD", "BGO"], True),
        (["OSL", None, "BGO"], ["OSL", None, "BGO", "SVG"], True),
        (["OSL", None, "BGO"], ["OSL", "TRD"], False),
        (["OSL", None, "BGO"], ["BGO", "TRD", "OSL"], False),
        (["OSL"], [], False),
        (["OSL"], "OSL", False),
        (["OSL"], None, False),
        (["OSL"], {"0": "OSL"}, False),
        ([None, None], None, True),
        ([], "OSL", True),
        ([["OSL"]], [["OSL"]], False),
        ([{}], [{}], False),
    ],
)
def test_an_array_condition_compares_position_by_position(values: list[JsonValue], route: JsonValue, expected: bool):
    for path in ("$.route", "route", "$.route[*]"):
        assert matches(array(path, *values), {"route": route}, ROUTE) is expected


def test_elements_compare_like_equals_on_the_declared_element_type():
    declared = {"$.n[*]": a_field("INTEGER"), "$.b[*]": a_field("BOOLEAN STRING")}
    assert matches(array("$.n", "5", 6), {"n": [5, 6]}, declared)
    assert not matches(array("$.n", "x"), {"n": ["x"]}, declared)
    assert matches(array("$.b", "true", "x"), {"b": [True, "x"]}, declared)
    assert not matches(array("$.unknown", "x"), {"unknown": ["x"]}, declared)


def test_arrays_inside_arrays_are_addressed_by_wildcard_or_index():
    declared = {"$.lots[*].route[*]": a_field("STRING")}
    document: JsonValue = {"lots": [{"route": ["OSL"]}, {"route": ["BGO", "TRD"]}, {}]}
    assert matches(array("$.lots[*].route", "BGO"), document, declared)
    assert matches(array("$.lots[1].route", "BGO", "TRD"), document, declared)
    assert not matches(array("$.lots[*].route", "OSL", "TRD"), document, declared)
    assert not matches(array("$.lots[0].route", "BGO"), document, declared)


def test_of_an_array_of_arrays_any_row_may_match():
    declared = {"$.grid[*][*]": a_field("INTEGER")}
    document: JsonValue = {"grid": [[1, 2], [3, 4]]}
    for path in ("$.grid[*]", "$.grid[*][*]", "$.grid[1]"):
        assert matches(array(path, 3, 4), document, declared)
        assert not matches(array(path, 1, 4), document, declared)
