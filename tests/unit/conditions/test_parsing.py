"""Conditions from and to JSON (docs/reference/conditions.md#form)."""

import pytest

from statewright.conditions import (
    Array,
    Function,
    Group,
    Lifecycle,
    MalformedCondition,
    Simple,
    parse,
    serialise,
)
from statewright.jsonval.values import JsonValue
from tests.unit.conditions.builders import array, group, json, lifecycle, simple

LEAF = simple("$.a", "EQUALS", 1)


def nested(depth: int) -> JsonValue:
    condition: JsonValue = LEAF
    for _ in range(depth):
        condition = group("AND", condition)
    return condition


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (simple("$.w", "LESS_THAN", 5), Simple(path="$.w", operator="LESS_THAN", value=5)),
        (lifecycle("state", "EQUALS", "A"), Lifecycle(field="state", operator="EQUALS", value="A")),
        (array("$.r", "x", None), Array(path="$.r", values=("x", None))),
        (group("OR"), Group(operator="OR", conditions=())),
        (group("AND", LEAF), Group(operator="AND", conditions=(Simple(path="$.a", operator="EQUALS", value=1),))),
        ({"type": "group", "operator": "AND"}, Group(operator="AND", conditions=())),
        ({"type": "group", "operator": "AND", "conditions": None}, Group(operator="AND", conditions=())),
        ({"type": "simple"}, Simple(path="", operator="", value=None)),
        ({"type": "array"}, Array(path="", values=())),
        ({"type": "array", "jsonPath": "$.r", "operation": "EQUALS", "value": ["x"]}, Array(path="$.r", values=("x",))),
        ({"type": "array", "jsonPath": "$.r", "value": ["x"], "values": ["y"]}, Array(path="$.r", values=("y",))),
    ],
)
def test_each_type_has_its_members(value: JsonValue, expected: object):
    assert parse(value) == expected


@pytest.mark.parametrize(
    ("members", "operator"),
    [
        ({"operatorType": "A", "operator": "B", "operation": "C"}, "A"),
        ({"operatorType": "", "operator": "B", "operation": "C"}, "B"),
        ({"operatorType": None, "operation": "C"}, "C"),
        ({"operation": "C"}, "C"),
        ({}, ""),
    ],
)
def test_the_first_operator_that_is_not_empty_counts(members: dict[str, JsonValue], operator: str):
    assert parse({"type": "simple", "jsonPath": "$.a", **members}) == Simple(path="$.a", operator=operator)
    assert parse({"type": "lifecycle", "field": "id", **members}) == Lifecycle(field="id", operator=operator)


def test_member_names_may_have_any_case_and_unknown_members_are_ignored():
    spelled = {"TYPE": "simple", "JsonPath": "$.a", "OPERATORTYPE": "EQUALS", "Value": 1, "comment": {}}
    assert parse(spelled) == parse(LEAF)
    assert parse({**LEAF, "JSONPATH": "$.b"}) == parse(LEAF)


def test_numbers_keep_every_digit():
    condition = parse(simple("$.a", "EQUALS", json("0.1000000000000000000001")))
    assert isinstance(condition, Simple)
    assert str(condition.value) == "0.1000000000000000000001"


@pytest.mark.parametrize(
    ("written", "kept"), [("AND", "AND"), ("or", "OR"), ("And", "AND"), ("NOT", "NOT"), ("xor", "xor"), ("", "")]
)
def test_and_and_or_may_have_any_case(written: str, kept: str):
    assert parse(group(written)) == Group(operator=kept, conditions=())


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "simple",
        17,
        {},
        {"type": None},
        {"type": 5},
        {"type": ""},
        {"type": "Simple"},
        {"type": "not"},
        {**LEAF, "jsonPath": 5},
        {**LEAF, "operatorType": ["EQUALS"]},
        {"type": "lifecycle", "field": {}},
        {"type": "group", "operator": 1},
        {"type": "group", "operator": "AND", "conditions": {}},
        {"type": "group", "operator": "AND", "conditions": [None]},
        {"type": "group", "operator": "AND", "conditions": [{"type": "x"}]},
        {"type": "array", "jsonPath": "$.r", "values": "x"},
        {"type": "array", "jsonPath": "$.r", "value": "x"},
        {"type": "function", "function": []},
        {"type": "function", "function": {"name": "f", "config": {"responseTimeoutMs": "3 s"}}},
        {"type": "function", "function": {"name": "f", "config": {"attachEntity": "no"}}},
    ],
)
def test_anything_else_is_no_condition(value: JsonValue):
    with pytest.raises(MalformedCondition):
        parse(value)


def test_the_message_names_the_member_at_fault():
    with pytest.raises(MalformedCondition, match="jsonPath is not a string"):
        parse({**LEAF, "jsonPath": 5})


def test_fifty_groups_around_a_leaf_are_the_limit():
    parse(nested(50))
    with pytest.raises(MalformedCondition, match="deeper than 50"):
        parse(nested(51))


def test_a_function_has_defaults_for_everything_but_its_name():
    raw: JsonValue = {"type": "function", "function": {"name": "credit"}}
    assert parse(raw) == Function(
        name="credit", tags=(), tags_text="", attach_entity=True, timeout_ms=30_000, context="", raw=raw
    )


def test_a_function_is_configured_and_kept_as_written():
    config: dict[str, JsonValue] = {
        "calculationNodesTags": " Risk ;eu,, ",
        "attachEntity": False,
        "responseTimeoutMs": 20_000,
        "context": "x",
    }
    raw: JsonValue = {"type": "function", "function": {"name": "credit", "config": config, "criterion": LEAF}, "a": 1}
    function = parse(raw)
    assert function == Function(
        name="credit",
        tags=("risk", "eu"),
        tags_text=" Risk ;eu,, ",
        attach_entity=False,
        timeout_ms=20_000,
        context="x",
        raw=raw,
    )
    assert serialise(function) == raw


@pytest.mark.parametrize("timeout", [0, -1, None])
def test_a_function_without_a_positive_timeout_has_the_default_one(timeout: JsonValue):
    function = parse({"type": "function", "function": {"name": "f", "config": {"responseTimeoutMs": timeout}}})
    assert isinstance(function, Function)
    assert function.timeout_ms == 30_000


def test_serialising_uses_the_primary_names():
    condition = parse(
        group(
            "and",
            {"type": "simple", "jsonPath": "a", "operation": "IS_NULL", "extra": 1},
            {"type": "lifecycle", "field": "state", "operator": "EQUALS", "value": "A"},
            {"type": "array", "jsonPath": "$.r", "value": ["x", None]},
        )
    )
    assert serialise(condition) == group(
        "AND", simple("a", "IS_NULL", None), lifecycle("state", "EQUALS", "A"), array("$.r", "x", None)
    )
