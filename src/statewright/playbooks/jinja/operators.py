"""Operators of expressions. Each looks at what it is about to make before it makes it.

Tests: what may follow ``is``.
"""

from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Final, TypeAlias

from statewright.evaluation.costs import Entry, charge_nothing, scan_text, visit_items
from statewright.jsonval.values import is_whole
from statewright.playbooks.jinja.charges import (
    charge_membership,
    charge_numbers,
    charge_sum,
    charge_value,
    expect_number,
    format_percent,
    write_texts,
)
from statewright.playbooks.jinja.values import (
    EvaluationFailed,
    Frame,
    Undefined,
    check_number,
    compare_equal,
    describe,
    precedes,
)

Number: TypeAlias = int | Decimal

PRECISION: Final = 34
"""Significant digits of what is computed with fractions."""
_CONTEXT: Final = Context(prec=PRECISION, Emax=6144, Emin=-6144, traps=[InvalidOperation, DivisionByZero, Overflow])
_MAX_POWER_BITS: Final = 13_288
_MAX_COUNTED: Final = 10_000_000
"""Of what is certainly refused."""
_POWER_CONTEXT: Final = Context(prec=2 * PRECISION, Emax=6144, Emin=-6144, traps=[InvalidOperation, Overflow])
"""What a power is computed from: with thousands of digits one would take a second."""
_POWER_STEPS: Final = 400


def add(frame: Frame, left: object, right: object) -> object:
    """Numbers, texts or lists."""
    if isinstance(left, str) and isinstance(right, str):
        frame.limit_text(len(left) + len(right))
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        frame.limit_items(len(left) + len(right))
        return left + right
    a, b = _read_numbers("+", left, right)
    return _compute(lambda: a + b if isinstance(a, int) and isinstance(b, int) else _CONTEXT.add(a, b))


def subtract(frame: Frame, left: object, right: object) -> object:
    """The difference of two numbers."""
    a, b = _read_numbers("-", left, right)
    return _compute(lambda: a - b if isinstance(a, int) and isinstance(b, int) else _CONTEXT.subtract(a, b))


def multiply(frame: Frame, left: object, right: object) -> object:
    """Numbers, or a text or a list as often as a number says."""
    if isinstance(left, str | list):
        return _repeat(frame, left, right)
    if isinstance(right, str | list):
        return _repeat(frame, right, left)
    a, b = _read_numbers("*", left, right)
    return _compute(lambda: a * b if isinstance(a, int) and isinstance(b, int) else _CONTEXT.multiply(a, b))


def _repeat(frame: Frame, value: str | list[object], count: object) -> object:
    if not is_whole(count):
        raise _refuse("*", value, count)
    size = len(value) * max(count, 0)
    if isinstance(value, str):
        frame.limit_text(size)
    else:
        frame.limit_items(size)
    return value * count


def divide(frame: Frame, left: object, right: object) -> object:
    """The quotient, whole if it is."""
    a, b = _read_numbers("/", left, right, divides=True)
    return _compute(lambda: _CONTEXT.divide(a, b))


def divide_floor(frame: Frame, left: object, right: object) -> object:
    """The quotient rounded down."""
    a, b = _read_numbers("//", left, right, divides=True)
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return _compute(lambda: _CONTEXT.subtract(a, _floor_remainder(a, b)) / b)


def take_remainder(frame: Frame, left: object, right: object) -> object:
    """The remainder, with the sign of the divisor; or of a text the pattern with its values."""
    if isinstance(left, str):
        named = right if isinstance(right, dict) else None
        return format_percent(frame, left, right if isinstance(right, list) else [right], named)
    a, b = _read_numbers("%", left, right, divides=True)
    return _compute(lambda: a % b if isinstance(a, int) and isinstance(b, int) else _floor_remainder(a, b))


def _floor_remainder(a: Number, b: Number) -> Decimal:
    remainder = _CONTEXT.remainder(a, b)
    return _CONTEXT.add(remainder, b) if remainder and (remainder < 0) != (b < 0) else remainder


def raise_power(frame: Frame, left: object, right: object) -> object:
    """A power that has no more digits than a number may."""
    a, b = _read_numbers("**", left, right)
    if isinstance(a, int) and isinstance(b, int) and b >= 0:
        if abs(a) > 1 and (abs(a).bit_length() - 1) * b > _MAX_POWER_BITS:
            raise EvaluationFailed("computes a number of more than 4000 digits")
        return check_number(a ** min(b, _MAX_POWER_BITS + b % 2))  # of 0, 1 and -1 only the parity matters
    return _compute(lambda: _CONTEXT.power(_POWER_CONTEXT.create_decimal(a), _POWER_CONTEXT.create_decimal(b)))


