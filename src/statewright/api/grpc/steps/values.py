"""JSON values as ``google.protobuf.Struct`` and back, instants as ``Timestamp``.

The numbers of a Struct are doubles (docs/reference/steps.md#differences-from-rest): what is exact over REST is rounded
here.
"""

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Final

from google.protobuf.struct_pb2 import ListValue, NullValue, Struct, Value
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
    return Struct(fields={name: to_proto_value(member) for name, member in members.items()})


def to_proto_value(value: JsonValue) -> Value:
    """A Value with this JSON value."""
    match value:
        case None:
            return Value(null_value=NullValue.NULL_VALUE)
        case bool():
            return Value(bool_value=value)
        case int() | Decimal():
            return Value(number_value=_to_double(value))
        case str():
            return Value(string_value=value)
        case list():
            return Value(list_value=ListValue(values=[to_proto_value(item) for item in value]))
        case dict():
            return Value(struct_value=to_proto_struct(value))


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
