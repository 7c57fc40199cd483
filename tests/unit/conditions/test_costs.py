"""Every operator of conditions has a cost, which is charged before its work (docs/reference/conditions.md#limits)."""

import random
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import get_args

import pytest

from statewright.conditions import (
    EvaluationError,
    MalformedCondition,
    Predicate,
    Visits,
    compile_predicate,
    is_large_condition,
    parse,
)
from statewright.conditions.evaluate import BRANCH_COSTS
from statewright.conditions.plan import Branch
from statewright.conditions.planning import build_plan
from statewright.conditions.sql import compile_sql
from statewright.conditions.syntax import TextOperator
from statewright.conditions.texts import TEXT_TESTS, PricedTest
from statewright.entity import EntityMeta
from statewright.jsonval.values import DataType, JsonValue
from statewright.loop.turns import TurnExceeded
from statewright.schema.node import DeclaredField
from tests.hostile_conditions import (
    PARTS,
    PLACES,
    STORED,
    group,
    list_shapes,
    simple,
)
from tests.hostile_documents import MAX_EVALUATION_S, MAX_UNCHARGED_S, measure

ALL_TYPES = frozenset(DataType)
DECLARED: Mapping[str, DeclaredField] = {
    place: DeclaredField(types=ALL_TYPES) for place in (*PLACES, "$.square[*][*]", "$.pairs[*]", "$.pairs[*][*]")
}
META = EntityMeta(id="a" * 36, state="S" * 200, creation_date=0, last_update_time=0, transition="t", transaction_id="x")


def judge(predicate: Predicate, visits: Visits) -> None:
    with suppress(EvaluationError, TurnExceeded):
        predicate(STORED, META, visits)


def test_every_operator_on_texts_and_every_branch_has_a_cost():
    assert set(TEXT_TESTS) == set(TextOperator)
    assert set(BRANCH_COSTS) == set(get_args(Branch))
    for operator, build in TEXT_TESTS.items():
        test = build("a%")
        assert isinstance(test, PricedTest)
        assert test.count_visits(10_000_000) > 0 or operator.value.endswith("S_WITH")


@pytest.mark.parametrize("part", PARTS)
def test_a_turn_ends_soon_whatever_the_form(part: str):
    predicate = compile_predicate(parse(PARTS[part]), DECLARED)
    tries = (measure(partial(judge, predicate, Visits(within_turn=True))) for _ in range(5))
    assert any(taken < MAX_UNCHARGED_S for taken in tries), "the least of five: others share the processor"


@pytest.mark.parametrize("number", range(10))
def test_any_combination_ends(number: int):
    rng = random.Random(2026 + number)
    shapes = list_shapes()
    for _ in range(12):
        parts = rng.sample(shapes, 6)
        condition = group("OR", group("AND", *parts[:3]), group("OR", *parts[3:5], group("AND", parts[5], *parts[:2])))
        try:
            is_large_condition(condition)
        except MalformedCondition:
            continue
        tree = parse(condition)
        predicate, plan = compile_predicate(tree, DECLARED), build_plan(tree, DECLARED)
        assert measure(partial(judge, predicate, Visits())) < MAX_EVALUATION_S, str(condition)[:300]
        assert measure(partial(compile_sql, plan)) < MAX_EVALUATION_S


@pytest.mark.parametrize(
    "pattern",
    [r"\pL{1,100}", r"(?i)\pL{1,90}", "a?" * 4_999, r"\pL" * 250, r"[\pL\pN]{1,64}"],
    ids=lambda text: text[:30],
)
def test_a_costly_pattern_is_not_compiled_within_a_turn(pattern: str):
    assert is_large_condition(simple("$.plain", "MATCHES_PATTERN", pattern))
    assert not is_large_condition(simple("$.plain", "MATCHES_PATTERN", r"^\d{4}-\d{2}-\d{2}T[a-z]+$"))


def test_patterns_that_take_long_together_are_refused():
    condition = group("OR", *(simple("$.plain", "MATCHES_PATTERN", rf"x{n}\pL{{1,100}}") for n in range(100)))
    with pytest.raises(MalformedCondition, match="too long to compile"):
        is_large_condition(condition)


@pytest.mark.parametrize(
    "operator", ["EQUALS", "NOT_EQUAL", "GREATER_THAN", "GREATER_OR_EQUAL", "LESS_THAN", "LESS_OR_EQUAL"]
)
@pytest.mark.parametrize(
    "operand",
    [0, -1, 7, "2.5", "-2.5", "0.5", "-0.5", "1e20", "-1e20", "7.0", "1e999999", "-1e999999", "1e-9", 10**50, "1e50"],
)
def test_numbers_of_any_class_compare_by_their_value(operator: str, operand: JsonValue):
    stored: list[int | Decimal] = [
        0,
        1,
        -1,
        2,
        3,
        -2,
        -3,
        7,
        10**20,
        -(10**20),
        10**50,
        Decimal("2.5"),
        Decimal("-2.5"),
        Decimal("7.0"),
        Decimal("1e50"),
        Decimal("1e-9"),
    ]
    predicate = compile_predicate(
        parse(simple("$.digits", operator, operand)),
        {"$.digits": DeclaredField(types=frozenset({DataType.UNBOUND_DECIMAL}))},
    )
    wanted = Decimal(str(operand))
    compare = {
        "EQUALS": wanted.__eq__, "NOT_EQUAL": wanted.__ne__, "GREATER_THAN": wanted.__lt__,
        "GREATER_OR_EQUAL": wanted.__le__, "LESS_THAN": wanted.__gt__, "LESS_OR_EQUAL": wanted.__ge__,
    }[operator]  # fmt: skip
    for value in stored:
        assert predicate({"digits": value}, META) is compare(Decimal(value)), value
