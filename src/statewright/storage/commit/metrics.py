"""What became of the transactions of one process, in numbers; and how much was committed, by tenant and minute, until
it is taken to be stored.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from statewright.entity import AuditEvent
from statewright.ids import TenantId
from statewright.storage.columns import StagedRow
from statewright.telemetry.histogram import Histogram

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


MINUTE_US: Final = 60_000_000

MAX_KEPT: Final = 100_000
"""Pairs of tenant and minute; while the database is away, no more are counted."""

_WRITES: Final = frozenset({"create", "update", "delete"})
"""Changes that write a version."""


class Rate(Struct):
    """Transactions that have written something, and the versions that they have written."""

    transactions: int = 0
    versions: int = 0


class CommitRates:
    """Counts of one process that no database has yet."""

    def __init__(self) -> None:
        self._rates: dict[tuple[TenantId, int], Rate] = {}

    def count(self, rows: Sequence[StagedRow], at: int) -> None:
        """A transaction has written rows at an instant, in epoch microseconds."""
        versions = sum(row.change in _WRITES for row in rows)
        if not versions:
            return
        key = (TenantId(rows[0].tenant), at // MINUTE_US)
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= MAX_KEPT:
                return
            rate = self._rates[key] = Rate()
        rate.transactions += 1
        rate.versions += versions

    def take(self) -> dict[tuple[TenantId, int], Rate]:
        """What was counted since the last time, by tenant and minute since the epoch."""
        taken, self._rates = self._rates, {}
        return taken

    def give_back(self, taken: dict[tuple[TenantId, int], Rate]) -> None:
        """Count again what could not be stored."""
        for key, rate in taken.items():
            if (newer := self._rates.get(key)) is not None:
                newer.transactions += rate.transactions
                newer.versions += rate.versions
            elif len(self._rates) < MAX_KEPT:
                self._rates[key] = rate
