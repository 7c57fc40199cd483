"""ISO-8601 durations: ``PnYnMnWnDTnHnMnS`` (docs/reference/steps.md#durations, decision J4)."""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct

_NUMBER: Final = r"([0-9]{1,12}(?:[.,][0-9]{1,12})?)"
_PATTERN: Final = re.compile(
    rf"P(?=.)(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}W)?(?:{_NUMBER}D)?"
    rf"(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
_US_PER_SECOND: Final = 1_000_000
_US_PER_DAY: Final = 86_400 * _US_PER_SECOND
_MICROSECONDS: Final = (
    30 * _US_PER_DAY,
    7 * _US_PER_DAY,
    _US_PER_DAY,
    3600 * _US_PER_SECOND,
    60 * _US_PER_SECOND,
    _US_PER_SECOND,
)
"""Microseconds of each component after the year; the value of a month is used for its fraction only."""
_MICROSECOND: Final = timedelta(microseconds=1)
MAX_EXACT: Final = timedelta(days=10_000 * 366)
"""Longer than the calendar goes."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_YEAR: Final = 9999


class Delay(Struct, frozen=True):
    """A duration: calendar months, then an exact time."""

    months: int
    microseconds: int


def parse_delay(text: str) -> Delay | None:
    """The duration, ``None`` when ``text`` is not one. Only the last component may have a fraction; zero is allowed.

    The fraction of a month counts as that part of 30 days.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    given = [group for group in match.groups() if group is not None]
    if any(_is_fraction(number) for number in given[:-1]):
        return None
    years, *others = (Decimal((group or "0").replace(",", ".")) for group in match.groups())
    months = years * 12 + others[0]
    whole = int(months)
    exact = [months - whole, *others[1:]]
    return Delay(whole, round(sum(number * unit for number, unit in zip(exact, _MICROSECONDS, strict=True))))


def parse_exact(text: str, longest: timedelta = MAX_EXACT) -> timedelta | None:
    """The duration without months; ``None`` when ``text`` is not one, or one of more than ``longest``."""
    delay = parse_delay(text)
    if delay is None or delay.months or delay.microseconds > longest // _MICROSECOND:
        return None
    return timedelta(microseconds=delay.microseconds)


def add_delay(at: int, delay: Delay) -> int | None:
    """The instant ``delay`` after ``at``, both in microseconds of the epoch; ``None`` beyond the year 9999.

    A day that the month does not have becomes its last one.
    """
    start = _EPOCH + timedelta(microseconds=at)
    month = start.year * 12 + start.month - 1 + delay.months
    year = month // 12
    if year > _MAX_YEAR:
        return None
    day = min(start.day, monthrange(year, month % 12 + 1)[1])
    try:
        end = start.replace(year=year, month=month % 12 + 1, day=day) + timedelta(microseconds=delay.microseconds)
    except OverflowError:
        return None
    return (end - _EPOCH) // _MICROSECOND


def _is_fraction(number: str) -> bool:
    return "." in number or "," in number
