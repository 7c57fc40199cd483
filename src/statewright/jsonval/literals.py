"""Number literals of JSON, read without losing a digit and refused before they could cost anything.

Whole literals become ``int``, others ``Decimal``. A whole literal longer than :data:`MAX_INT_DIGITS` becomes a
``Decimal`` too: Python converts an ``int`` of n digits to and from text in n² steps and therefore refuses more than
4300 digits, while ``Decimal`` is linear, equal by value and written as the same literal.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

MAX_EXPONENT: Final = 6144
"""Largest magnitude of an exponent as written (decision S1)."""

MAX_INT_DIGITS: Final = 4300
"""Digits of a literal that becomes an ``int``; ``sys.int_info.default_max_str_digits`` of CPython."""

_MAX_INTEGER_DIGITS: Final = 131_072
_MAX_FRACTION_DIGITS: Final = 16_383
"""Most digits before and after the point that PostgreSQL's ``numeric``, and so ``jsonb``, can hold."""

_MAX_SHORT_CHARS: Final = 64
_MAX_SAFE_MAGNITUDE: Final = MAX_EXPONENT - _MAX_SHORT_CHARS
"""Magnitude and written exponent of a literal differ by less than its length, so below this magnitude the exponent is
certainly small enough.
"""

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
        raise UnusableNumber(_format_exponent_error()) from None
    if len(text) <= _MAX_SHORT_CHARS and -_MAX_SAFE_MAGNITUDE < value.adjusted() < _MAX_SAFE_MAGNITUDE:
        return value
    _require_storable(text)
    return value


def read_whole(text: str) -> int | Decimal:
    """The value of a literal known to be digits with an optional sign. Raises :class:`UnusableNumber`."""
    if len(text) <= MAX_INT_DIGITS:
        return int(text)
    _require_storable(text)
    return Decimal(text)


def _require_storable(text: str) -> None:
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        raise UnusableNumber("number is malformed")
    whole, fraction, exponent = len(literal[1]), len(literal[2] or ""), _read_exponent(literal[3] or "0")
    if whole + exponent > _MAX_INTEGER_DIGITS:
        raise UnusableNumber(f"number has more than {_MAX_INTEGER_DIGITS} digits before its point")
    if fraction - exponent > _MAX_FRACTION_DIGITS:
        raise UnusableNumber(f"number has more than {_MAX_FRACTION_DIGITS} digits after its point")


def _read_exponent(text: str) -> int:
    digits = text.lstrip("+-0") or "0"
    if len(digits) > len(str(MAX_EXPONENT)) or int(digits) > MAX_EXPONENT:
        raise UnusableNumber(_format_exponent_error())
    return -int(digits) if text.startswith("-") else int(digits)


def _format_exponent_error() -> str:
    return f"number has an exponent outside ±{MAX_EXPONENT}"
