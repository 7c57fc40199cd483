"""Counting what happened in the last minute."""

import pytest

from statewright.telemetry import histogram
from statewright.telemetry.histogram import MAX_KEYS, MinuteCounts


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """That of the counts."""
    clock = Clock()
    monkeypatch.setattr(histogram, "monotonic", clock)
    return clock


def test_what_is_older_than_a_minute_is_forgotten(clock: Clock) -> None:
    counts = MinuteCounts[str]()
    counts.count("mail")
    clock.now += 30
    counts.count("mail")
    counts.count("post")
    assert counts.sum_up() == {"mail": 2, "post": 1}
    clock.now += 30
    assert counts.sum_up() == {"mail": 1, "post": 1}
    clock.now += 30
    assert counts.sum_up() == {}


def test_so_many_are_counted_apart() -> None:
    counts = MinuteCounts[int]()
    for number in range(MAX_KEYS + 1):
        counts.count(number)
    counts.count(0)
    assert len(counts.sum_up()) == MAX_KEYS
    assert counts.sum_up()[0] == 2
