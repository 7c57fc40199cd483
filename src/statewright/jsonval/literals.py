"""Number literals of JSON, read without losing a digit and refused before they could cost anything.

Whole literals become ``int``, others ``Decimal``. A whole literal longer than :data:`INT_DIGITS` becomes a ``Decimal``
too: Python converts an ``int`` of n digits to and from text in n² steps and therefore refuses more than 4300 digits,
while ``Decimal`` is linear, equal by value and written as the same literal.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

EXPONENT_LIMIT: Final = 6144
"""Largest magnitude of an exponent as written (decision S1)."""

INT_DIGITS: Final = 4300
"""Longest literal that becomes an ``int``; ``sys.int_info.default_max_str_digits`` of CPython."""

_INTEGER_DIGITS: Final = 131_072
_FRACTION_DIGITS: Final = 16_383
"""Most digits before and after the point that PostgreSQL's ``numeric``, and so ``jsonb``, can hold."""

_SHORT: Final = 64
_CERTAIN: Final = EXPONENT_LIMIT - _SHORT
"""Magnitude and written exponent of a literal differ by less than its length, so this magnitude settles it."""

_LITERAL = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


class UnusableNumber(ValueError):
    """A literal that is valid JSON and larger, smaller or longer than anything that could be stored."""


def read_number(text: str) -> int | Decimal | None:
    """The value of a JSON number literal, ``None`` for any other text. Raises :class:`UnusableNumber`."""
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        return None
    return read_whole(text) if literal[2] is None and literal[3] is None else read_fraction(text)


def read_fraction(text: str) -> Decimal:
    """The value of a literal known to have a fraction or an exponent. Raises :class:`UnusableNumber`."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise UnusableNumber(_exponent_out_of_range()) from None
    if len(text) <= _SHORT and -_CERTAIN < value.adjusted() < _CERTAIN:
        return value
    _require_storable(text)
    return value


def read_whole(text: str) -> int | Decimal:
    """The value of a literal known to be digits with an optional sign. Raises :class:`UnusableNumber`."""
    if len(text) <= INT_DIGITS:
        return int(text)
    _require_storable(text)
    return Decimal(text)


def _require_storable(text: str) -> None:
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        raise UnusableNumber("number is malformed")
    whole, fraction, exponent = len(literal[1]), len(literal[2] or ""), _exponent(literal[3] or "0")
    if whole + exponent > _INTEGER_DIGITS:
        raise UnusableNumber(f"number has more than {_INTEGER_DIGITS} digits before its point")
    if fraction - exponent > _FRACTION_DIGITS:
        raise UnusableNumber(f"number has more than {_FRACTION_DIGITS} digits after its point")


def _exponent(text: str) -> int:
    digits = text.lstrip("+-0") or "0"
    if len(digits) > len(str(EXPONENT_LIMIT)) or int(digits) > EXPONENT_LIMIT:
        raise UnusableNumber(_exponent_out_of_range())
    return -int(digits) if text.startswith("-") else int(digits)


def _exponent_out_of_range() -> str:
    return f"number has an exponent outside ±{EXPONENT_LIMIT}"
