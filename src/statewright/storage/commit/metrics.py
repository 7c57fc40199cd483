"""What became of the transactions of one process, in numbers."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from statewright.entity import AuditEvent
from statewright.histogram import Histogram

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds (docs/reference/service.md#metrics)."""

SCHEDULE_EVENTS: Final = {
    "SCHEDULED_TRANSITION_ARM": "armed",
    "SCHEDULED_TRANSITION_CANCEL": "cancelled",
    "SCHEDULED_TRANSITION_EXPIRE": "expired",
    "SCHEDULED_TRANSITION_FIRE": "fired",
}
"""Audit events, and what they say of a timer."""


class TransactionMetrics:
    """Counts whole transactions; savepoints and joined requests are parts of them.

    ``timers`` are those that were committed. A transaction that fails after it has committed segments is in
    ``commits`` and in ``rollbacks``.
    """

    def __init__(self) -> None:
        self.begins = Histogram(BUCKETS_S)
        self.commits = Histogram(BUCKETS_S)
        self.rollbacks = Histogram(BUCKETS_S)
        self.active = 0
        self.conflicts = 0
        self.suspended = 0
        """Transactions that were refused because an entity was suspended when they committed."""
        self.timers: Counter[str] = Counter()

    def count_begin(self, took_s: float) -> None:
        """A transaction has begun."""
        self.active += 1
        self.begins.observe(took_s)

    def count_end(self, rollback_s: float | None) -> None:
        """A transaction has ended; ``rollback_s`` is how long that took when it was not to stay."""
        self.active -= 1
        if rollback_s is not None:
            self.rollbacks.observe(rollback_s)

    def count_timers(self, events: Iterable[list[AuditEvent]]) -> None:
        """A transaction that armed timers, or took some away, has committed."""
        for run in events:
            for event in run:
                if event.type in SCHEDULE_EVENTS:
                    self.timers[SCHEDULE_EVENTS[event.type]] += 1
