"""What became of the transactions of one process, in numbers."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from statewright.entity import AuditEvent
from statewright.measures import Times

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds (spec/auth-and-operations.md §28.2)."""

SCHEDULE_EVENTS: Final = {
    "SCHEDULED_TRANSITION_ARM": "armed",
    "SCHEDULED_TRANSITION_CANCEL": "cancelled",
    "SCHEDULED_TRANSITION_EXPIRE": "expired",
    "SCHEDULED_TRANSITION_FIRE": "fired",
}
"""Audit events, and what they say of a timer."""


class TransactionTally:
    """Counts whole transactions; savepoints and joined requests are parts of them.

    ``timers`` are those that were committed. A transaction that fails after it has committed segments is in
    ``commits`` and in ``rollbacks``.
    """

    def __init__(self) -> None:
        self.begins = Times(BOUNDS)
        self.commits = Times(BOUNDS)
        self.rollbacks = Times(BOUNDS)
        self.active = 0
        self.conflicts = 0
        self.timers: Counter[str] = Counter()

    def committed_timers(self, events: Iterable[list[AuditEvent]]) -> None:
        """A transaction that armed timers, or took some away, has committed."""
        for run in events:
            for event in run:
                if event.type in SCHEDULE_EVENTS:
                    self.timers[SCHEDULE_EVENTS[event.type]] += 1
