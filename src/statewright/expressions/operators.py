"""The operators on values (docs/reference/steps.md#operators). All failures are :class:`ExpressionError`."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.evaluation.costs import Entry, charge_nothing
from statewright.evaluation.regexes import MalformedRegex, compile_regex
from statewright.evaluation.values import (
    are_alike,
    charge_compared,
    charge_end,
    charge_joined,
    charge_search,
    compare_parts,
)
from statewright.expressions.frames import CHARS_PER_ELEMENT, MAX_DEPTH, Frame
from statewright.expressions.values import (
    ExpressionError,
    Map,
    Value,
    as_float,
    as_int,
    check_key,
    is_number,
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
    if isinstance(left, timedelta) and is_number(right):
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


def _count_range(left: Value, right: Value) -> int:
    """The elements of a range that is not built yet; none of one that is refused."""
    if not is_number(left) or not is_number(right):
        return 0
    try:
        return len(_list_range(left, right))
    except ExpressionError:
        return 0


def _list_range(left: Value, right: Value) -> range:
    first, last = as_int(left), as_int(right)
    if last - first >= _MAX_RANGE_LENGTH:
        raise ExpressionError("memory budget exceeded")
    return range(first, last + 1)


def is_equal(left: Value, right: Value, frame: Frame, depth: int = 0) -> bool:
    """Equality by value, deep, without conversions: what is of different kinds is unequal. What is compared is
    accounted for as visited.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return (
            as_float(left) == as_float(right) if isinstance(left, float) or isinstance(right, float) else left == right
        )
    mine, yours = _get_parts(left), _get_parts(right)
    if are_alike(mine, yours):
        frame.spend(len(mine))
        if depth >= MAX_DEPTH:
            raise ExpressionError("values are nested too deeply")
        return compare_parts(
            mine, yours, lambda one, other: is_equal(lift_value(one), lift_value(other), frame, depth + 1)
        )
    if isinstance(left, str) and len(left) > CHARS_PER_ELEMENT:
        frame.spend(len(left) // CHARS_PER_ELEMENT)
    return type(left) is type(right) and left == right


def _get_parts(value: Value) -> Any:  # Any: values of variables, or lifted ones, which stay as they are
    return value.entries if isinstance(value, Map) else value


def is_less(left: Value, right: Value) -> bool:
    """``left < right``, for two numbers, strings (by byte order), times or durations."""
    return _compare("<", left, right) < 0


def contains_element(element: Value, collection: Value, frame: Frame) -> bool:
    """``element in collection``: an element of an array, a key of an object; nil contains nothing."""
    if collection is None:
        return False
    if isinstance(collection, dict):
        return check_key(collection, element) in collection
    if isinstance(collection, Map):
        return check_key(collection, element) in collection.entries
    if isinstance(collection, list):
        frame.spend(len(collection))
        return any(is_equal(lift_value(other), element, frame) for other in collection)
    if isinstance(collection, tuple):
        frame.spend(len(collection))
        return any(is_equal(other, element, frame) for other in collection)
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


OPERATORS: Final[Mapping[str, Entry]] = {
    "+": Entry(add, charge_joined),
    "-": Entry(subtract, charge_nothing),
    "*": Entry(multiply, charge_nothing),
    "/": Entry(divide, charge_nothing),
    "%": Entry(remainder, charge_nothing),
    "**": Entry(power, charge_nothing),
    "<": Entry(_make_comparison("<", lambda order: order < 0), charge_compared),
    "<=": Entry(_make_comparison("<=", lambda order: order <= 0), charge_compared),
    ">": Entry(_make_comparison(">", lambda order: order > 0), charge_compared),
    ">=": Entry(_make_comparison(">=", lambda order: order >= 0), charge_compared),
    "contains": Entry(_make_text_test("contains", str.__contains__), charge_search),
    "startsWith": Entry(_make_text_test("startsWith", str.startswith), charge_end),
    "endsWith": Entry(_make_text_test("endsWith", str.endswith), charge_end),
}
"""Binary operators on two operands. Only texts have a cost."""


def _matches(left: Value, right: Value, frame: Frame) -> Value:
    if isinstance(right, str):
        frame.spend(frame.budget.count_pattern(right))

    def test(text: str, pattern: str) -> bool:
        try:
            regex = compile_regex(pattern)
        except MalformedRegex as error:
            raise ExpressionError(f"error parsing regexp: {error}") from None
        frame.spend(regex.count_match_steps(len(text)))
        return regex.matches_part(text)

    return _make_text_test("matches", test)(left, right)


def _differs(left: Value, right: Value, frame: Frame) -> Value:
    return not is_equal(left, right, frame)


def _build_range(left: Value, right: Value, _: Frame) -> Value:
    return build_range(left, right)


DEEP_OPERATORS: Final[Mapping[str, Entry]] = {
    "..": Entry(_build_range, _count_range),
    "==": Entry(is_equal, charge_nothing),
    "!=": Entry(_differs, charge_nothing),
    "in": Entry(contains_element, charge_nothing),
    "matches": Entry(_matches, charge_nothing),
}
"""Those that look into their operands, which they account for in the frame, their third argument.

``&&``, ``||`` and ``??``, which may leave their right operand unevaluated, cost nothing and are no functions.
"""
