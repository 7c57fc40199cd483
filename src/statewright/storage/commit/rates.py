"""How much was committed, by tenant and minute, until it is taken to be stored."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.ids import TenantId
from statewright.storage.columns import StagedRow

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
