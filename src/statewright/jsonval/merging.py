"""Merging a delta into the variables of an instance: always a new object, the old one stays as it was (decision J1)."""

from decimal import Decimal
from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue

_MAX_PLAIN_DIGITS: Final = 21
"""Digits up to which integral numbers are written without fraction and exponent
(docs/reference/steps.md#variables).
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


def tidy_number(value: Decimal) -> int | Decimal:
    """An ``int`` if the number is integral and not too long to be written out."""
    if value.adjusted() < _MAX_PLAIN_DIGITS and value == value.to_integral_value():
        return int(value)
    return value


def _tidy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _tidy(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    return tidy_number(value) if isinstance(value, Decimal) else value
