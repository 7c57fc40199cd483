"""ISO-8601 durations (docs/reference/steps.md#durations)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.net import Delay, add_delay, parse_delay, parse_exact

SECOND = 1_000_000
DAY = 86_400 * SECOND


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("PT30S", Delay(0, 30 * SECOND)),
        ("PT0.5S", Delay(0, SECOND // 2)),
        ("PT0,25S", Delay(0, SECOND // 4)),
        ("PT0S", Delay(0, 0)),
        ("PT24H", Delay(0, DAY)),
        ("P7D", Delay(0, 7 * DAY)),
        ("P2W", Delay(0, 14 * DAY)),
        ("P1M", Delay(1, 0)),
        ("PT1M", Delay(0, 60 * SECOND)),
        ("P1Y2M3W4DT5H6M7.5S", Delay(14, 25 * DAY + 5 * 3600 * SECOND + 6 * 60 * SECOND + 7_500_000)),
        ("P0.5Y", Delay(6, 0)),
        ("P1.5M", Delay(1, 15 * DAY)),
        ("P1.5D", Delay(0, DAY + DAY // 2)),
    ],
)
def test_a_duration_is_calendar_months_and_an_exact_time(text: str, delay: Delay):
    assert parse_delay(text) == delay


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1D",
        "5 minutes",
        "PT5",
        "PT1H30",
        "P1H",
        "PT1D",
        "P1D1Y",
        "P0.5DT1H",
        "-P1D",
        "pt5s",
        "P1D ",
    ],
)
def test_what_is_no_duration_is_none(text: str):
    assert parse_delay(text) is None


@pytest.mark.parametrize(
    ("start", "text", "end"),
    [
        ("2026-01-31T10:00:00", "P1M", "2026-02-28T10:00:00"),
        ("2024-01-31T10:00:00", "P1M", "2024-02-29T10:00:00"),
        ("2024-02-29T00:00:00", "P1Y", "2025-02-28T00:00:00"),
        ("2026-12-15T12:00:00", "P1MT1H", "2027-01-15T13:00:00"),
        ("2026-03-28T12:00:00", "P1D", "2026-03-29T12:00:00"),
    ],
)
def test_months_go_by_the_calendar_and_a_missing_day_becomes_the_last_one(start: str, text: str, end: str):
    delay = parse_delay(text)
    assert delay is not None
    assert add_delay(instant(start), delay) == instant(end)


@pytest.mark.parametrize("text", ["P9000Y", "PT999999999999H", "P999999999999D"])
def test_a_duration_beyond_the_calendar_is_never_due(text: str):
    delay = parse_delay(text)
    assert delay is not None
    assert add_delay(instant("2026-01-01T00:00:00"), delay) is None


@given(st.integers(0, 4_000_000_000_000_000), st.integers(0, 10**15))
def test_an_exact_delay_is_simply_added(at: int, microseconds: int):
    assert add_delay(at, Delay(0, microseconds)) == at + microseconds


@pytest.mark.parametrize("text", ["P1M", "P1DT1S", "P3660001D", "P999999999999W", "1D"])
def test_a_duration_that_is_to_be_exact_has_no_months_and_a_limit(text: str):
    assert parse_exact("P1D", timedelta(days=1)) == timedelta(days=1)
    assert parse_exact(text, timedelta(days=1)) is None


def test_a_duration_that_is_exact_is_no_longer_than_the_calendar():
    assert parse_exact("P3660000D") == timedelta(days=3_660_000)
    assert parse_exact("P3660001D") is None
