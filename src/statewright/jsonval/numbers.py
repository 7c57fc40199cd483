"""Exact decimal numbers: how they are classified, widened, read from text and written as text.

A number is the pair *unscaled integer* and *scale*: ``unscaled * 10 ** -scale``. No operation here goes through binary
floating point or depends on the decimal context, and none expands a large exponent into digits: what matters about
``1e6000`` is decided from its length and its exponent.
"""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from statewright.jsonval.values import DataType

Number: TypeAlias = int | Decimal

INTEGER_TYPES: Final = (DataType.INTEGER, DataType.LONG, DataType.BIG_INTEGER, DataType.UNBOUND_INTEGER)
"""The whole types, narrow to wide."""

DECIMAL_TYPES: Final = (DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.UNBOUND_DECIMAL)
"""The fractional types, narrow to wide."""

NUMERIC_TYPES: Final = frozenset((*INTEGER_TYPES, *DECIMAL_TYPES))

WIDENINGS: Final[dict[DataType, frozenset[DataType]]] = {
    DataType.INTEGER: NUMERIC_TYPES - {DataType.INTEGER},
    DataType.LONG: NUMERIC_TYPES - {DataType.INTEGER, DataType.LONG, DataType.DOUBLE},
    DataType.BIG_INTEGER: frozenset((DataType.UNBOUND_INTEGER, DataType.UNBOUND_DECIMAL)),
    DataType.UNBOUND_INTEGER: frozenset((DataType.UNBOUND_DECIMAL,)),
    DataType.DOUBLE: frozenset((DataType.UNBOUND_DECIMAL,)),
    DataType.BIG_DECIMAL: frozenset((DataType.UNBOUND_DECIMAL,)),
    DataType.NULL: frozenset(DataType) - {DataType.NULL},
}
"""Type of a value -> the types it may be stored under besides its own (docs/reference/models.md#assignability);
absent = none.
"""

MAX_MAGNITUDE: Final = 1_000_000
"""Decimal exponent that no storable number comes near: PostgreSQL's ``numeric`` ends at 131072 digits."""

_MAX_DOUBLE_DIGITS: Final = 15
_MAX_DOUBLE_SCALE: Final = 292
_MAX_BIG_DECIMAL_SCALE: Final = 18
_UNBOUND_INTEGER_DIGITS: Final = 40
_INT128: Final = 1 << 127

_LITERAL: Final = re.compile(r"[+-]?(?!0*\.(?![0-9]))(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")


def classify_number(value: Number) -> DataType:
    """The narrowest type that holds the value, not its spelling: ``100.0`` is whole
    (docs/reference/models.md#numbers).
    """
    if isinstance(value, int):
        return _classify_whole(value)
    _, digits, exponent = _split_parts(value)
    if exponent < 0 and digits[-1]:
        return _classify_fraction(value, len(digits), -exponent)
    return _classify_trailing_zeros(value, digits, exponent)


def is_assignable(source: DataType, target: DataType) -> bool:
    """Whether a value of type ``source`` may stand under ``target``, which may be the same
    (docs/reference/models.md#assignability).
    """
    return source is target or target in WIDENINGS.get(source, ())


def split_scale(value: Number) -> tuple[int, int]:
    """The integer and the number of digits after its point, as spelled: ``42.0`` is (420, 1), ``1e2`` is (1, -2)."""
    if isinstance(value, int):
        return value, 0
    sign, digits, exponent = _split_parts(value)
    return int(Decimal((sign, tuple(digits), 0))), -exponent


def parse_number(text: str) -> Number | None:
    """The value of a decimal literal, whole values as ``int``; ``None`` for other texts
    (docs/reference/conditions.md#numbers-in-conditions).

    A magnitude beyond :data:`MAX_MAGNITUDE` is replaced by one that compares the same with every storable number.
    """
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        return None
    try:
        return simplify(Decimal(text))
    except InvalidOperation:  # an exponent beyond 10**18
        return _clamp(literal)


def simplify(value: Number) -> Number:
    """The same value, as ``int`` when it is whole and short, and never of a magnitude that would be costly to align."""
    if isinstance(value, int) or not value:
        return int(value)
    magnitude = value.adjusted()
    if abs(magnitude) > MAX_MAGNITUDE:
        return _build_extreme(negative=value.is_signed(), large=magnitude > 0)
    if magnitude < _UNBOUND_INTEGER_DIGITS and value == (whole := int(value)):
        return whole
    return value


def format_number(value: Number) -> str:
    """The number as a JSON literal. Exponents are written ``1e+21``, ``1e-7``: as most encoders spell them."""
    return str(Decimal(value)).lower()  # by way of Decimal: ``str(int)`` refuses thousands of digits


def _split_parts(value: Decimal) -> tuple[int, Sequence[int], int]:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a number")  # noqa: TRY004 - NaN and Infinity: right type, wrong value
    return sign, digits, exponent


def _classify_whole(value: int) -> DataType:
    if -0x8000_0000 <= value <= 0x7FFF_FFFF:
        return DataType.INTEGER
    if -(1 << 63) <= value < 1 << 63:
        return DataType.LONG
    if -_INT128 <= value < _INT128:
        return DataType.BIG_INTEGER
    return DataType.UNBOUND_INTEGER


def _classify_fraction(value: Decimal, precision: int, scale: int) -> DataType:
    """The type of a number without trailing zeros and with digits after its point."""
    if precision <= _MAX_DOUBLE_DIGITS and scale <= _MAX_DOUBLE_SCALE:
        return DataType.DOUBLE
    if scale <= _MAX_BIG_DECIMAL_SCALE and precision <= 39 and precision - scale <= 21:
        unscaled, _ = split_scale(value)
        if (precision <= 38 and precision - scale <= 20) or -_INT128 <= unscaled * 10 ** (18 - scale) < _INT128:
            return DataType.BIG_DECIMAL
    return DataType.UNBOUND_DECIMAL


def _classify_trailing_zeros(value: Decimal, digits: Sequence[int], exponent: int) -> DataType:
    zeros = next((count for count, digit in enumerate(reversed(digits)) if digit), len(digits))
    if zeros == len(digits):
        return DataType.INTEGER
    if exponent + zeros < 0:
        return _classify_fraction(_strip_zeros(value, zeros), len(digits) - zeros, -exponent - zeros)
    if len(digits) + exponent >= _UNBOUND_INTEGER_DIGITS:
        return DataType.UNBOUND_INTEGER
    return _classify_whole(int(value))


def _strip_zeros(value: Decimal, zeros: int) -> Decimal:
    sign, digits, exponent = _split_parts(value)
    return Decimal((sign, tuple(digits[:-zeros]), exponent + zeros))


def _clamp(literal: re.Match[str]) -> Number:
    mantissa = Decimal(literal.string[: literal.start(1) - 1])
    if not mantissa:
        return 0
    return _build_extreme(negative=mantissa.is_signed(), large=not literal[1].startswith("-"))


def _build_extreme(*, negative: bool, large: bool) -> Decimal:
    return Decimal((int(negative), (1,), MAX_MAGNITUDE if large else -MAX_MAGNITUDE))
