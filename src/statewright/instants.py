"""Instants on the wire: microseconds since the epoch to RFC 3339 and back (docs/reference/entities.md#parameters,
docs/reference/entities.md#the-envelope, docs/reference/entities.md#points-in-time).
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1)
_SECOND: Final = 1_000_000
_MINUTE: Final = 60 * _SECOND
_TWO_DIGITS: Final = tuple(f"{number:02d}" for number in range(60))
_MINUTES: Final = tuple(f"{hour:02d}:{minute}" for hour in range(24) for minute in _TWO_DIGITS)
_MAX_OFFSET_HOURS, _MAX_OFFSET_MINUTES = 23, 59
_FIRST, _LAST = -62_135_596_800 * _SECOND, 253_402_300_800 * _SECOND - 1
"""The first and the last microsecond of the years 1 to 9999."""

_DATE_TIME: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?"
    r"(?:([Zz])|([+\- ])(\d{2}):(\d{2}))?"
)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def to_us(span: timedelta) -> int:
    """Microseconds, as instants are compared with; finer parts are none."""
    return span // timedelta(microseconds=1)


def to_rfc3339(instant: int) -> str:
    """The instant in UTC with ``Z``, with as many fraction digits as needed, none when the fraction is zero. One beyond
    the calendar, such as that of a timer with a delay of all milliseconds there are, is told as its first or last.
    """
    minutes, rest = divmod(instant, _MINUTE)
    days, minute = divmod(minutes, len(_MINUTES))
    seconds, micros = divmod(rest, _SECOND)
    try:
        text = f"{_format_date(days)}T{_MINUTES[minute]}:{_TWO_DIGITS[seconds]}"
    except OverflowError:
        return to_rfc3339(max(_FIRST, min(instant, _LAST)))
    return f"{text}.{micros:06d}".rstrip("0") + "Z" if micros else f"{text}Z"


@lru_cache(maxsize=4096)
def _format_date(days: int) -> str:
    """A day since the epoch as ``2026-05-03``. Cached: formatting a ``date`` is slow, and dates repeat."""
    return (_FIRST_DAY + timedelta(days=days)).isoformat()


def from_rfc3339(text: str) -> int | None:
    """Epoch microseconds, or None when the text is no date-time.

    Lenient as decision S10 asks: a missing offset means UTC, a blank stands for the ``+`` a client forgot to escape, a
    bare date is midnight UTC. Fractions finer than a microsecond are cut, which keeps ``valid_from <= T`` exact for
    stored instants.
    """
    match = _DATE_TIME.fullmatch(text)
    try:
        if match is None:
            return (
                _to_micros(datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC))
                if _DATE.fullmatch(text)
                else None
            )
        year, month, day, hour, minute, second, fraction, _, sign, offset_hours, offset_minutes = match.groups()
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=UTC)
    except ValueError:
        return None
    instant = _to_micros(moment) + int((fraction or "").ljust(6, "0")[:6])
    if sign is None:
        return instant
    hours, minutes = int(offset_hours), int(offset_minutes)
    if hours > _MAX_OFFSET_HOURS or minutes > _MAX_OFFSET_MINUTES:
        return None
    offset = (hours * 60 + minutes) * 60 * _SECOND
    # An instant beyond the calendar becomes its first or last one: no stored instant lies beyond either.
    return max(_FIRST, min(instant + offset if sign == "-" else instant - offset, _LAST))


def is_date(text: str) -> bool:
    """Whether the text has the form of a bare date."""
    return _DATE.fullmatch(text) is not None


def _to_micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def format_whole_second(at: int) -> str:
    """Microseconds of the epoch as ``2026-05-03T13:08:33Z``: the fraction is cut off."""
    return f"{to_datetime(at):%Y-%m-%dT%H:%M:%S}Z"


def to_datetime(at: int) -> datetime:
    """Microseconds of the epoch as a UTC time."""
    return _EPOCH + timedelta(microseconds=at)


def parse_instant(text: str) -> int:
    """The instant that :func:`to_rfc3339` writes so. Raises ValueError for anything but a time with an offset."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("the offset is missing")
    return (instant - _EPOCH) // timedelta(microseconds=1)
