"""Times in plain numbers, cheap enough for every request; metrics are made of them when they are asked for.

*Labels from users.* A metric with a label makes a series for every value, in this process and for ever in the system
that collects them. So only so many sets of values are told apart, those that come first; whatever comes later counts as
``other``.

How much this process hands out, jobs to workers and callouts to members (docs/reference/operations.md#queues), is kept
for a minute.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from time import monotonic
from typing import Final, Generic, TypeVar


class Histogram:
    """Observations in seconds, counted by the least of ``bounds`` that they do not exceed."""

    __slots__ = ("_bounds", "buckets", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.buckets[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.buckets)

    def cumulate(self) -> list[tuple[str, float]]:
        """For each bound, and for no bound, the number of observations that do not exceed it."""
        bounds = [*map(str, self._bounds), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.buckets)), strict=True))

    def add(self, other: "Histogram") -> None:
        """Count what another one with the same bounds has counted."""
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
        self.sum += other.sum


class AnswerTimes:
    """How long answers took, by method and route of their requests, and by status."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._times: defaultdict[tuple[str, str, int], Histogram] = defaultdict(lambda: Histogram(bounds))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; ``route`` is empty where there is none."""
        self._times[method, route, status].observe(seconds)

    def sum_up(self, *labels: int) -> dict[tuple[str, ...], Histogram]:
        """The times by some of the three only, of which these are the positions."""
        sums: defaultdict[tuple[str, ...], Histogram] = defaultdict(lambda: Histogram(self._bounds))
        for values, times in self._times.items():
            sums[tuple(str(values[label]) for label in labels)].add(times)
        return sums


K = TypeVar("K")
V = TypeVar("V")

OTHER: Final = "other"
MAX_VALUE_CHARS: Final = 128
"""Longer values of labels are cut."""


class Count:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class LabelTable(Generic[V]):
    """A number, or a distribution of times, for each of at most ``limit`` sets of values and one for all others.

    ``make`` makes a new one; ``is_wanted`` says whether a set may have one of its own.
    """

    def __init__(
        self, limit: int, make: Callable[[], V], is_wanted: Callable[[Sequence[str]], bool] = lambda _values: True
    ) -> None:
        self._limit = limit
        self._make = make
        self._is_wanted = is_wanted
        self._found: dict[tuple[str, ...], V] = {}

    def find(self, *values: str) -> V:
        """What the values are counted in."""
        found = self._found.get(values)
        return self._find_new(values) if found is None else found

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], V]]:
        return iter(list(self._found.items()))

    def _find_new(self, values: tuple[str, ...]) -> V:
        key = tuple(value[:MAX_VALUE_CHARS] for value in values)
        others = (OTHER,) * len(values)
        if key not in self._found and (len(self._found.keys() - {others}) >= self._limit or not self._is_wanted(key)):
            key = others
        return self._found.setdefault(key, self._make())


WINDOW_S: Final = 60
SLOT_S: Final = 5
"""Older ones are forgotten slot by slot: what is told is of the last minute, and up to a slot less."""

_SLOTS: Final = WINDOW_S // SLOT_S

MAX_KEYS: Final = 10_000
"""What is counted apart; those that come first."""


class MinuteCounts(Generic[K]):
    """What happened in the last minute, by key."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[K, int]] = {}

    def count(self, key: K) -> None:
        """It has happened once more."""
        now = int(monotonic()) // SLOT_S
        slot = self._slots.get(now)
        if slot is None:
            self._forget(now)
            slot = self._slots[now] = {}
        if key in slot or len(slot) < MAX_KEYS:
            slot[key] = slot.get(key, 0) + 1

    def sum_up(self) -> dict[K, int]:
        """The counts of what has happened at all."""
        self._forget(int(monotonic()) // SLOT_S)
        sums: dict[K, int] = {}
        for slot in self._slots.values():
            for key, count in slot.items():
                sums[key] = sums.get(key, 0) + count
        return sums

    def _forget(self, now: int) -> None:
        for old in [each for each in self._slots if each <= now - _SLOTS]:
            del self._slots[old]
