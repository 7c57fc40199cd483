"""The operators on values (docs/reference/steps.md#operators). All failures are :class:`ExpressionError`."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from statewright.expressions.patterns import matches
from statewright.expressions.values import (
    ExpressionError,
    Map,
    Value,
    as_entries,
    as_float,
    as_int,
    as_items,
    check_key,
    lift_value,
    type_name,
    wrap_int64,
)

_MAX_RANGE_LENGTH: Final = 1_000_000
"""Elements of the longest range."""

Operator = Callable[[Value, Value], Value]


def add(left: Value, right: Value) -> Value:
    """The sum of numbers, the concatenation of texts, or a time plus a duration."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    try:
        if isinstance(left, timedelta) and isinstance(right, datetime | timedelta):
            return left + right
        if isinstance(left, datetime) and isinstance(right, timedelta):
            return left + right
    except OverflowError:
        raise _range_error() from None
    return _compute("+", left, right, int.__add__, float.__add__)


def subtract(left: Value, right: Value) -> Value:
    """The difference of numbers or of times."""
    try:
        if isinstance(left, datetime) and isinstance(right, datetime):
            return left - right
        if isinstance(left, datetime | timedelta) and isinstance(right, timedelta):
            return left - right
    except OverflowError:
        raise _range_error() from None
    return _compute("-", left, right, int.__sub__, float.__sub__)


def multiply(left: Value, right: Value) -> Value:
    """The product of numbers, or of a number and a duration."""
    if isinstance(right, timedelta):
        left, right = right, left
    if isinstance(left, timedelta) and isinstance(right, int | float) and not isinstance(right, bool):
        try:
            return left * right
        except (OverflowError, ValueError):
            raise _range_error() from None
    return _compute("*", left, right, int.__mul__, float.__mul__)


def divide(left: Value, right: Value) -> Value:
    """The quotient, always a float; dividing by zero gives an infinity or NaN."""
    dividend, divisor = _require_numbers("/", left, right)
    if divisor == 0:
        if dividend == 0 or math.isnan(dividend):
            return math.nan
        return math.copysign(math.inf, dividend) * math.copysign(1, divisor)
    return as_float(dividend) / as_float(divisor)


def remainder(left: Value, right: Value) -> Value:
    """The remainder of an integer division; it has the sign of the dividend."""
    if isinstance(left, bool | float) or isinstance(right, bool | float):
        raise _operand_error("%", left, right)
    if not isinstance(left, int) or not isinstance(right, int):
        raise _operand_error("%", left, right)
    if right == 0:
        raise ExpressionError("integer divide by zero")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def power(left: Value, right: Value) -> Value:
    """A power, always a float."""
    base, exponent = _require_numbers("**", left, right)
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    except ValueError:
        return math.inf if base == 0 else math.nan


def build_range(left: Value, right: Value) -> Value:
    """``left..right``: the integers from one to the other, both included."""
    return tuple(_list_range(left, right))


def count_range(left: Value, right: Value) -> int:
    """The elements of a range that is not built yet."""
    return len(_list_range(left, right))


def _list_range(left: Value, right: Value) -> range:
    first, last = as_int(left), as_int(right)
    if last - first >= _MAX_RANGE_LENGTH:
        raise ExpressionError("memory budget exceeded")
    return range(first, last + 1)


def is_equal(left: Value, right: Value) -> bool:
    """Equality by value, deep, without conversions: what is of different kinds is unequal."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (
            as_float(left) == as_float(right) if isinstance(left, float) or isinstance(right, float) else left == right
        )
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        ours, theirs = as_items(left) or (), as_items(right) or ()
        return len(ours) == len(theirs) and all(map(is_equal, ours, theirs))
    if isinstance(left, dict | Map) and isinstance(right, dict | Map):
        mine, yours = as_entries(left) or {}, as_entries(right) or {}
        return mine.keys() == yours.keys() and all(is_equal(member, yours[name]) for name, member in mine.items())
    return type(left) is type(right) and left == right


def is_less(left: Value, right: Value) -> bool:
    """``left < right``, for two numbers, strings (by byte order), times or durations."""
    return _compare("<", left, right) < 0


def contains_element(element: Value, collection: Value) -> bool:
    """``element in collection``: an element of an array, a key of an object; nil contains nothing."""
    if collection is None:
        return False
    if isinstance(collection, dict):
        return check_key(collection, element) in collection
    if isinstance(collection, Map):
        return check_key(collection, element) in collection.entries
    if isinstance(collection, list):
        return any(is_equal(lift_value(other), element) for other in collection)
    if isinstance(collection, tuple):
        return any(is_equal(other, element) for other in collection)
    raise ExpressionError(f'operator "in" not defined on {type_name(collection)}')


def _make_text_test(name: str, test: Callable[[str, str], bool]) -> Operator:
    """An operator on two strings; it is false when either of them is nil."""

    def apply(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return False
        if not isinstance(left, str) or not isinstance(right, str):
            raise _operand_error(name, left, right)
        return test(left, right)

    return apply


def _compare(symbol: str, left: Value, right: Value) -> int:
    """Negative, zero or positive as ``left`` is below, equal to or above ``right``; 1 when one is NaN."""
    if isinstance(left, bool) or isinstance(right, bool):
        raise _operand_error(symbol, left, right)
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
    raise _operand_error(symbol, left, right)


def _is_unordered(left: Value, right: Value) -> bool:
    return left != left or right != right


def _make_comparison(symbol: str, holds: Callable[[int], bool]) -> Operator:
    def apply(left: Value, right: Value) -> Value:
        order = _compare(symbol, left, right)
        return holds(order) and not _is_unordered(left, right)

    return apply


def _compute(
    symbol: str,
    left: Value,
    right: Value,
    whole: Callable[[int, int], int],
    fractional: Callable[[float, float], float],
) -> Value:
    first, second = _require_numbers(symbol, left, right)
    if isinstance(first, int) and isinstance(second, int):
        return wrap_int64(whole(first, second))
    return fractional(as_float(first), as_float(second))


def _require_numbers(symbol: str, left: Value, right: Value) -> tuple[int | float, int | float]:
    if isinstance(left, bool) or isinstance(right, bool):
        raise _operand_error(symbol, left, right)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise _operand_error(symbol, left, right)
    return left, right


def _operand_error(symbol: str, left: Value, right: Value) -> ExpressionError:
    return ExpressionError(f"invalid operation: {type_name(left)} {symbol} {type_name(right)}")


def _range_error() -> ExpressionError:
    return ExpressionError("time out of range")


OPERATORS: Final[Mapping[str, Operator]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    "**": power,
    "..": build_range,
    "==": is_equal,
    "!=": lambda left, right: not is_equal(left, right),
    "<": _make_comparison("<", lambda order: order < 0),
    "<=": _make_comparison("<=", lambda order: order <= 0),
    ">": _make_comparison(">", lambda order: order > 0),
    ">=": _make_comparison(">=", lambda order: order >= 0),
    "in": contains_element,
    "matches": _make_text_test("matches", matches),
    "contains": _make_text_test("contains", str.__contains__),
    "startsWith": _make_text_test("startsWith", str.startswith),
    "endsWith": _make_text_test("endsWith", str.endswith),
}
"""All binary operators but those that may leave their right operand unevaluated."""
