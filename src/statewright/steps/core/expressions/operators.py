"""What operators do to values (spec/step-engine.md §10.4). All failures are :class:`ExpressionError`."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.patterns import matches
from statewright.steps.core.expressions.values import (
    Map,
    Value,
    as_float,
    as_int,
    entries,
    items,
    lifted,
    type_name,
    usable_key,
    wrapped,
)

_RANGE_LIMIT: Final = 1_000_000
"""Longest range."""

Operator = Callable[[Value, Value], Value]


def add(left: Value, right: Value) -> Value:
    """The sum of numbers, texts one after the other, or a time moved on."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    try:
        if isinstance(left, timedelta) and isinstance(right, datetime | timedelta):
            return left + right
        if isinstance(left, datetime) and isinstance(right, timedelta):
            return left + right
    except OverflowError:
        raise _out_of_range() from None
    return _computed("+", left, right, int.__add__, float.__add__)


def subtract(left: Value, right: Value) -> Value:
    """The difference of numbers or of times."""
    try:
        if isinstance(left, datetime) and isinstance(right, datetime):
            return left - right
        if isinstance(left, datetime | timedelta) and isinstance(right, timedelta):
            return left - right
    except OverflowError:
        raise _out_of_range() from None
    return _computed("-", left, right, int.__sub__, float.__sub__)


def multiply(left: Value, right: Value) -> Value:
    """The product of numbers, or of a number and a duration."""
    if isinstance(right, timedelta):
        left, right = right, left
    if isinstance(left, timedelta) and isinstance(right, int | float) and not isinstance(right, bool):
        try:
            return left * right
        except (OverflowError, ValueError):
            raise _out_of_range() from None
    return _computed("*", left, right, int.__mul__, float.__mul__)


def divide(left: Value, right: Value) -> Value:
    """The quotient, always a float; dividing by zero gives an infinity or no number at all."""
    dividend, divisor = _two_numbers("/", left, right)
    if divisor == 0:
        if dividend == 0 or math.isnan(dividend):
            return math.nan
        return math.copysign(math.inf, dividend) * math.copysign(1, divisor)
    return as_float(dividend) / as_float(divisor)


def remainder(left: Value, right: Value) -> Value:
    """What an integer division leaves; it has the sign of the dividend."""
    if isinstance(left, bool | float) or isinstance(right, bool | float):
        raise _invalid("%", left, right)
    if not isinstance(left, int) or not isinstance(right, int):
        raise _invalid("%", left, right)
    if right == 0:
        raise ExpressionError("integer divide by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def power(left: Value, right: Value) -> Value:
    """A power, always a float."""
    base, exponent = _two_numbers("**", left, right)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def spanned(left: Value, right: Value) -> Value:
    """``left..right``: the integers from one to the other, both included."""
    first, last = as_int(left), as_int(right)
    if last - first >= _RANGE_LIMIT:
        raise ExpressionError("memory budget exceeded")
    return tuple(range(first, last + 1))


def equal(left: Value, right: Value) -> bool:
    """Equality by value, deep, without conversions: what is of different kinds is unequal."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (
            as_float(left) == as_float(right) if isinstance(left, float) or isinstance(right, float) else left == right
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        ours, theirs = items(left) or (), items(right) or ()
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    if isinstance(left, dict | Map) and isinstance(right, dict | Map):
        mine, yours = entries(left) or {}, entries(right) or {}
        return mine.keys() == yours.keys() and all(equal(member, yours[name]) for name, member in mine.items())
    return type(left) is type(right) and left == right


def less(left: Value, right: Value) -> bool:
    """``left < right``, for two numbers, strings (by byte order), times or durations."""
    return _ordered("<", left, right) < 0


def contains_element(element: Value, collection: Value) -> bool:
    """``element in collection``: an element of an array, a key of an object; nil contains nothing."""
    if collection is None:
        return False
    if isinstance(collection, dict):
        return usable_key(collection, element) in collection
    if isinstance(collection, Map):
        return usable_key(collection, element) in collection.entries
    if isinstance(collection, list):
        return any(equal(lifted(other), element) for other in collection)
    if isinstance(collection, tuple):
        return any(equal(other, element) for other in collection)
    raise ExpressionError(f'operator "in" not defined on {type_name(collection)}')


def _text_test(name: str, test: Callable[[str, str], bool]) -> Operator:
    """An operator on two strings; with nil on either side it does not hold."""

    def apply(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return False
        if not isinstance(left, str) or not isinstance(right, str):
            raise _invalid(name, left, right)
        return test(left, right)

    return apply


def _ordered(symbol: str, left: Value, right: Value) -> int:
    """Negative, zero or positive as ``left`` is below, equal to or above ``right``; 1 when one is no number at all."""
    if isinstance(left, bool) or isinstance(right, bool):
        raise _invalid(symbol, left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        if isinstance(left, float) or isinstance(right, float):
            left, right = as_float(left), as_float(right)
        return (left > right) - (left < right)
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    if isinstance(left, datetime) and isinstance(right, datetime):
        return (left > right) - (left < right)
    if isinstance(left, timedelta) and isinstance(right, timedelta):
        return (left > right) - (left < right)
    raise _invalid(symbol, left, right)


def _is_unordered(left: Value, right: Value) -> bool:
    return left != left or right != right


def _comparison(symbol: str, holds: Callable[[int], bool]) -> Operator:
    def apply(left: Value, right: Value) -> Value:
        order = _ordered(symbol, left, right)
        return holds(order) and not _is_unordered(left, right)

    return apply


def _computed(
    symbol: str,
    left: Value,
    right: Value,
    whole: Callable[[int, int], int],
    fractional: Callable[[float, float], float],
) -> Value:
    first, second = _two_numbers(symbol, left, right)
    if isinstance(first, int) and isinstance(second, int):
        return wrapped(whole(first, second))
    return fractional(as_float(first), as_float(second))


def _two_numbers(symbol: str, left: Value, right: Value) -> tuple[int | float, int | float]:
    if isinstance(left, bool) or isinstance(right, bool):
        raise _invalid(symbol, left, right)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise _invalid(symbol, left, right)
    return left, right


def _invalid(symbol: str, left: Value, right: Value) -> ExpressionError:
    return ExpressionError(f"invalid operation: {type_name(left)} {symbol} {type_name(right)}")


def _out_of_range() -> ExpressionError:
    return ExpressionError("time out of range")


OPERATORS: Final[Mapping[str, Operator]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    "**": power,
    "..": spanned,
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _comparison("<", lambda order: order < 0),
    "<=": _comparison("<=", lambda order: order <= 0),
    ">": _comparison(">", lambda order: order > 0),
    ">=": _comparison(">=", lambda order: order >= 0),
    "in": contains_element,
    "matches": _text_test("matches", matches),
    "contains": _text_test("contains", str.__contains__),
    "startsWith": _text_test("startsWith", str.startswith),
    "endsWith": _text_test("endsWith", str.endswith),
}
"""All binary operators whose operands are both evaluated first."""
