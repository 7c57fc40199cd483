"""The values expressions compute with, their way in from variables and out again (spec/step-engine.md §10.3, §10.6).

Numbers from variables are floats, literals without a point are 64-bit integers. Objects and arrays from variables stay
as they are, and their members become values when they are reached; what an expression builds itself is a :class:`Map`
or a tuple.
"""

import math
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Struct

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.merging import tidy_number


class Exact(float):
    """A number of a variable. It computes as the float it is, but is stored again without losing a digit."""

    __slots__ = ("number",)
    number: int | Decimal


class Map(Struct, frozen=True):
    """An object built by an expression."""

    entries: "dict[Value, Value]"
    is_keyed_by_text: bool = True
    """Whether its keys are strings, as those of every literal; groups and pairs may have any scalar."""


Scalar: TypeAlias = None | bool | int | float | str | datetime | timedelta | ZoneInfo
Value: TypeAlias = "Scalar | Map | tuple[Value, ...] | JsonObject | list[JsonValue]"

_WRITTEN_OUT: Final = 1e21
"""Integral floats below are written without an exponent."""


def lifted(value: JsonValue) -> Value:
    """A value of a variable, ready to compute with."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _exact(value)
    return value


def lowered(value: Value) -> JsonValue:
    """A value as JSON. Raises :class:`ExpressionError` when JSON, or the database, cannot hold it."""
    match value:
        case None | bool():
            return value
        case Exact():
            return value.number if isinstance(value.number, int) else tidy_number(value.number)
        case float():
            return _number(value)
        case int() | dict() | list():
            return value
        case str():
            if "\0" in value:
                raise ExpressionError("result contains a NUL character")
            return value
        case tuple():
            return [lowered(item) for item in value]
        case Map():
            return {lowered_key(key): lowered(member) for key, member in value.entries.items()}
        case datetime():
            return time_text(value)
        case timedelta():
            return value // timedelta(microseconds=1) * 1000
        case ZoneInfo():
            raise ExpressionError(f"result is {type_name(value)}, which cannot be stored")


def lowered_key(key: Value) -> str:
    """The text of a key."""
    plain = lowered(key)
    return plain if isinstance(plain, str) else display(key)


def type_name(value: Value) -> str:
    """The type as failure reasons name it (spec/step-engine.md §5.4)."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case float():
            return "float64"
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


def is_number(value: Value) -> bool:
    """Whether ``value`` is an integer or a float; a boolean is neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def wrapped(number: int) -> int:
    """A 64-bit integer: what overflows comes back from the other end."""
    return (number + 2**63) % 2**64 - 2**63


def as_float(number: int | float) -> float:
    """The nearest float; infinite when there is none."""
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def items(value: Value) -> tuple[Value, ...] | None:
    """The elements of an array, ``None`` for anything else."""
    if isinstance(value, tuple):
        return value
    return tuple(map(lifted, value)) if isinstance(value, list) else None


def entries(value: Value) -> dict[Value, Value] | None:
    """The members of an object in the order of their names, ``None`` for anything else."""
    if isinstance(value, Map):
        return dict(sorted(value.entries.items(), key=lambda entry: display(entry[0])))
    return {name: lifted(member) for name, member in sorted(value.items())} if isinstance(value, dict) else None


def display(value: Value) -> str:
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
            return float_text(value)
        case datetime():
            return time_text(value)
        case timedelta():
            return f"{float_text(value / timedelta(seconds=1))}s"
        case ZoneInfo():
            return value.key
        case tuple() | list():
            return f"[{' '.join(map(display, items(value) or ()))}]"
        case Map() | dict():
            members = (entries(value) or {}).items()
            return f"map[{' '.join(f'{display(name)}:{display(member)}' for name, member in members)}]"


def float_text(number: float) -> str:
    """A float as text, without an exponent as long as it is not longer than 21 digits."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return str(int(number)) if number.is_integer() and abs(number) < _WRITTEN_OUT else repr(float(number))


def time_text(time: datetime) -> str:
    """RFC 3339 with as much fraction as there is."""
    text = time.isoformat()
    if time.microsecond:
        head, tail = text[:19], text[19:]
        text = head + tail[:7].rstrip("0") + tail[7:]
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def unusable(value: Value, wanted: str, name: str) -> ExpressionError:
    """The complaint about an argument of the wrong type."""
    return ExpressionError(f"cannot use {type_name(value)} as argument (type {wanted}) to call {name}")


def as_text(value: Value, name: str) -> str:
    """A string argument of the function ``name``."""
    if not isinstance(value, str):
        raise unusable(value, "string", name)
    return value


def as_int(value: Value) -> int:
    """An index or a bound: integers and, cut off, floats."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    raise ExpressionError(f"invalid operation: int({type_name(value)})")


def fetched(base: Value, key: Value) -> Value:
    """``base[key]``: nil for a missing member of an object, an error for a missing element of an array."""
    if isinstance(base, dict):
        return lifted(base.get(text)) if isinstance(text := usable_key(base, key), str) else None
    if isinstance(base, Map):
        return base.entries.get(usable_key(base, key))
    elements = items(base)
    if elements is None or not is_number(key):
        raise ExpressionError(f"cannot fetch {display(key)} from {type_name(base)}")
    index = as_int(key)
    if not -len(elements) <= index < len(elements):
        shown = index + len(elements) if index < 0 else index
        raise ExpressionError(f"index out of range: {shown} (array length is {len(elements)})")
    return elements[index]


def usable_key(base: "JsonObject | Map", key: Value) -> Value:
    """``key``, if ``base`` could have a member of that name. Raises :class:`ExpressionError`."""
    keyed_by_text = base.is_keyed_by_text if isinstance(base, Map) else True
    if keyed_by_text and not isinstance(key, str | None):
        raise ExpressionError(f"cannot use {type_name(key)} as a key of {type_name(base)}")
    return hashable(key)


def hashable(key: Value) -> Value:
    """``key``, if some object can have it. Raises :class:`ExpressionError`."""
    if isinstance(key, list | tuple | dict | Map):
        raise ExpressionError(f"cannot use {type_name(key)} as a key")
    return key


def _exact(number: int | Decimal) -> Exact:
    try:
        lifted_number = Exact(number)
    except OverflowError:
        lifted_number = Exact(math.copysign(math.inf, number))
    lifted_number.number = number
    return lifted_number


def _number(value: float) -> int | Decimal:
    if not math.isfinite(value):
        raise ExpressionError(f"result {float_text(value)} is not a finite number")
    if value.is_integer() and abs(value) < _WRITTEN_OUT:
        return int(value)
    return Decimal(repr(value))
