"""Values to be set: literals and ``${expressions}`` (docs/reference/steps.md#transformation)."""

from typing import Final

from statewright.expressions import Budget, ExpressionError, evaluate
from statewright.instants import format_whole_second
from statewright.jsonval.quoting import quote
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Problem

_NOW: Final = "now()"
"""Alone, it gives the time to the second."""


def extract_expression(value: JsonValue) -> str | None:
    """The expression that ``value`` stands for, ``None`` when it is a literal."""
    if isinstance(value, str) and value.startswith("${") and value.endswith("}"):
        return value[2:-1].strip()
    return None


def evaluate_value(value: JsonValue, variables: JsonObject, at: int, budget: Budget) -> JsonValue:
    """What a literal or expression comes to. Raises :class:`ExpressionError`."""
    expression = extract_expression(value)
    if expression is None:
        return value
    return format_whole_second(at) if expression == _NOW else evaluate(expression, variables, at, budget)


def apply_transformations(
    transformations: JsonObject, variables: JsonObject, at: int, budget: Budget
) -> "JsonObject | Problem":
    """The variables after all transformations, in order; each sees the results of those before it."""
    current = dict(variables)
    for name, value in transformations.items():
        try:
            current[name] = evaluate_value(value, current, at, budget)
        except ExpressionError as error:
            return Problem(f"transformation {quote(name)}: expression eval: {error}")
    return current
