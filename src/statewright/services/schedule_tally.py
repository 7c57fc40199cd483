"""What the scheduler of one node has done, in numbers."""

from collections import Counter
from typing import Final

from statewright.measures import Times
from statewright.services.firing import Outcome

BOUNDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Seconds. A scan interval is one of them by default."""


class ScheduleTally:
    """``outcomes`` are those of tasks that were taken, ``lateness`` is of those that fired.

    ``lag_s``: how late the most overdue task was that the last scan took for the first time; 0 when there was none.
    """

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.lateness = Times(BOUNDS)
        self.lag_s = 0.0
        self.under_way = 0
        self.failed_scans = 0

    def ended(self, outcome: Outcome, *, late_ms: int) -> None:
        """A task that was taken has come to an end, begun so long after its time."""
        self.outcomes[outcome] += 1
        if outcome == "fired":
            self.lateness.observe(late_ms / 1000)

    def failed(self) -> None:
        """A run has failed; its task is taken again after its back-off."""
        self.outcomes["failed"] += 1
