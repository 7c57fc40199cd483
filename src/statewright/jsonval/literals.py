"""Number literals of JSON, read without losing a digit and refused before they could cost anything.

Whole literals become ``int``, others ``Decimal``. A whole literal longer than :data:`MAX_INT_DIGITS` becomes a
``Decimal`` too: Python converts an ``int`` of n digits to and from text in n² steps and therefore refuses more than
4300 digits, while ``Decimal`` is linear, equal by value and written as the same literal.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

MAX_EXPONENT: Final = 6144
"""Largest magnitude of an exponent, as written and of the first digit (decision S20)."""

MAX_DIGITS: Final = 4000
"""Most significant digits (decision S20): leading zeros, and those at the end of a whole number, are none. So what the
database makes of a number, which it writes without exponent, is within the limits, too.
"""

MAX_INT_DIGITS: Final = 4300
"""Digits of a literal that becomes an ``int``; ``sys.int_info.default_max_str_digits`` of CPython."""

_MAX_SHORT_CHARS: Final = 64
_MAX_SAFE_MAGNITUDE: Final = MAX_EXPONENT - _MAX_SHORT_CHARS
"""Magnitude and written exponent of a literal differ by less than its length, so below this magnitude the exponent is
certainly small enough.
"""

_LITERAL: Final = re.compile(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")


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
    if len(text) <= _MAX_SHORT_CHARS:
        try:
            value = Decimal(text)
        except InvalidOperation:
            raise UnusableNumber(_format_exponent_error()) from None
        if -_MAX_SAFE_MAGNITUDE < value.adjusted() < _MAX_SAFE_MAGNITUDE:
            return value
    _require_usable(text)
    return Decimal(text)


def is_in_range(value: int | Decimal) -> bool:
    """Whether a number that was computed could also have been read (decision S20)."""
    number = Decimal(value)
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return len(digits) <= MAX_DIGITS and (not digits or abs(number.adjusted()) <= MAX_EXPONENT)


def read_whole(text: str) -> int | Decimal:
    """The value of a literal known to be digits with an optional sign. Raises :class:`UnusableNumber`."""
    if len(text) > MAX_DIGITS:
        _require_usable(text)
    return read_stored_whole(text)


def read_stored_whole(text: str) -> int | Decimal:
    """The same of what was accepted before, by whatever rules."""
    return int(text) if len(text) <= MAX_INT_DIGITS else Decimal(text)


def _require_usable(text: str) -> None:
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        raise UnusableNumber("number is malformed")
    whole, fraction, exponent = literal[1], literal[2] or "", _read_exponent(literal[3] or "0")
    digits = (whole + fraction).lstrip("0")
    if len(digits if fraction else digits.rstrip("0")) > MAX_DIGITS:
        raise UnusableNumber(f"number has more than {MAX_DIGITS} significant digits")
    if abs(len(digits or "0") - len(fraction) + exponent - 1) > MAX_EXPONENT:
        raise UnusableNumber(_format_exponent_error())


def _read_exponent(text: str) -> int:
    digits = text.lstrip("+-0") or "0"
    if len(digits) > len(str(MAX_EXPONENT)) or int(digits) > MAX_EXPONENT:
        raise UnusableNumber(_format_exponent_error())
    return -int(digits) if text.startswith("-") else int(digits)


def _format_exponent_error() -> str:
    return f"number has an exponent outside ±{MAX_EXPONENT}"
