"""Comparisons and ranges: every worked example of docs/reference/conditions.md#examples, numbers as decision S1 has
them.
"""

from decimal import Decimal

import pytest

from statewright.conditions import parse
from statewright.conditions.checks import check
from statewright.failures import ConditionTypeMismatch
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import fields, json, matching, simple, value_matches
from tests.unit.conditions.worked_examples import EXAMPLES


@pytest.mark.parametrize(("operator", "operand", "declared", "stored", "expected"), EXAMPLES)
def test_worked_examples(operator: str, operand: str, declared: str, stored: str, expected: bool):
    condition = simple("$.v", operator, json(operand))
    check(parse(condition), fields(v=declared))
    assert value_matches(json(stored), declared, operator, json(operand)) is expected


@pytest.mark.parametrize(
    ("operator", "operand", "declared"),
    [
        ("EQUALS", '"abc"', "INTEGER"),
        ("EQUALS", '"TRUE"', "BOOLEAN"),
        ("EQUALS", '""', "INTEGER"),
        ("NOT_EQUAL", '"yes"', "BOOLEAN"),
        ("EQUALS", "1", "BOOLEAN"),
        ("LESS_THAN", '"2031-02-30"', "LOCAL_DATE"),
        ("EQUALS", '[1, "x"]', "INTEGER"),
        ("BETWEEN", '[1, "x"]', "INTEGER"),
        ("BETWEEN", '["x", 1]', "INTEGER"),
        ("EQUALS", '"ab"', "CHARACTER"),
        ("EQUALS", '"5E0C7F6E-0A1B-11F0-9A7E-3B1F0C9D2E44"', "UUID_TYPE"),
        ("EQUALS", '"5e0c7f6e-0a1b-41f0-9a7e-3b1f0c9d2e44"', "TIME_UUID_TYPE"),
        ("EQUALS", '"x"', "NULL"),
        ("EQUALS", '"x"', "BYTE_ARRAY"),
    ],
)
def test_an_operand_that_no_declared_type_accepts_is_a_mismatch_and_matches_nothing(
    operator: str, operand: str, declared: str
):
    condition = parse(simple("$.v", operator, json(operand)))
    with pytest.raises(ConditionTypeMismatch, match=r"\$\.v.*" + declared):
        check(condition, fields(v=declared))
    assert matching([1, 0, "x", "abc", True, False, "2031-01-01"], declared, operator, json(operand)) == []


NUMBERS = [-8, -7, 0, json("41.5"), 41, 42, json("42.0"), json("42.5"), 43, 2**31, 2**63, 10**60, json("-1e-300")]


@pytest.mark.parametrize("declared", ["INTEGER", "LONG", "BIG_INTEGER", "UNBOUND_INTEGER", "DOUBLE", "UNBOUND_DECIMAL"])
@pytest.mark.parametrize("operand", ["42", "42.0", "42.5", "-7.5", "2147483648", "1e60", "-1e-300", "1e999999999"])
def test_whatever_numeric_type_is_declared_numbers_compare_as_in_mathematics(declared: str, operand: str):
    limit = Decimal(operand)
    below, equal, above = (
        [n for n in NUMBERS if n < limit],
        [n for n in NUMBERS if n == limit],
        [n for n in NUMBERS if n > limit],
    )
    assert matching(NUMBERS, declared, "LESS_THAN", operand) == below
    assert matching(NUMBERS, declared, "EQUALS", operand) == equal
    assert matching(NUMBERS, declared, "GREATER_THAN", operand) == above
    assert matching(NUMBERS, declared, "NOT_EQUAL", operand) == [n for n in NUMBERS if n not in equal]


def test_a_number_is_no_boolean_and_a_boolean_no_number():
    assert matching([1, 0, True, False], "INTEGER BOOLEAN", "EQUALS", 1) == [1]
    assert matching([1, 0, True, False], "INTEGER", "NOT_EQUAL", 5) == [1, 0]
    assert matching([1, 0, True, False], "INTEGER", "LESS_THAN", 5) == [1, 0]
    assert value_matches(True, "BOOLEAN", "EQUALS", "true")
    assert not value_matches(1, "BOOLEAN", "EQUALS", True)


def test_strings_compare_by_code_point():
    words = ["Zebra", "apple", "10", "9", "", "é", "\U0001f600", "\uffff"]
    assert matching(words, "STRING", "LESS_THAN", "apple") == ["Zebra", "10", "9", ""]
    assert matching(words, "STRING", "GREATER_THAN", "\uffff") == ["\U0001f600"]
    assert matching(words, "STRING", "BETWEEN_INCLUSIVE", ["10", "9"]) == ["10", "9"]


def test_operands_stand_for_their_text_on_a_string_field():
    stored: list[JsonValue] = ["42", "42.0", "true", "", "null"]
    for operand, text in ((42, "42"), (json("42.0"), "42.0"), (True, "true"), (None, "")):
        assert matching(stored, "STRING", "EQUALS", operand) == [text]


def test_an_array_operand_equals_nothing():
    stored = ["a", "b", 1, True, ["a"], None]
    assert matching(stored, "STRING INTEGER BOOLEAN", "EQUALS", ["a"]) == []


def test_an_object_operand_matches_nothing_under_any_binary_operator():
    stored = ["a", 1, True, {}, None]
    for operator in ("EQUALS", "NOT_EQUAL", "BETWEEN", "CONTAINS", "NOT_CONTAINS", "LIKE", "MATCHES_PATTERN"):
        assert matching(stored, "STRING INTEGER BOOLEAN", operator, {}) == []


