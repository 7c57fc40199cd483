"""Number literals (spec/step-engine.md §10.3)."""

import math
from typing import Final

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.syntax import Constant
from statewright.steps.core.texts import quoted

LARGEST_INT: Final = 2**63 - 1

_BASES: Final = {"0x": ("hex", 16), "0b": ("binary", 2), "0o": ("octal", 8)}
_LONGEST: Final = 64
"""No 64-bit number has more digits, not even in binary."""


def number_literal(text: str) -> Constant:
    """The number a token writes; underscores are ignored. Raises :class:`ExpressionError` beyond 64 bits."""
    plain = text.replace("_", "").lower()
    name, base = _BASES.get(plain[:2], ("integer", 10))
    if base == 10 and ("." in plain or "e" in plain):
        return Constant(value=_float(plain, text), kind="float")
    digits = plain if base == 10 else plain[2:]
    if not digits or len(digits.lstrip("0")) > _LONGEST:
        raise ExpressionError(f"invalid {name} literal: {quoted(text)}")
    try:
        number = int(digits, base)
    except ValueError:
        raise ExpressionError(f"invalid {name} literal: {quoted(text)}") from None
    if number > LARGEST_INT:
        raise ExpressionError(f"invalid {name} literal: {quoted(text)} is out of range")
    return Constant(value=number, kind="int")


def _float(plain: str, text: str) -> float:
    try:
        number = float(plain)
    except ValueError:
        raise ExpressionError(f"invalid float literal: {quoted(text)}") from None
    if not math.isfinite(number):
        raise ExpressionError(f"invalid float literal: {quoted(text)} is out of range")
    return number
