"""Times in plain numbers, cheap enough for every request; metrics are made of them when they are asked for."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


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
