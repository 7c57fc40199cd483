"""Reading and writing times by a layout: the text that shows how ``Mon Jan 2 15:04:05 -0700 MST 2006`` is written."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from msgspec import Struct

from statewright.evaluation.regexes import Regex, compile_regex, escape

_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MAX_LAYOUT_CHARS: Final = 500
"""Of a layout by which texts are read."""

_CENTURY_SPLIT: Final = 69
"""Two-digit years from here on belong to the twentieth century."""
_OFFSET: Final = r"Z|[+-]\d\d:?\d\d|[+-]\d\d"
_FRACTION: Final = r"\d{1,9}"


class _Piece(Struct, frozen=True):
    field: str
    """The part of a time that it reads: several pieces may read one. Empty: its text is skipped."""
    pattern: str
    write: Callable[[datetime], str]


def _hour12(time: datetime) -> int:
    return (time.hour + 11) % 12 + 1


def _format_offset(time: datetime, *, colon: bool, zulu: bool) -> str:
    shift = time.utcoffset() or timedelta()
    if zulu and not shift:
        return "Z"
    minutes = abs(shift) // timedelta(minutes=1)
    sign = "-" if shift < timedelta() else "+"
    return f"{sign}{minutes // 60:02d}{':' * colon}{minutes % 60:02d}"


_PIECES: Final[Mapping[str, _Piece]] = {
    "January": _Piece("month_name", "|".join(_MONTHS), lambda time: _MONTHS[time.month - 1]),
    "Jan": _Piece("month_name", "|".join(name[:3] for name in _MONTHS), lambda time: _MONTHS[time.month - 1][:3]),
    "Monday": _Piece("", "|".join(_DAYS), lambda time: _DAYS[time.weekday()]),
    "Mon": _Piece("", "|".join(name[:3] for name in _DAYS), lambda time: _DAYS[time.weekday()][:3]),
    "MST": _Piece("zone", "[A-Z]{3,5}", lambda time: time.tzname() or "UTC"),
    "2006": _Piece("year", r"\d{4}", lambda time: f"{time.year:04d}"),
    "Z07:00": _Piece("offset", _OFFSET, lambda time: _format_offset(time, colon=True, zulu=True)),
    "Z0700": _Piece("offset", _OFFSET, lambda time: _format_offset(time, colon=False, zulu=True)),
    "-07:00": _Piece("offset", _OFFSET, lambda time: _format_offset(time, colon=True, zulu=False)),
    "-0700": _Piece("offset", _OFFSET, lambda time: _format_offset(time, colon=False, zulu=False)),
    "01": _Piece("month", r"\d\d", lambda time: f"{time.month:02d}"),
    "02": _Piece("day", r"\d\d", lambda time: f"{time.day:02d}"),
    "03": _Piece("hour12", r"\d\d", lambda time: f"{_hour12(time):02d}"),
    "04": _Piece("minute", r"\d\d", lambda time: f"{time.minute:02d}"),
    "05": _Piece("second", r"\d\d", lambda time: f"{time.second:02d}"),
    "06": _Piece("year2", r"\d\d", lambda time: f"{time.year % 100:02d}"),
    "15": _Piece("hour", r"\d\d", lambda time: f"{time.hour:02d}"),
    ".000000": _Piece("fraction", _FRACTION, lambda time: f".{time.microsecond:06d}"),
    ".000": _Piece("fraction", _FRACTION, lambda time: f".{time.microsecond // 1000:03d}"),
    "PM": _Piece("half", "AM|PM", lambda time: "PM" if time.hour >= 12 else "AM"),
    "pm": _Piece("half", "am|pm", lambda time: "pm" if time.hour >= 12 else "am"),
    "_2": _Piece("day", r" ?\d{1,2}", lambda time: f"{time.day:2d}"),
    "1": _Piece("month", r"\d{1,2}", lambda time: str(time.month)),
    "2": _Piece("day", r"\d{1,2}", lambda time: str(time.day)),
    "3": _Piece("hour12", r"\d{1,2}", lambda time: str(_hour12(time))),
    "4": _Piece("minute", r"\d{1,2}", lambda time: str(time.minute)),
    "5": _Piece("second", r"\d{1,2}", lambda time: str(time.second)),
}
_PIECE: Final = re.compile("|".join(map(re.escape, _PIECES)))


def parse_time(text: str, layout: str, zone: tzinfo = UTC) -> datetime | None:
    """The time that ``text`` writes in ``layout``; of ``zone`` unless it says an offset. ``None`` when it is none.

    What the layout leaves out is that of midnight of the first of January of the year 1.
    """
    found = _compile_layout(layout).read_fields(text)
    if found is None:
        return None
    try:
        return datetime(
            _read_year(found),
            _read_month(found),
            int(found.get("day", "1")),
            _read_hour(found),
            int(found.get("minute", "0")),
            int(found.get("second", "0")),
            int(found.get("fraction", "0")[:6].ljust(6, "0")),
            tzinfo=_read_zone(found, zone),
        )
    except ValueError:
        return None


def format_time(time: datetime, layout: str) -> str:
    """The time in ``layout``."""
    return _PIECE.sub(lambda piece: _PIECES[piece[0]].write(time), layout)


@lru_cache(maxsize=64)
def _compile_layout(layout: str) -> Regex:
    parts: list[str] = []
    seen: set[str] = set()
    position = 0
    for piece in _PIECE.finditer(layout):
        parts += [escape(layout[position : piece.start()]), _build_pattern(_PIECES[piece[0]], seen)]
        position = piece.end()
    return compile_regex("".join([*parts, escape(layout[position:])]), captures=True)


def _build_pattern(piece: _Piece, seen: set[str]) -> str:
    """A part of the pattern. A fraction may follow the seconds whether the layout has one or not."""
    if not piece.field or piece.field in seen:
        return f"(?:{piece.pattern})"
    seen.add(piece.field)
    if piece.field == "fraction":
        return rf"\.(?P<fraction>{piece.pattern})" if "second" not in seen else ""
    group = f"(?P<{piece.field}>{piece.pattern})"
    return rf"{group}(?:\.(?P<fraction>{_FRACTION}))?" if piece.field == "second" else group


def _read_year(found: Mapping[str, str]) -> int:
    if "year2" in found:
        short = int(found["year2"])
        return short + (1900 if short >= _CENTURY_SPLIT else 2000)
    return int(found.get("year", "1"))


def _read_month(found: Mapping[str, str]) -> int:
    name = found.get("month_name")
    if name is None:
        return int(found.get("month", "1"))
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name))


def _read_hour(found: Mapping[str, str]) -> int:
    if "hour12" not in found:
        return int(found.get("hour", "0"))
    return int(found["hour12"]) % 12 + (12 if found.get("half", "AM").upper() == "PM" else 0)


def _read_zone(found: Mapping[str, str], zone: tzinfo) -> tzinfo:
    if "offset" not in found:
        return UTC if "zone" in found else zone
    text = found["offset"].replace(":", "")
    if text == "Z":
        return UTC
    shift = timedelta(hours=int(text[1:3]), minutes=int(text[3:] or "0"))
    return timezone(-shift if text[0] == "-" else shift) if shift else UTC
