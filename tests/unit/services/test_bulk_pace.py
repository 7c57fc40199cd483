"""The rate of bulk jobs, on a clock that jumps (docs/reference/operations.md#bulk-jobs)."""

import random

import pytest

from statewright.services.ops.bulk_runs import MAX_CATCH_UP_S, Pace


class Clock:
    """The time of a job whose items begin as early as they may, and somewhat late."""

    def __init__(self, rate: float, lateness_s: float) -> None:
        self.now = 1_000.0
        self.rate = rate
        self._pace = Pace(self.now)
        self._late = random.Random(7)
        self._lateness_s = lateness_s

    def begin_next(self) -> float:
        """When the next item begins."""
        self._pace.arrive(self.now)
        if self._pace.next_at > self.now:  # as a loop that wakes late
            self.now = self._pace.next_at + self._late.uniform(0, self._lateness_s)
        self._pace.begin(self.rate)
        return self.now


@pytest.mark.parametrize("rate", [1, 50, 333, 1000])
@pytest.mark.parametrize("lateness_s", [0.0, 0.004, 0.05])
def test_the_rate_is_kept_within_a_tenth_however_late_items_begin(rate: int, lateness_s: float) -> None:
    clock = Clock(rate, lateness_s)
    begun = [clock.begin_next() for _ in range(60 * rate)]
    assert (len(begun) - 1) / (begun[-1] - begun[0]) == pytest.approx(rate, rel=0.1)


def test_what_was_held_up_catches_up_for_a_second_and_no_more() -> None:
    clock = Clock(50, 0.0)
    for _ in range(100):
        clock.begin_next()
    clock.now += 3600
    resumed = clock.now
    begun = [clock.begin_next() for _ in range(500)]
    at_once = sum(1 for at in begun if at == resumed)
    assert 50 * MAX_CATCH_UP_S <= at_once <= 50 * MAX_CATCH_UP_S + 2
    assert begun[-1] - resumed == pytest.approx((500 - at_once) / 50, rel=0.02)


def test_another_rate_counts_from_the_next_item_on() -> None:
    clock = Clock(10, 0.0)
    slow = [clock.begin_next() for _ in range(11)]
    clock.rate = 100
    quick = [clock.begin_next() for _ in range(101)]
    assert slow[-1] - slow[0] == pytest.approx(1.0)
    assert quick[-1] - quick[0] == pytest.approx(1.0)
