"""Merging a delta into the variables of an instance: always a new object, the old one stays as it was (decision J1)."""

import re
from decimal import Decimal
from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue

_MAX_PLAIN_DIGITS: Final = 21
"""Digits up to which integral numbers are written without fraction and exponent
(docs/reference/steps.md#variables).
"""

_MAX_PLAIN_INT: Final = 10**_MAX_PLAIN_DIGITS

_MAX_DOUBLE_DIGITS: Final = 17
"""Significant digits of the longest number that the shortest form of a double has."""

_TRAILING_ZEROS: Final = re.compile(r"00000[,}\]]")
"""How numbers end that are longer than 21 digits and have no more than 17 significant ones. Ids end with zeros, too,
but then with a quotation mark.
"""


def merge_shallow(variables: JsonObject, delta: JsonObject) -> JsonObject:
    """Each member of ``delta`` replaces the whole member of its name; ``null`` is kept, nothing is removed."""
    return {**variables, **delta} if delta else variables


def merge_deep(variables: JsonObject, delta: JsonObject) -> JsonObject:
    """As :func:`merge_shallow`, but where both sides are objects their members are merged in turn.

    Arrays are replaced. Nesting is bounded by the decoder.
    """
    if not delta:
        return variables
    result = dict(variables)
    for name, value in delta.items():
        current = result.get(name)
        if isinstance(current, dict) and isinstance(value, dict):
            result[name] = merge_deep(current, value)
        else:
            result[name] = value
    return result


def tidy_numbers(value: JsonObject) -> JsonObject:
    """The same object with integral numbers written without a fraction: ``1.0`` is stored as ``1``."""
    return {name: _tidy(member) for name, member in value.items()}


def tidy_number(value: int | Decimal) -> int | Decimal:
    """The number in the form that clients with typed numbers can read: integral ones of up to 21 digits as ``int``,
    longer ones with an exponent unless they have more digits than a double can tell apart. The value stays the same.
    """
    if isinstance(value, int):
        return value if -_MAX_PLAIN_INT < value < _MAX_PLAIN_INT else _shorten(value)
    if value.adjusted() >= _MAX_PLAIN_DIGITS:
        return _shorten(value)
    return int(value) if value == value.to_integral_value() else value


def tidy_stored(value: JsonValue, text: str) -> JsonValue:
    """A value read from the database, which gave it as ``text``: it writes ``1e300`` as three hundred digits."""
    for zeros in _TRAILING_ZEROS.finditer(text):
        if text[max(zeros.start() - _MAX_DOUBLE_DIGITS, 0) : zeros.start()].isdigit():
            return _tidy(value)
    return value


def _shorten(value: int | Decimal) -> int | Decimal:
    """A number of more than 21 digits before its point, with an exponent if it has few significant ones."""
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int), "JSON has no NaN and no Infinity"  # noqa: S101
    significant = bytes(digits).rstrip(b"\0")
    if len(significant) > _MAX_DOUBLE_DIGITS or exponent + len(digits) - len(significant) < 0:
        return value
    return Decimal((sign, tuple(significant), exponent + len(digits) - len(significant)))


def _tidy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _tidy(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    return tidy_number(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else value
