"""Functions on times, and the methods that times and durations have."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from statewright.evaluation.costs import Entry, charge_nothing
from statewright.evaluation.values import count_chars
from statewright.expressions.frames import Frame, wrap_unary
from statewright.expressions.functions.layouts import MAX_LAYOUT_CHARS, format_time, parse_time
from statewright.expressions.values import ExpressionError, Value, as_text, type_name
from statewright.instants import to_datetime

_LAYOUTS: Final = (
    "2006-01-02",
    "15:04:05",
    "2006-01-02 15:04:05",
    "2006-01-02T15:04:05Z07:00",
    "02 Jan 06 15:04 MST",
    "Monday, 02-Jan-06 15:04:05 MST",
    "Mon, 02 Jan 2006 15:04:05 MST",
)
"""The layouts that ``date`` tries when none is given, in this order."""

_UNITS: Final[Mapping[str, timedelta]] = {
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
    "µs": timedelta(microseconds=1),
    "ns": timedelta(microseconds=1) / 1000,
}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|µs|ns)")
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_PART.pattern})+)")


def _now(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    zone = _require_zone(arguments[0], "now") if arguments else UTC
    return to_datetime(frame.at).astimezone(zone)


def _duration(value: Value) -> Value:
    text = as_text(value, "duration")
    if not _DURATION.fullmatch(text):
        raise ExpressionError(f"invalid duration {text}")
    try:
        total = sum((float(number) * _get_unit(unit) for number, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        raise ExpressionError(f"invalid duration {text}") from None
    return -total if text.startswith("-") else total


def _get_unit(unit: str) -> timedelta:
    """The length of a unit; zero for ``ns``, which is finer than the microseconds of a duration."""
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
        zone = _load_zone(options[1])
    if options and len(options[0]) > MAX_LAYOUT_CHARS:
        raise ExpressionError(f"layout of {len(options[0])} characters: {MAX_LAYOUT_CHARS} are the most")
    times = (parse_time(text, layout, zone) for layout in options[:1] or _LAYOUTS)
    time = next((time for time in times if time is not None), None)
    if time is None:
        raise ExpressionError(f"invalid date {text}")
    return time


def _timezone(value: Value) -> Value:
    return _load_zone(as_text(value, "timezone"))


def _load_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (OSError, ValueError, KeyError):
        raise ExpressionError(f"unknown time zone {name}") from None


def _require_zone(value: Value, name: str) -> ZoneInfo:
    if not isinstance(value, ZoneInfo):
        raise ExpressionError(f"cannot use {type_name(value)} as argument (type *time.Location) to call {name}")
    return value


def _make_time_method(apply: Callable[[datetime], Value]) -> Entry:
    def method(value: Value, arguments: tuple[Value, ...]) -> Value:
        if not isinstance(value, datetime) or arguments:
            raise ExpressionError("too many arguments")
        return apply(value)

    return Entry(method, _convert_time)


def _make_duration_method(unit: timedelta) -> Entry:
    def method(value: Value, arguments: tuple[Value, ...]) -> Value:
        if not isinstance(value, timedelta) or arguments:
            raise ExpressionError("too many arguments")
        return value / unit

    return Entry(method, charge_nothing)


def _convert_time(*_: object) -> int:
    return 2


def _write_layout(_: Value, *arguments: Value) -> int:
    return 2 + 2 * sum(map(count_chars, arguments))


def _read_duration(value: Value) -> int:
    return 1 + count_chars(value) // 2


def _read_date(*arguments: Value) -> int:
    """A layout of the author's is compiled; without one, all that are known are tried."""
    return _DATE_ELEMENTS + 2 * sum(map(count_chars, arguments))


_DATE_ELEMENTS: Final = 30
_ZONE_ELEMENTS: Final = 200
"""What reading the rules of a zone from its file takes."""


def _read_zone(*_: object) -> int:
    return _ZONE_ELEMENTS


def _format(value: Value, arguments: tuple[Value, ...]) -> Value:
    if not isinstance(value, datetime) or len(arguments) != 1:
        raise ExpressionError("not enough arguments")
    return format_time(value, as_text(arguments[0], "Format"))


METHODS: Final[Mapping[tuple[type, str], Entry]] = {
    (datetime, "Year"): _make_time_method(lambda time: time.year),
    (datetime, "Month"): _make_time_method(lambda time: time.month),
    (datetime, "Day"): _make_time_method(lambda time: time.day),
    (datetime, "Hour"): _make_time_method(lambda time: time.hour),
    (datetime, "Minute"): _make_time_method(lambda time: time.minute),
    (datetime, "Second"): _make_time_method(lambda time: time.second),
    (datetime, "Weekday"): _make_time_method(lambda time: time.isoweekday() % 7),
    (datetime, "YearDay"): _make_time_method(lambda time: time.timetuple().tm_yday),
    (datetime, "Unix"): _make_time_method(lambda time: int(time.timestamp() // 1)),
    (datetime, "UnixMilli"): _make_time_method(lambda time: int(time.timestamp() * 1000 // 1)),
    (datetime, "UTC"): _make_time_method(lambda time: time.astimezone(UTC)),
    (datetime, "Format"): Entry(_format, _write_layout),
    (timedelta, "Hours"): _make_duration_method(timedelta(hours=1)),
    (timedelta, "Minutes"): _make_duration_method(timedelta(minutes=1)),
    (timedelta, "Seconds"): _make_duration_method(timedelta(seconds=1)),
}
"""The methods of times and durations, by type and name: each takes the value and the arguments, as its cost does."""

FUNCTIONS: Final[Mapping[str, Entry]] = {
    "now": Entry(_now, _convert_time),
    "duration": wrap_unary(_duration, _read_duration),
    "date": Entry(_date, _read_date),
    "timezone": wrap_unary(_timezone, _read_zone),
}
