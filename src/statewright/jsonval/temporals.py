"""Texts that denote a date or a time, recognised and reduced to instants (docs/reference/models.md#texts,
docs/reference/conditions.md#times).

The subtypes form two chains. Downwards a value loses detail, upwards it is filled with the start of the period and UTC:

    ZONED_DATE_TIME -> LOCAL_DATE_TIME -> LOCAL_DATE -> YEAR_MONTH -> YEAR
                       LOCAL_DATE_TIME -> LOCAL_TIME

``datetime`` is not used: it has no year 0000, and cuts to microseconds what may be written to any precision here.
"""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from statewright.jsonval.values import DataType

TEMPORAL_TYPES: Final = frozenset(
    (
        DataType.ZONED_DATE_TIME,
        DataType.LOCAL_DATE_TIME,
        DataType.LOCAL_DATE,
        DataType.LOCAL_TIME,
        DataType.YEAR_MONTH,
        DataType.YEAR,
    )
)

MS_PER_DAY: Final = 86_400_000
_MS_PER_MINUTE: Final = 60_000

_TIME: Final = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
_OFFSET: Final = r"(Z|[+-][0-9]{2}:[0-9]{2})"
_DATED: Final = re.compile(rf"([0-9]{{4}})(?:-([0-9]{{2}})(?:-([0-9]{{2}})(?:T{_TIME}{_OFFSET}?)?)?)?")
_TIMED: Final = re.compile(_TIME)

_Groups = tuple[str | None, ...]
"""Year, month, day, hour, minute, second, fraction, offset; ``None`` where the text has no such part."""

_COARSER: Final = {
    DataType.ZONED_DATE_TIME: DataType.LOCAL_DATE_TIME,
    DataType.LOCAL_DATE_TIME: DataType.LOCAL_DATE,
    DataType.LOCAL_DATE: DataType.YEAR_MONTH,
    DataType.YEAR_MONTH: DataType.YEAR,
}
_REFINABLE: Final = {
    DataType.YEAR: frozenset(
        (DataType.YEAR_MONTH, DataType.LOCAL_DATE, DataType.LOCAL_DATE_TIME, DataType.ZONED_DATE_TIME)
    ),
    DataType.YEAR_MONTH: frozenset((DataType.LOCAL_DATE, DataType.LOCAL_DATE_TIME, DataType.ZONED_DATE_TIME)),
    DataType.LOCAL_DATE: frozenset((DataType.LOCAL_DATE_TIME, DataType.ZONED_DATE_TIME)),
    DataType.LOCAL_TIME: frozenset((DataType.LOCAL_DATE_TIME, DataType.ZONED_DATE_TIME)),
    DataType.LOCAL_DATE_TIME: frozenset((DataType.ZONED_DATE_TIME,)),
}


class Temporal(Struct, frozen=True, kw_only=True):
    """A parsed text.

    ``wall_ms`` counts milliseconds, floored, from 1970-01-01T00:00 to the clock reading of the text, whatever its zone.
    ``has_rest``: the text says something finer than a millisecond. ``offset_minutes`` is 0 for texts without a zone.
    """

    subtype: DataType
    wall_ms: int
    has_rest: bool = False
    offset_minutes: int = 0

    @property
    def epoch_ms(self) -> int:
        """The instant in milliseconds since the epoch, floored; texts without a zone are read as UTC."""
        return self.wall_ms - self.offset_minutes * _MS_PER_MINUTE


class ResolvedTemporal(Struct, frozen=True, kw_only=True):
    """A temporal seen as another subtype; ``imprecise`` when something other than a zone was cut off on the way."""

    epoch_ms: int
    imprecise: bool = False


def classify_text(text: str) -> DataType:
    """The temporal subtype whose form the whole text has, else ``STRING`` (docs/reference/models.md#texts)."""
    if not "0" <= text[:1] <= "9":
        return DataType.STRING
    return _classify_short(text) if len(text) <= _DATE_CHARS else _classify(text)


def _classify(text: str) -> DataType:
    groups = _recognise(text)
    return DataType.STRING if groups is None else _choose_subtype(groups)


_DATE_CHARS: Final = len("2024-02-29")

_classify_short = lru_cache(maxsize=8192)(_classify)
"""Cached for dates: the same few days, months and years stand in many documents."""


def parse_temporal(text: str) -> Temporal | None:
    """The temporal that the whole text denotes; ``None`` when it denotes none."""
    groups = _recognise(text)
    if groups is None:
        return None
    year, month, day, hour, minute, second, fraction, offset = groups
    days = _day_number(year, month, day) or 0
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    digits = fraction or ""
    return Temporal(
        subtype=_choose_subtype(groups),
        wall_ms=days * MS_PER_DAY + seconds * 1000 + int(digits[:3].ljust(3, "0")),
        has_rest=digits[3:].strip("0") != "",
        offset_minutes=_offset_minutes(offset),
    )


