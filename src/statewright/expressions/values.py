"""The values that expressions compute with, and their conversion from variables and to results
(docs/reference/steps.md#literals-and-numbers, docs/reference/steps.md#results).

Numbers from variables are floats, literals without a point are 64-bit integers. Objects and arrays from variables stay
as they are, and their members become values when they are reached; what an expression builds itself is a :class:`Map`
or a tuple.
"""

import math
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias, TypeGuard
from zoneinfo import ZoneInfo

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue, is_whole, tidy_number


class ExpressionError(ValueError):
    """A text that is no expression, or an expression that has no value for the given variables."""


class ExactNumber(float):
    """A number of a variable. It computes as the float it is, but is stored again without losing a digit."""

    __slots__ = ("number",)
    number: int | Decimal


class Byte(int):
    """An element of a text: one byte of its UTF-8 form. It computes as the integer it is."""


class Map(Struct, frozen=True):
    """An object built by an expression."""

    entries: "dict[Value, Value]"
    is_keyed_by_text: bool = True
    """Whether all keys are strings, as in every literal; the results of ``groupBy`` and ``fromPairs`` may have others.
    """


Scalar: TypeAlias = None | bool | int | float | str | datetime | timedelta | ZoneInfo
Value: TypeAlias = "Scalar | Map | tuple[Value, ...] | JsonObject | list[JsonValue]"

_MAX_FLOAT_BITS: Final = 1024
"""Of an integer that a float may stand for."""

_MAX_PLAIN_FLOAT: Final = 1e21
"""Integral floats below this bound are written without an exponent."""


