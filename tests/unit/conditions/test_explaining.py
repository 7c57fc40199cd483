"""Explanations of conditions: every leaf with its value and result (docs/reference/operations.md#explain)."""

from collections.abc import Mapping

import pytest
from hypothesis import given

from statewright.conditions import EvaluationError, compile_predicate, parse
from statewright.conditions.explaining import MAX_LEAVES, MAX_VALUE_BYTES, ConditionExplainer
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema.node import DeclaredField
from tests.unit.conditions.builders import META, array, fields, group, lifecycle, simple
from tests.unit.conditions.strategies import CONDITIONS, DOCUMENTS, schemas

DECLARED = fields(**{"amount": "INTEGER", "at": "ZONED_DATE_TIME", "lines[*].sku": "STRING", "note": "STRING"})
ORDER: JsonObject = {
    "amount": 990,
    "at": "2026-03-04T09:00:00Z",
    "lines": [{"sku": "a"}, {"sku": "b"}, {"size": 1}],
    "note": None,
}


def explain(condition: JsonValue, document: JsonValue = ORDER) -> JsonObject:
    return ConditionExplainer(DECLARED, document, META).explain(parse(condition))


def test_every_leaf_of_three_levels_has_its_value_and_result():
    explained = explain(
        group(
            "AND",
            simple("$.amount", "GREATER_THAN", 1000),
            group(
                "OR",
                simple("$.at", "LESS_THAN", "2026-01-01T00:00:00Z"),
                group("AND", simple("$.lines[*].sku", "EQUALS", "b"), simple("$.nowhere", "NOT_NULL")),
            ),
        )
    )
    late = {"type": "simple", "path": "$.at", "operator": "LESS_THAN", "operand": "2026-01-01T00:00:00Z"}
    sku = {"type": "simple", "path": "$.lines[*].sku", "operator": "EQUALS", "operand": "b"}
    nowhere = {"type": "simple", "path": "$.nowhere", "operator": "NOT_NULL", "operand": None}
    amount = {"type": "simple", "path": "$.amount", "operator": "GREATER_THAN", "operand": 1000}
    inner = [sku | {"values": ["a", "b"], "result": True}, nowhere | {"absent": True, "result": False}]
    third = {"type": "group", "operator": "AND", "conditions": inner, "result": False}
    second = [late | {"value": "2026-03-04T09:00:00Z", "result": False}, third]
    assert explained == {
        "type": "group",
        "operator": "AND",
        "conditions": [
            amount | {"value": 990, "result": False},
            {"type": "group", "operator": "OR", "conditions": second, "result": False},
        ],
        "result": False,
    }


def test_null_is_a_value_and_not_absent():
    assert explain(simple("$.note", "IS_NULL"))["value"] is None


def test_lifecycle_and_array_leaves_show_what_they_look_at():
    assert explain(lifecycle("state", "EQUALS", "x"))["value"] == META.state
    assert explain(array("$.lines", None))["value"] == ORDER["lines"]


def test_a_leaf_that_cannot_be_judged_has_an_error_and_the_others_their_results():
    explained = explain(group("AND", simple("$.amount", "RESEMBLES", 1), simple("$.amount", "EQUALS", 990)))
    assert explained["result"] is None
    strange, amount = explained["conditions"]  # type: ignore[misc]
    assert (strange["result"], strange["error"]) == (None, 'unknown operator "RESEMBLES"')  # type: ignore[index]
    assert amount["result"] is True  # type: ignore[index]


def test_long_values_and_long_lists_are_cut():
    explained = explain(simple("$.note", "EQUALS", "x"), {"note": "é" * 2000})
    assert explained["cut"] is True
    assert len(str(explained["value"]).encode()) <= MAX_VALUE_BYTES
    many = explain(simple("$.lines[*].sku", "EQUALS", "x"), {"lines": [{"sku": str(n)} for n in range(11)]})
    assert (len(many["values"]), many["cut"]) == (10, True)  # type: ignore[arg-type]


def test_of_huge_conditions_some_leaves_are_left_out_and_judged_all_the_same():
    last = simple("$.amount", "EQUALS", 990)
    explained = explain(group("OR", *[simple("$.amount", "EQUALS", n) for n in range(MAX_LEAVES)], last))
    assert (explained["leftOut"], explained["result"]) == (1, True)


@given(CONDITIONS, DOCUMENTS, schemas())
def test_the_result_is_what_a_run_would_find(
    condition: JsonValue, document: JsonValue, declared: Mapping[str, DeclaredField]
):
    parsed = parse(condition)
    explained = ConditionExplainer(declared, document, META).explain(parsed)
    try:
        assert explained["result"] is compile_predicate(parsed, declared)(document, META)
    except EvaluationError:
        assert explained["result"] is None


@pytest.mark.parametrize("operator", ["AND", "OR"])
def test_an_empty_group_is_decided(operator: str):
    assert explain(group(operator))["result"] is (operator == "AND")
