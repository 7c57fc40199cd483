"""Operators of expressions. Each looks at what it is about to make before it makes it."""

from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow
from typing import Final, TypeAlias

from statewright.playbooks.jinja.failures import EvaluationFailed
from statewright.playbooks.jinja.frame import Frame
from statewright.playbooks.jinja.values import (
    Undefined,
    check_number,
    compare_equal,
    describe,
    precedes,
    to_text,
)

Number: TypeAlias = int | Decimal
Operator: TypeAlias = Callable[[object, object, Frame], object]

PRECISION: Final = 34
"""Significant digits of what is computed with fractions."""
_CONTEXT: Final = Context(prec=PRECISION, Emax=6144, Emin=-6144, traps=[InvalidOperation, DivisionByZero, Overflow])
_MAX_POWER_BITS: Final = 13_288


def add(left: object, right: object, frame: Frame) -> object:
    """Numbers, texts or lists."""
    if isinstance(left, str) and isinstance(right, str):
        frame.spend_text(len(left) + len(right))
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        frame.spend_items(len(left) + len(right))
        return left + right
    a, b = _read_numbers("+", left, right, frame)
    return _compute(lambda: a + b if isinstance(a, int) and isinstance(b, int) else _CONTEXT.add(a, b))


def subtract(left: object, right: object, frame: Frame) -> object:
    """The difference of two numbers."""
    a, b = _read_numbers("-", left, right, frame)
    return _compute(lambda: a - b if isinstance(a, int) and isinstance(b, int) else _CONTEXT.subtract(a, b))


def multiply(left: object, right: object, frame: Frame) -> object:
    """Numbers, or a text or a list as often as a number says."""
    if isinstance(left, str | list):
        return _repeat(left, right, frame)
    if isinstance(right, str | list):
        return _repeat(right, left, frame)
    a, b = _read_numbers("*", left, right, frame)
    return _compute(lambda: a * b if isinstance(a, int) and isinstance(b, int) else _CONTEXT.multiply(a, b))


def _repeat(value: str | list[object], count: object, frame: Frame) -> object:
    if not isinstance(count, int) or isinstance(count, bool):
        raise _refuse("*", value, count)
    size = len(value) * max(count, 0)
    if isinstance(value, str):
        frame.spend_text(size)
    else:
        frame.spend_items(size)
    return value * count


def divide(left: object, right: object, frame: Frame) -> object:
    """The quotient, whole if it is."""
    a, b = _read_numbers("/", left, right, frame, divides=True)
    return _compute(lambda: _CONTEXT.divide(a, b))


def divide_floor(left: object, right: object, frame: Frame) -> object:
    """The quotient rounded down."""
    a, b = _read_numbers("//", left, right, frame, divides=True)
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return _compute(lambda: _CONTEXT.subtract(a, _floor_remainder(a, b)) / b)


def take_remainder(left: object, right: object, frame: Frame) -> object:
    """The remainder, with the sign of the divisor."""
    a, b = _read_numbers("%", left, right, frame, divides=True)
    return _compute(lambda: a % b if isinstance(a, int) and isinstance(b, int) else _floor_remainder(a, b))


def _floor_remainder(a: Number, b: Number) -> Decimal:
    remainder = _CONTEXT.remainder(a, b)
    return _CONTEXT.add(remainder, b) if remainder and (remainder < 0) != (b < 0) else remainder


def raise_power(left: object, right: object, frame: Frame) -> object:
    """A power that has no more digits than a number may."""
    a, b = _read_numbers("**", left, right, frame)
    if isinstance(a, int) and isinstance(b, int) and b >= 0:
        if abs(a) > 1 and (abs(a).bit_length() - 1) * b > _MAX_POWER_BITS:
            raise EvaluationFailed("computes a number of more than 4000 digits")
        frame.spend(1 + b.bit_length())
        return check_number(a ** min(b, _MAX_POWER_BITS + b % 2))  # of 0, 1 and -1 only the parity matters
    frame.spend(100)
    return _compute(lambda: _CONTEXT.power(a, b))


def negate(value: object, frame: Frame) -> object:
    """The number with the other sign."""
    if isinstance(value, int | Decimal):
        return -value if isinstance(value, int) else value.copy_negate()
    raise EvaluationFailed(f"cannot negate {describe(value)}")


def keep_sign(value: object, frame: Frame) -> object:
    """The number as it is."""
    if isinstance(value, int | Decimal):
        return +value if isinstance(value, int) else value
    raise EvaluationFailed(f"cannot apply + to {describe(value)}")


def concatenate(values: list[object], frame: Frame) -> str:
    """All values as one text (``~``)."""
    pieces = [to_text(value, frame) for value in values]
    frame.spend_text(sum(map(len, pieces)))
    return "".join(pieces)


def contains(container: object, value: object, frame: Frame) -> bool:
    """Whether a value is an item of a list, the name of a member or a part of a text."""
    if isinstance(container, str):
        if isinstance(value, Undefined):
            return False
        if not isinstance(value, str):
            raise EvaluationFailed(f"looks for {describe(value)} in a text")
        frame.spend_search(container, value)
        return value in container
    if isinstance(container, list):
        frame.spend(1 + len(container))
        return any(compare_equal(value, item, frame) for item in container)
    if isinstance(container, dict):
        return isinstance(value, str) and value in container
    if isinstance(container, Undefined):
        return False
    raise EvaluationFailed(f"looks for a value in {describe(container)}")


BINARY: Final[dict[str, Operator]] = {
    "Add": add,
    "Sub": subtract,
    "Mul": multiply,
    "Div": divide,
    "FloorDiv": divide_floor,
    "Mod": take_remainder,
    "Pow": raise_power,
}
"""By the names of Jinja2's nodes."""

COMPARISONS: Final[dict[str, Operator]] = {
    "eq": compare_equal,
    "ne": lambda left, right, frame: not compare_equal(left, right, frame),
    "lt": lambda left, right, frame: precedes(left, right, frame),
    "gt": lambda left, right, frame: precedes(right, left, frame),
    "lteq": lambda left, right, frame: _precedes_or_equals(left, right, frame),
    "gteq": lambda left, right, frame: _precedes_or_equals(right, left, frame),
    "in": lambda left, right, frame: contains(right, left, frame),
    "notin": lambda left, right, frame: not contains(right, left, frame),
}
"""By the names of Jinja2's operands."""


def _precedes_or_equals(left: object, right: object, frame: Frame) -> bool:
    if isinstance(left, Undefined) or isinstance(right, Undefined):
        return isinstance(left, Undefined) and isinstance(right, Undefined)
    return not precedes(right, left, frame)


def _read_numbers(
    operator: str, left: object, right: object, frame: Frame, *, divides: bool = False
) -> tuple[Number, Number]:
    if not isinstance(left, int | Decimal) or not isinstance(right, int | Decimal):
        raise _refuse(operator, left, right)
    if divides and not right:
        raise EvaluationFailed("divides by zero")
    frame.spend_number(left)
    frame.spend_number(right)
    return left, right


def _refuse(operator: str, left: object, right: object) -> EvaluationFailed:
    return EvaluationFailed(f"cannot apply {operator} to {describe(left)} and {describe(right)}")


def _compute(operation: Callable[[], Number]) -> Number:
    try:
        return check_number(operation())
    except (ArithmeticError, ValueError) as error:
        raise EvaluationFailed("computes a number that is out of range") from error