def lift_value(value: JsonValue) -> Value:
    """The value of a variable, to compute with."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _lift_number(value)
    return value


def lower_value(value: Value) -> JsonValue:
    """A value as JSON. Raises :class:`ExpressionError` when JSON, or the database, cannot hold it."""
    match value:
        case None | bool() | dict() | list():
            return value
        case ExactNumber():
            return tidy_number(value.number)
        case float():
            return _lower_float(value)
        case int():
            return int(value)
        case str():
            if "\0" in value:
                raise ExpressionError("result contains a NUL character")
            return value
        case tuple():
            return [lower_value(item) for item in value]
        case Map():
            return {lower_key(key): lower_value(member) for key, member in value.entries.items()}
        case datetime():
            return format_rfc3339(value)
        case timedelta():
            return value // timedelta(microseconds=1) * 1000
        case ZoneInfo():
            raise ExpressionError(f"result is {type_name(value)}, which cannot be stored")


def lower_key(key: Value) -> str:
    """The text of a key of a :class:`Map`, as the name of a member."""
    plain = lower_value(key)
    return plain if isinstance(plain, str) else format_value(key)


def type_name(value: Value) -> str:
    """The type as failure reasons name it (docs/reference/steps.md#decision)."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case float():
            return "float64"
        case Byte():
            return "uint8"
        case int():
            return "int"
        case str():
            return "string"
        case list() | tuple():
            return "[]interface {}"
        case dict() | Map():
            return "map[string]interface {}"
        case datetime():
            return "time.Time"
        case timedelta():
            return "time.Duration"
        case ZoneInfo():
            return "*time.Location"


def is_number(value: Value) -> TypeGuard[int | float]:
    """Whether ``value`` is an integer or a float; a boolean is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def wrap_int64(number: int) -> int:
    """The number as a signed 64-bit integer; an overflow wraps around."""
    return (number + 2**63) % 2**64 - 2**63


def as_float(number: int | float | Decimal) -> float:
    """The nearest float; an infinity beyond the range of floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def as_items(value: Value) -> tuple[Value, ...] | None:
    """The elements of an array, ``None`` for anything else."""
    if isinstance(value, tuple):
        return value
    return tuple(map(lift_value, value)) if isinstance(value, list) else None


def as_entries(value: Value) -> dict[Value, Value] | None:
    """The members of an object in the order of their names, ``None`` for anything else."""
    if isinstance(value, Map):
        return dict(sorted(value.entries.items(), key=lambda entry: format_value(entry[0])))
    return {name: lift_value(member) for name, member in sorted(value.items())} if isinstance(value, dict) else None


def format_value(value: Value) -> str:
    """A value as text: strings as they are, integral numbers without a fraction, the rest as JSON."""
    match value:
        case str():
            return value
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return format_float(value)
        case datetime():
            return format_rfc3339(value)
        case timedelta():
            return f"{format_float(value / timedelta(seconds=1))}s"
        case ZoneInfo():
            return value.key
        case tuple() | list():
            return f"[{' '.join(map(format_value, as_items(value) or ()))}]"
        case Map() | dict():
            members = (as_entries(value) or {}).items()
            return f"map[{' '.join(f'{format_value(name)}:{format_value(member)}' for name, member in members)}]"


def format_float(number: float) -> str:
    """A float as text, without an exponent as long as it is not longer than 21 digits."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number.is_integer() and abs(number) < _MAX_PLAIN_FLOAT else repr(float(number))


def format_rfc3339(time: datetime) -> str:
    """The time in RFC 3339, with as many digits of a fraction as needed."""
    text = time.isoformat()
    if time.microsecond:
        head, tail = text[:19], text[19:]
        text = head + tail[:7].rstrip("0") + tail[7:]
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def argument_error(value: Value, wanted: str, name: str) -> ExpressionError:
    """The error for an argument of the wrong type."""
    return ExpressionError(f"cannot use {type_name(value)} as argument (type {wanted}) to call {name}")


def as_text(value: Value, name: str) -> str:
    """A string argument of the function ``name``. Raises :class:`ExpressionError` for any other value."""
    if not isinstance(value, str):
        raise argument_error(value, "string", name)
    return value


def as_int(value: Value) -> int:
    """An index or a bound: an integer, or a float without its fraction. Raises :class:`ExpressionError`."""
    if is_whole(value):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    raise ExpressionError(f"invalid operation: int({type_name(value)})")


def fetch_member(base: Value, key: Value) -> Value:
    """``base[key]``: nil for a missing member of an object, an error for a missing element of an array or text."""
    if isinstance(base, dict):
        return lift_value(base.get(text)) if isinstance(text := check_key(base, key), str) else None
    if isinstance(base, Map):
        return base.entries.get(check_key(base, key))
    if not isinstance(base, str | list | tuple) or not is_number(key):
        raise ExpressionError(f"cannot fetch {format_value(key)} from {type_name(base)}")
    index = as_int(key)
    length = count_items(base)
    if not -length <= index < length:
        shown = index + length if index < 0 else index
        raise ExpressionError(f"index out of range: {shown} (array length is {length})")
    return fetch_item(base, index)


def count_items(base: "str | list[JsonValue] | tuple[Value, ...]") -> int:
    """How many elements there are; those of a text are the bytes of its UTF-8 form, as in the base language."""
    return len(base.encode()) if isinstance(base, str) and not base.isascii() else len(base)


def fetch_item(base: "str | list[JsonValue] | tuple[Value, ...]", index: int) -> Value:
    """The element at a place there is; negative ones count from the end."""
    if isinstance(base, str):
        if base.isascii():
            return Byte(ord(base[index]))
        return Byte((base[index] if index in (0, -1) else base).encode()[index])
    return lift_value(base[index]) if isinstance(base, list) else base[index]


def check_key(base: "JsonObject | Map", key: Value) -> Value:
    """``key``, if ``base`` could have a member of that name. Raises :class:`ExpressionError`."""
    keyed_by_text = base.is_keyed_by_text if isinstance(base, Map) else True
    if keyed_by_text and not isinstance(key, str | None):
        raise ExpressionError(f"cannot use {type_name(key)} as a key of {type_name(base)}")
    return check_hashable(key)


def check_hashable(key: Value) -> Value:
    """``key``, if some object can have it. Raises :class:`ExpressionError`."""
    if isinstance(key, list | tuple | dict | Map):
        raise ExpressionError(f"cannot use {type_name(key)} as a key")
    return key


def _lift_number(number: int | Decimal) -> ExactNumber:
    if isinstance(number, int) and number.bit_length() > _MAX_FLOAT_BITS:  # to fail takes longer
        lifted_number = ExactNumber(math.inf if number > 0 else -math.inf)
    else:
        lifted_number = ExactNumber(as_float(number))
    lifted_number.number = number
    return lifted_number


def _lower_float(value: float) -> int | Decimal:
    if not math.isfinite(value):
        raise ExpressionError(f"result {format_float(value)} is not a finite number")
    if value.is_integer() and abs(value) < _MAX_PLAIN_FLOAT:
        return int(value)
    return Decimal(repr(value))
