"""Functions on times, and the methods that times and durations have."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.frames import Frame
from statewright.steps.core.expressions.functions.call import Function, of_one
from statewright.steps.core.expressions.functions.layouts import read_time, write_time
from statewright.steps.core.expressions.values import Value, as_text, type_name
from statewright.steps.core.times import instant

_LAYOUTS: Final = (
    "2006-01-02",
    "15:04:05",
    "2006-01-02 15:04:05",
    "2006-01-02T15:04:05Z07:00",
    "02 Jan 06 15:04 MST",
    "Monday, 02-Jan-06 15:04:05 MST",
    "Mon, 02 Jan 2006 15:04:05 MST",
)
"""What ``date`` reads without being told a layout, in this order."""

_UNITS: Final[Mapping[str, timedelta]] = {
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
    "µs": timedelta(microseconds=1),
    "ns": timedelta(microseconds=1) / 1000,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|ns)")
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)")


def _now(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    zone = _zone(arguments[0], "now") if arguments else UTC
    return instant(frame.at).astimezone(zone)


def _duration(value: Value) -> Value:
    text = as_text(value, "duration")
    if not _DURATION.fullmatch(text):
        raise ExpressionError(f"invalid duration {text}")
    try:
        total = sum((float(number) * _unit(unit) for number, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        raise ExpressionError(f"invalid duration {text}") from None
    return -total if text.startswith("-") else total


def _unit(unit: str) -> timedelta:
    """A nanosecond is less than a duration can tell; it counts as nothing."""
    return _UNITS[unit]


def _date(_: Frame, arguments: tuple[Value, ...]) -> Value:
    """``date([zone,] text [, layout [, zone name]])``."""
    zone: tzinfo = UTC
    if isinstance(arguments[0], ZoneInfo):
        zone, arguments = arguments[0], arguments[1:]
    if not 1 <= len(arguments) <= 3:
        raise ExpressionError("invalid number of arguments to call date")
    text, *options = [as_text(argument, "date") for argument in arguments]
    if len(options) == 2:
        zone = _named_zone(options[1])
    times = (read_time(text, layout, zone) for layout in options[:1] or _LAYOUTS)
    time = next((time for time in times if time is not None), None)
    if time is None:
        raise ExpressionError(f"invalid date {text}")
    return time


def _timezone(value: Value) -> Value:
    return _named_zone(as_text(value, "timezone"))


def _named_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (OSError, ValueError, KeyError):
        raise ExpressionError(f"unknown time zone {name}") from None


def _zone(value: Value, name: str) -> ZoneInfo:
    if not isinstance(value, ZoneInfo):
        raise ExpressionError(f"cannot use {type_name(value)} as argument (type *time.Location) to call {name}")
    return value


def _on_time(apply: Callable[[datetime], Value]) -> Callable[[Value, tuple[Value, ...]], Value]:
    def method(value: Value, arguments: tuple[Value, ...]) -> Value:
        if not isinstance(value, datetime) or arguments:
            raise ExpressionError("too many arguments")
        return apply(value)

    return method


def _on_duration(unit: timedelta) -> Callable[[Value, tuple[Value, ...]], Value]:
    def method(value: Value, arguments: tuple[Value, ...]) -> Value:
        if not isinstance(value, timedelta) or arguments:
            raise ExpressionError("too many arguments")
        return value / unit

    return method


def _format(value: Value, arguments: tuple[Value, ...]) -> Value:
    if not isinstance(value, datetime) or len(arguments) != 1:
        raise ExpressionError("not enough arguments")
    return write_time(value, as_text(arguments[0], "Format"))


METHODS: Final[Mapping[tuple[type, str], Callable[[Value, tuple[Value, ...]], Value]]] = {
    (datetime, "Year"): _on_time(lambda time: time.year),
    (datetime, "Month"): _on_time(lambda time: time.month),
    (datetime, "Day"): _on_time(lambda time: time.day),
    (datetime, "Hour"): _on_time(lambda time: time.hour),
    (datetime, "Minute"): _on_time(lambda time: time.minute),
    (datetime, "Second"): _on_time(lambda time: time.second),
    (datetime, "Weekday"): _on_time(lambda time: time.isoweekday() % 7),
    (datetime, "YearDay"): _on_time(lambda time: time.timetuple().tm_yday),
    (datetime, "Unix"): _on_time(lambda time: int(time.timestamp() // 1)),
    (datetime, "UnixMilli"): _on_time(lambda time: int(time.timestamp() * 1000 // 1)),
    (datetime, "UTC"): _on_time(lambda time: time.astimezone(UTC)),
    (datetime, "Format"): _format,
    (timedelta, "Hours"): _on_duration(timedelta(hours=1)),
    (timedelta, "Minutes"): _on_duration(timedelta(minutes=1)),
    (timedelta, "Seconds"): _on_duration(timedelta(seconds=1)),
}
"""By type and name."""

FUNCTIONS: Final[Mapping[str, Function]] = {
    "now": _now,
    "duration": of_one(_duration),
    "date": _date,
    "timezone": of_one(_timezone),
}