def negate(frame: Frame, value: object) -> object:
    """The number with the other sign."""
    number = expect_number(value, f"cannot negate {describe(value)}")
    return -number if isinstance(number, int) else number.copy_negate()


def keep_sign(frame: Frame, value: object) -> object:
    """The number as it is."""
    number = expect_number(value, f"cannot apply + to {describe(value)}")
    return +number if isinstance(number, int) else number


def concatenate(frame: Frame, *values: object) -> str:
    """All values as one text (``~``)."""
    pieces = write_texts(frame, _charge_concatenation, *values)
    frame.limit_text(sum(map(len, pieces)))
    return "".join(pieces)


def contains(frame: Frame, container: object, value: object) -> bool:
    """Whether a value is an item of a list, the name of a member or a part of a text."""
    if isinstance(container, str):
        if isinstance(value, Undefined):
            return False
        if not isinstance(value, str):
            raise EvaluationFailed(f"looks for {describe(value)} in a text")
        frame.limit_text(len(container))
        return value in container
    if isinstance(container, list):
        return any(compare_equal(value, item, frame) for item in container)
    if isinstance(container, dict):
        return isinstance(value, str) and value in container
    if isinstance(container, Undefined):
        return False
    raise EvaluationFailed(f"looks for a value in {describe(container)}")


def _charge_product(left: object, right: object) -> int:
    """A number computed, or a text or list made."""
    value, count = (left, right) if isinstance(left, str | list) else (right, left)
    if isinstance(value, str | list) and isinstance(count, int):
        size = min(len(value) * max(count, 0), _MAX_COUNTED)
        return scan_text(size) if isinstance(value, str) else visit_items(size)
    return charge_numbers(left, right)


def _charge_power(left: object, right: object) -> int:
    """By the digits of the result; with fractions it is a series."""
    if isinstance(left, int) and isinstance(right, int) and right >= 0:
        return charge_numbers(left, right) + min(left.bit_length() * right, 2 * _MAX_POWER_BITS) // 32
    return _POWER_STEPS + charge_numbers(left, right)


def _charge_remainder(left: object, right: object) -> int:
    return charge_value(left) if isinstance(left, str) else charge_numbers(left, right)


def _charge_concatenation(*values: object) -> int:
    return sum(map(charge_value, values))


def _charge_contains(value: object, container: object) -> int:
    return charge_membership(container, value)


def _charge_order(left: object, right: object) -> int:
    """The comparison counts what it looks at."""
    return 1


OPERATORS: Final[dict[str, Entry]] = {
    "Add": Entry(add, charge_sum),
    "Sub": Entry(subtract, charge_numbers),
    "Mul": Entry(multiply, _charge_product),
    "Div": Entry(divide, charge_numbers),
    "FloorDiv": Entry(divide_floor, charge_numbers),
    "Mod": Entry(take_remainder, _charge_remainder),
    "Pow": Entry(raise_power, _charge_power),
    "Neg": Entry(negate, charge_value),
    "Pos": Entry(keep_sign, charge_value),
    "Concat": Entry(concatenate, _charge_concatenation),
    "eq": Entry(lambda frame, left, right: compare_equal(left, right, frame), charge_nothing),
    "ne": Entry(lambda frame, left, right: not compare_equal(left, right, frame), charge_nothing),
    "lt": Entry(lambda frame, left, right: precedes(left, right, frame), _charge_order),
    "gt": Entry(lambda frame, left, right: precedes(right, left, frame), _charge_order),
    "lteq": Entry(lambda frame, left, right: _precedes_or_equals(left, right, frame), _charge_order),
    "gteq": Entry(lambda frame, left, right: _precedes_or_equals(right, left, frame), _charge_order),
    "in": Entry(lambda frame, left, right: contains(frame, right, left), _charge_contains),
    "notin": Entry(lambda frame, left, right: not contains(frame, right, left), _charge_contains),
}
"""By the names of Jinja2's nodes and operands."""

BINARY: Final = ("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow")
"""Those that compute something of two values."""


