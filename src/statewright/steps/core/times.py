"""Instants as RFC 3339 texts in UTC (spec/step-engine.md §1)."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant_text(at: int) -> str:
    """Microseconds of the epoch as ``2026-05-03T13:08:33.1Z``: trailing zeros of the fraction are dropped."""
    moment = instant(at)
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def second_text(at: int) -> str:
    """Microseconds of the epoch as ``2026-05-03T13:08:33Z``: the fraction is cut off."""
    return f"{instant(at):%Y-%m-%dT%H:%M:%S}Z"


def instant(at: int) -> datetime:
    """Microseconds of the epoch as a UTC time."""
    return _EPOCH + timedelta(microseconds=at)


def microseconds(text: str) -> int:
    """What :func:`instant_text` was given. Raises ValueError for anything else than a time with an offset."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
