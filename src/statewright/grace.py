"""The time a shutdown has."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic


class Grace:
    """How long work under way may still take. One for a whole shutdown: what one part of it needs, the next lacks."""

    def __init__(self, total: timedelta, clock: Callable[[], float] = monotonic) -> None:
        self._total = total.total_seconds()
        self._clock = clock
        self._ends: float | None = None

    def begin(self) -> None:
        """The shutdown begins; called again, it changes nothing."""
        if self._ends is None:
            self._ends = self._clock() + self._total

    @property
    def left(self) -> float:
        """Seconds; all of them before it has begun, and none when it is over."""
        return self._total if self._ends is None else max(0.0, self._ends - self._clock())
