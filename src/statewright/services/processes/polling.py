"""Workers that poll jobs, as this process sees them (docs/reference/operations.md#members)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from statewright.ids import Clock, TenantId

KEPT_US: Final = 60_000_000
"""A worker that has not polled for so long is none any more."""

MAX_WORKERS: Final = 10_000
"""That are told apart; those that poll first."""

MAX_TYPES: Final = 100
"""Types of jobs that are kept of one worker."""


class SeenWorker(Struct, frozen=True, kw_only=True):
    """A worker that has polled jobs of some types, the last time at ``seen_at``, in epoch microseconds."""

    tenant: TenantId
    worker: str
    job_types: tuple[str, ...]
    seen_at: int


class PollingWorkers:
    """Who has polled lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[tuple[TenantId, str], SeenWorker] = {}
        self._changed: set[tuple[TenantId, str]] = set()

    def note(self, tenant: TenantId, worker: str, job_types: tuple[str, ...]) -> None:
        """A worker polls jobs of these types, and of those it polled before."""
        key = tenant, worker
        known = self._seen.get(key)
        if known is None and len(self._seen) >= MAX_WORKERS:
            return
        types = job_types[:MAX_TYPES]
        if known is not None and known.job_types != types:
            types = tuple(dict.fromkeys((*types, *known.job_types)))[:MAX_TYPES]
        self._seen[key] = SeenWorker(tenant=tenant, worker=worker, job_types=types, seen_at=self._clock())
        self._changed.add(key)

    def take_changed(self) -> Sequence[SeenWorker]:
        """Those that have polled since the last time; who has not for long is forgotten."""
        limit = self._clock() - KEPT_US
        for key in [key for key, seen in self._seen.items() if seen.seen_at < limit]:
            del self._seen[key]
        changed, self._changed = [self._seen[key] for key in self._changed if key in self._seen], set()
        return changed

    def list_recent(self, tenant: TenantId | None = None) -> list[SeenWorker]:
        """Those of a tenant, or of all, that have polled within ``KEPT_US``."""
        limit = self._clock() - KEPT_US
        return [seen for seen in self._seen.values() if seen.seen_at >= limit and tenant in (None, seen.tenant)]