def resolve(operand: Temporal, target: DataType) -> ResolvedTemporal | None:
    """The operand cut, or filled up, to the subtype ``target``; ``None`` when neither leads there."""
    if operand.subtype is target or target in _REFINABLE.get(operand.subtype, ()):
        return ResolvedTemporal(epoch_ms=operand.epoch_ms)
    if target is DataType.LOCAL_TIME:
        return _resolve_time_of_day(operand)
    return _coarsen(operand, target)


def _resolve_time_of_day(operand: Temporal) -> ResolvedTemporal | None:
    if operand.subtype not in (DataType.ZONED_DATE_TIME, DataType.LOCAL_DATE_TIME):
        return None
    day, time = divmod(operand.wall_ms, MS_PER_DAY)
    return ResolvedTemporal(epoch_ms=time, imprecise=day != 0)


def _coarsen(operand: Temporal, target: DataType) -> ResolvedTemporal | None:
    """The operand cut to a coarser subtype, step by step. Dropping the zone keeps the clock reading, so it is always
    precise.
    """
    wall_ms, has_rest, subtype = operand.wall_ms, operand.has_rest, operand.subtype
    while subtype is not target:
        if subtype not in _COARSER:
            return None
        subtype = _COARSER[subtype]
    start = _start_of_period(wall_ms, target)
    imprecise = start != wall_ms or (has_rest and target is not DataType.LOCAL_DATE_TIME)
    return ResolvedTemporal(epoch_ms=start, imprecise=imprecise)


def _start_of_period(wall_ms: int, subtype: DataType) -> int:
    if subtype is DataType.LOCAL_DATE_TIME:
        return wall_ms
    day = wall_ms // MS_PER_DAY
    if subtype is DataType.LOCAL_DATE:
        return day * MS_PER_DAY
    year, month = _year_and_month(day)
    return _days_from_epoch(year, month if subtype is DataType.YEAR_MONTH else 1, 1) * MS_PER_DAY


def _recognise(text: str) -> _Groups | None:
    if not "0" <= text[:1] <= "9":  # most texts are no temporals; all temporals begin with a digit
        return None
    if match := _DATED.fullmatch(text):
        groups = match.groups()
    elif match := _TIMED.fullmatch(text):
        groups = (None, None, None, *match.groups(), None)
    else:
        return None
    is_valid = _day_number(groups[0], groups[1], groups[2]) is not None and _is_clock(groups)
    return groups if is_valid else None


@lru_cache(maxsize=4096)  # ten years of days: most texts of a system fall on few of them
def _day_number(year: str | None, month: str | None, day: str | None) -> int | None:
    """Days since 1970-01-01, of the start of the period where a part is missing; ``None`` when there is no such day."""
    if year is None:
        return 0
    numbers = int(year), int(month or 1), int(day or 1)
    if not (1 <= numbers[1] <= 12 and 1 <= numbers[2] <= _days_in_month(numbers[0], numbers[1])):
        return None
    return _days_from_epoch(*numbers)


def _is_clock(groups: _Groups) -> bool:
    _, _, _, hour, minute, second, _, offset = groups
    if hour is None or minute is None:
        return True
    if int(hour) > 23 or minute > "59" or (second is not None and second > "59"):
        return False
    # Up to 24 hours and 60 minutes: the reference accepts both, and data written by its clients may hold them.
    return offset is None or offset == "Z" or (offset[1:3] <= "24" and offset[4:] <= "60")


def _choose_subtype(groups: _Groups) -> DataType:
    year, month, day, hour, *_, offset = groups
    if year is None:
        return DataType.LOCAL_TIME
    if month is None:
        return DataType.YEAR
    if day is None:
        return DataType.YEAR_MONTH
    if hour is None:
        return DataType.LOCAL_DATE
    return DataType.LOCAL_DATE_TIME if offset is None else DataType.ZONED_DATE_TIME


def _offset_minutes(offset: str | None) -> int:
    if offset is None or offset == "Z":
        return 0
    minutes = int(offset[1:3]) * 60 + int(offset[4:])
    return -minutes if offset[0] == "-" else minutes


def _days_in_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _days_from_epoch(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 (proleptic Gregorian calendar); years begin in March, so that leap days come last."""
    year -= month <= 2
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + day_of_year - 719468


def _year_and_month(days: int) -> tuple[int, int]:
    """The year and month in which the day, counted since 1970-01-01, lies; inverse of :func:`_days_from_epoch`."""
    era, day = divmod(days + 719468, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day_of_year = day - (365 * year + year // 4 - year // 100)
    month = ((5 * day_of_year + 2) // 153 + 2) % 12 + 1
    return era * 400 + year + (month <= 2), month
