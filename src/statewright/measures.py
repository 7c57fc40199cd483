"""Counts and times in plain numbers, cheap enough for every request; metrics are made of them when somebody asks."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Times:
    """How often something took how long. ``bounds`` are seconds, upper and inclusive."""

    __slots__ = ("_bounds", "buckets", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """It took so long this time."""
        self.buckets[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """How often."""
        return sum(self.buckets)

    def cumulated(self) -> list[tuple[str, float]]:
        """How often it took up to each bound."""
        bounds = [*map(str, self._bounds), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.buckets)), strict=True))
