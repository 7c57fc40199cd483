"""Values to be set: literals and ``${expressions}`` (spec/step-engine.md §5.5)."""

from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Problem
from statewright.steps.core.expressions import Budget, ExpressionError, evaluate
from statewright.steps.core.texts import quoted
from statewright.steps.core.times import second_text

_NOW: Final = "now()"
"""Alone, it gives the time to the second."""


def expression_in(value: JsonValue) -> str | None:
    """The expression that ``value`` stands for, ``None`` when it is a literal."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return value[2:-1].strip()
    return None


def value_of(value: JsonValue, variables: JsonObject, at: int, budget: Budget) -> JsonValue:
    """What a literal or expression comes to. Raises :class:`ExpressionError`."""
    expression = expression_in(value)
    if expression is None:
        return value
    return second_text(at) if expression == _NOW else evaluate(expression, variables, at, budget)


def transformed(transformations: JsonObject, variables: JsonObject, at: int, budget: Budget) -> "JsonObject | Problem":
    """The variables after all transformations, in order; each sees the results of those before it."""
    current = dict(variables)
    for name, value in transformations.items():
        try:
            current[name] = value_of(value, current, at, budget)
        except ExpressionError as error:
            return Problem(f"transformation {quoted(name)}: expression eval: {error}")
    return current