def test_a_character_field_compares_single_code_points():
    assert matching(["a", "b", "ab", "😀", 1], "CHARACTER", "GREATER_OR_EQUAL", "b") == ["b", "😀"]
    assert matching(["a", "b"], "CHARACTER", "BETWEEN_INCLUSIVE", ["a", "b"]) == []


def test_uuids_know_equality_only():
    one, two = "5e0c7f6e-0a1b-11f0-9a7e-3b1f0c9d2e44", "5e0c7f6e-0a1b-41f0-9a7e-3b1f0c9d2e44"
    stored = [one, one.upper(), two, "x"]
    assert matching(stored, "UUID_TYPE", "EQUALS", one) == [one, one.upper()]
    assert matching(stored, "UUID_TYPE", "NOT_EQUAL", one) == [two]
    assert matching(stored, "TIME_UUID_TYPE", "NOT_EQUAL", one) == []
    assert matching(stored, "UUID_TYPE", "LESS_THAN", one) == []


@pytest.mark.parametrize(
    ("declared", "stored", "inclusive", "exclusive"),
    [
        ("INTEGER", [1, 2, 9, 10], [2, 9], []),
        ("DOUBLE", [1, json("2.0"), json("5.5"), 9], [json("2.0"), json("5.5"), 9], [json("5.5")]),
    ],
)
def test_ranges_of_numbers(
    declared: str, stored: list[JsonValue], inclusive: list[JsonValue], exclusive: list[JsonValue]
):
    assert matching(stored, declared, "BETWEEN_INCLUSIVE", [2, 9]) == inclusive
    assert matching(stored, declared, "BETWEEN", [2, 9]) == exclusive


def test_a_reversed_range_matches_nothing():
    assert matching([1, 5, 9], "INTEGER", "BETWEEN_INCLUSIVE", [9, 1]) == []


def test_a_null_bound_is_the_lowest_string_and_no_number():
    assert matching(["", "a", "z"], "STRING", "BETWEEN", [None, "b"]) == ["a"]
    assert matching([1, 2], "INTEGER", "BETWEEN", [None, 5]) == []


def test_ranges_of_booleans_are_valid_and_match_nothing():
    condition = parse(simple("$.v", "BETWEEN_INCLUSIVE", [False, True]))
    check(condition, fields(v="BOOLEAN"))
    assert matching([True, False], "BOOLEAN", "BETWEEN_INCLUSIVE", [False, True]) == []


def test_bounds_of_a_range_of_instants_are_cut_without_changing_the_operator():
    years = ["2030", "2031", "2032"]
    assert matching(years, "YEAR", "BETWEEN_INCLUSIVE", ["2031-05-06", "2032-05-06"]) == ["2031", "2032"]
    assert matching(years, "YEAR", "BETWEEN", ["2030-05-06", "2032-05-06"]) == ["2031"]
    assert matching(["10:00", "11:00"], "LOCAL_TIME", "BETWEEN_INCLUSIVE", ["2031-05-06", "2031-06"]) == []


def test_a_text_of_two_bounds_is_a_range_in_criteria():
    assert matching([1, 5, 9], "INTEGER", "BETWEEN_INCLUSIVE", " 1 , 5 ") == [1, 5]
    assert matching([1, 5, 9], "INTEGER", "BETWEEN", "1") == []
    assert matching([1, 5, 9], "INTEGER", "BETWEEN", [1, 5, 9]) == []


@pytest.mark.parametrize(
    ("operand", "operator", "expected"),
    [
        ("2031-05-06T10:30", "LESS_THAN", ["09:00"]),
        ("2031-05-06T10:30", "GREATER_OR_EQUAL", ["10:30", "11:00"]),
        ("2031-05-06T10:30", "EQUALS", []),
        ("1970-01-01T10:30", "EQUALS", ["10:30"]),
        ("1970-01-01T10:30+02:00", "EQUALS", ["10:30"]),
        ("2031-05-06T10:30", "NOT_EQUAL", ["09:00", "11:00"]),
    ],
)
def test_a_time_of_day_is_taken_from_a_date_time_without_changing_the_operator(
    operand: str, operator: str, expected: list[str]
):
    assert matching(["09:00", "10:30", "11:00"], "LOCAL_TIME", operator, operand) == expected


def test_with_strings_declared_a_stored_date_is_also_compared_as_text():
    stored = ["2031-05-06", "2031-05-06T00:00:00Z", "zebra", "2030-12-31"]
    assert matching(stored, "LOCAL_DATE STRING", "GREATER_THAN", "2031-05") == stored[:3]
    assert matching(stored, "LOCAL_DATE", "GREATER_OR_EQUAL", "2031-05") == stored[:1]


def test_each_of_several_temporal_types_sees_the_operand_in_its_own_way():
    stored = ["2031", "2031-05-06", "2031-05-06T00:00:00Z", "10:30"]
    assert matching(stored, "YEAR LOCAL_DATE ZONED_DATE_TIME", "EQUALS", "2031-05-06") == stored[1:3]
    assert matching(stored, "YEAR LOCAL_DATE ZONED_DATE_TIME", "GREATER_OR_EQUAL", "2031-01-01") == stored[:3]


def test_a_json_number_is_a_year_where_a_temporal_is_declared():
    check(parse(simple("$.v", "EQUALS", 2031)), fields(v="LOCAL_DATE"))
    assert matching(["2031-01-01", "2032-01-01"], "LOCAL_DATE", "EQUALS", 2031) == ["2031-01-01"]


def test_an_array_or_object_at_the_path_is_no_scalar():
    stored = [[42], {"v": 42}, ["x"], {}]
    for operator in ("EQUALS", "NOT_EQUAL", "LESS_THAN", "CONTAINS", "NOT_CONTAINS", "INOT_EQUAL"):
        assert matching(stored, "INTEGER STRING", operator, "42") == []
