"""What expressions do is charged before it is done, also in their forms that are no entries of a table, and in
combinations (docs/reference/steps.md#limits-of-an-operation).
"""

from contextlib import suppress

import pytest

from statewright.expressions import ExpressionBudget, ExpressionError, compile_expression, evaluate
from statewright.jsonval.values import JsonObject
from statewright.loop.turns import MAX_TURN_ELEMENTS, TurnExceeded
from tests.hostile_documents import ITEMS, MAX_EVALUATION_S, MAX_S_PER_STEP, MAX_UNCHARGED_S, measure
from tests.hostile_expressions import PARTS, REPEATABLE, SMALL, VARIABLES, generate_shapes, iterate_shapes


@pytest.mark.parametrize("expression", PARTS, ids=lambda text: text[:60])
def test_a_turn_ends_soon_whatever_is_evaluated(expression: str):
    """What the event loop waits for: neither a long text nor many short calls keep it."""
    with suppress(ExpressionError):
        compile_expression(expression)

    def act() -> None:
        with suppress(ExpressionError, TurnExceeded):
            evaluate(expression, VARIABLES, 0, ExpressionBudget(within_turn=MAX_TURN_ELEMENTS))

    assert measure(act) < MAX_UNCHARGED_S


@pytest.mark.parametrize("expression", [*iterate_shapes()], ids=lambda text: text[:60])
def test_nothing_is_done_that_is_not_charged(expression: str):
    budget = ExpressionBudget()
    before = budget.left

    def act() -> None:
        with suppress(ExpressionError):
            evaluate(expression, VARIABLES, 0, budget)

    with suppress(ExpressionError):
        compile_expression(expression)
    taken = measure(act)
    assert taken < MAX_UNCHARGED_S + (before - budget.left) * MAX_S_PER_STEP


@pytest.mark.parametrize("call", REPEATABLE, ids=lambda text: text[:60])
def test_many_small_calls_end_soon_within_a_turn(call: str):
    def act() -> None:
        with suppress(ExpressionError, TurnExceeded):
            evaluate(expression, variables, 0, ExpressionBudget(within_turn=MAX_TURN_ELEMENTS))

    expression, variables = f"count(1..5000, [{call}] != nil)", SMALL | {"x": None}
    with suppress(ExpressionError):
        compile_expression(expression)
    assert measure(act) < MAX_UNCHARGED_S


@pytest.mark.parametrize("shape", [*generate_shapes(2026, 80)], ids=lambda text: text[:60])
def test_any_combination_ends(shape: str):
    def act() -> None:
        with suppress(ExpressionError):
            evaluate(shape, VARIABLES, 0)

    assert measure(act) < MAX_EVALUATION_S


def test_what_is_refused_now_was_never_meant():
    """Ordinary work on a thousand elements stays far below the limits."""
    variables: JsonObject = {"xs": [{"name": f"item {n}", "price": n} for n in range(1_000)]}
    budget = ExpressionBudget()
    for expression in (
        "sum(xs, #.price)",
        "map(xs, upper(#.name))",
        "sortBy(xs, #.name)",
        'filter(xs, #.name matches "^item [0-9]+$")',
    ):
        evaluate(expression, variables, 0, budget)
    assert budget.left > 2_000_000 - ITEMS
