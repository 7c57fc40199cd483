"""Changing the variables of an instance: always a new object, the old one stays as it was (decision J1)."""

from decimal import Decimal
from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue

_WRITTEN_OUT: Final = 21
"""Integral numbers of up to so many digits are written without fraction and exponent (spec/step-engine.md §9)."""


def merged_shallow(variables: JsonObject, delta: JsonObject) -> JsonObject:
    """Each member of ``delta`` replaces the whole member of its name; ``null`` is kept, nothing is removed."""
    return {**variables, **delta} if delta else variables


def merged_deep(variables: JsonObject, delta: JsonObject) -> JsonObject:
    """As :func:`merged_shallow`, but where both sides are objects their members are merged in turn.

    Arrays are replaced. Nesting is bounded by the decoder.
    """
    if not delta:
        return variables
    result = dict(variables)
    for name, value in delta.items():
        current = result.get(name)
        if isinstance(current, dict) and isinstance(value, dict):
            result[name] = merged_deep(current, value)
        else:
            result[name] = value
    return result


def tidied(value: JsonObject) -> JsonObject:
    """The same object with integral numbers written without a fraction: ``1.0`` is stored as ``1``."""
    return {name: _tidy(member) for name, member in value.items()}


def tidy_number(value: Decimal) -> int | Decimal:
    """An ``int`` if the number is integral and not too long to be written out."""
    if value.adjusted() < _WRITTEN_OUT and value == value.to_integral_value():
        return int(value)
    return value


def _tidy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _tidy(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    return tidy_number(value) if isinstance(value, Decimal) else value