def _precedes_or_equals(left: object, right: object, frame: Frame) -> bool:
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return isinstance(left, Undefined) and isinstance(right, Undefined)
    return not precedes(right, left, frame)


def _read_numbers(operator: str, left: object, right: object, *, divides: bool = False) -> tuple[Number, Number]:
    if not isinstance(left, int | Decimal) or not isinstance(right, int | Decimal):
        raise _refuse(operator, left, right)
    if divides and not right:
        raise EvaluationFailed("divides by zero")
    return left, right


def _refuse(operator: str, left: object, right: object) -> EvaluationFailed:
    return EvaluationFailed(f"cannot apply {operator} to {describe(left)} and {describe(right)}")


def _compute(operation: Callable[[], Number]) -> Number:
    try:
        return check_number(operation())
    except (ArithmeticError, ValueError) as error:
        raise EvaluationFailed("computes a number that is out of range") from error


def _is_divisible(frame: Frame, value: object, num: object) -> bool:
    if isinstance(value, str):
        raise _refuse("%", value, num)
    return take_remainder(frame, value, num) == 0


def _is_even(frame: Frame, value: object) -> bool:
    return _is_divisible(frame, value, 2)


def _is_odd(frame: Frame, value: object) -> bool:
    return not isinstance(value, str) and take_remainder(frame, value, 2) == 1


def _is_lower(frame: Frame, value: object) -> bool:
    return _read_text(frame, value).islower()


def _is_upper(frame: Frame, value: object) -> bool:
    return _read_text(frame, value).isupper()


def _read_text(frame: Frame, value: object) -> str:
    if not isinstance(value, str):
        raise EvaluationFailed(f"looks for upper and lower case in {describe(value)}")
    frame.limit_text(len(value))
    return value


def _is_same(frame: Frame, value: object, other: object) -> bool:
    """Whether both are equal and of one kind: ``1 is sameas true`` is false, though they are equal."""
    return isinstance(value, bool) is isinstance(other, bool) and compare_equal(value, other, frame)


def _is(test: Callable[[object], bool]) -> Entry:
    """A test that looks at the type."""
    return Entry(lambda frame, value: test(value), charge_nothing)


def _compare_by(name: str) -> Entry:
    compare = OPERATORS[name]
    return Entry(lambda frame, value, other: compare.call(frame, value, other), compare.cost)


TESTS: Final[dict[str, Entry]] = {
    "boolean": _is(lambda value: isinstance(value, bool)),
    "callable": _is(lambda value: False),
    "defined": _is(lambda value: not isinstance(value, Undefined)),
    "divisibleby": Entry(_is_divisible, charge_numbers),
    "eq": _compare_by("eq"),
    "equalto": _compare_by("eq"),
    "escaped": _is(lambda value: False),
    "even": Entry(_is_even, charge_value),
    "false": _is(lambda value: value is False),
    "float": _is(lambda value: isinstance(value, Decimal)),
    "ge": _compare_by("gteq"),
    "greaterthan": _compare_by("gt"),
    "gt": _compare_by("gt"),
    "in": Entry(lambda frame, value, seq: contains(frame, seq, value), OPERATORS["in"].cost),
    "integer": _is(is_whole),
    "iterable": _is(lambda value: isinstance(value, str | list | dict | Undefined)),
    "le": _compare_by("lteq"),
    "lessthan": _compare_by("lt"),
    "lower": Entry(_is_lower, charge_value),
    "lt": _compare_by("lt"),
    "mapping": _is(lambda value: isinstance(value, dict)),
    "ne": _compare_by("ne"),
    "none": _is(lambda value: value is None),
    "number": _is(lambda value: isinstance(value, int | Decimal)),
    "odd": Entry(_is_odd, charge_value),
    "sameas": Entry(_is_same, OPERATORS["eq"].cost),
    "sequence": _is(lambda value: isinstance(value, str | list | dict)),
    "string": _is(lambda value: isinstance(value, str)),
    "true": _is(lambda value: value is True),
    "undefined": _is(lambda value: isinstance(value, Undefined)),
    "upper": Entry(_is_upper, charge_value),
    "!=": _compare_by("ne"),
    "<": _compare_by("lt"),
    "<=": _compare_by("lteq"),
    "==": _compare_by("eq"),
    ">": _compare_by("gt"),
    ">=": _compare_by("gteq"),
}
"""By name. Each takes the frame, the value and the arguments."""
