"""JSON values as ``google.protobuf.Struct`` and back, instants as ``Timestamp``.

The numbers of a Struct are doubles (docs/reference/steps.md#differences-from-rest): what is exact over REST is rounded
here.
"""

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Final

from google.protobuf.struct_pb2 import NullValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from statewright.failures import ProcessBadRequest
from statewright.jsonval.values import JsonObject, JsonValue

_MAX_EXACT: Final = 2.0**63
"""Integral doubles below this magnitude are read as integers."""
_MICROSECONDS: Final = 1_000_000


def to_json_object(struct: Struct) -> JsonObject:
    """The object in a Struct. Raises ``ProcessBadRequest`` for numbers that JSON does not have."""
    return {name: to_json_value(value) for name, value in struct.fields.items()}


def to_json_value(value: Value) -> JsonValue:
    """The JSON value in a Value; one without a kind is ``null``. Raises ``ProcessBadRequest``."""
    match value.WhichOneof("kind"):
        case "number_value":
            return _to_number(value.number_value)
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return to_json_object(value.struct_value)
        case "list_value":
            return [to_json_value(item) for item in value.list_value.values]
        case _:
            return None


def to_proto_struct(members: Mapping[str, JsonValue]) -> Struct:
    """A Struct with these members."""
    struct = Struct()
    fill_struct(struct, members)
    return struct


def to_proto_value(value: JsonValue) -> Value:
    """A Value with this JSON value."""
    message = Value()
    _fill_value(message, value)
    return message


def fill_struct(struct: Struct, members: Mapping[str, JsonValue]) -> None:
    """Add these members to a Struct, where it is: to copy a large one is a single long call."""
    for name, member in members.items():
        _fill_value(struct.fields[name], member)


def _fill_value(message: Value, value: JsonValue) -> None:
    match value:
        case None:
            message.null_value = NullValue.NULL_VALUE
        case bool():
            message.bool_value = value
        case int() | Decimal():
            message.number_value = _to_double(value)
        case str():
            message.string_value = value
        case list():
            message.list_value.SetInParent()
            for item in value:
                _fill_value(message.list_value.values.add(), item)
        case dict():
            message.struct_value.SetInParent()
            fill_struct(message.struct_value, value)


def to_timestamp(at: int | None) -> Timestamp | None:
    """Microseconds of the epoch as a Timestamp; None for None."""
    if at is None:
        return None
    return Timestamp(seconds=at // _MICROSECONDS, nanos=at % _MICROSECONDS * 1000)


def _to_number(value: float) -> int | Decimal:
    if not isfinite(value):
        raise ProcessBadRequest(f"{value} is no JSON number")
    return int(value) if value.is_integer() and abs(value) < _MAX_EXACT else Decimal(repr(value))


def _to_double(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:  # an int that no double reaches
        return float("inf") if value > 0 else float("-inf")
