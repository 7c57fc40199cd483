"""Counting what happened in the last minute."""

from statewright.telemetry.histogram import MAX_KEYS, MinuteCounts


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    clock = Clock()
    counts = MinuteCounts[str](clock)
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
    counts = MinuteCounts[int](Clock())
    for number in range(MAX_KEYS + 1):
        counts.count(number)
    counts.count(0)
    assert len(counts.sum_up()) == MAX_KEYS
    assert counts.sum_up()[0] == 2
