"""Removing records of requests whose retention is over (docs/reference/operations.md#idempotent-requests)."""

import asyncio
import time
from datetime import timedelta
from typing import Final

from statewright import logs
from statewright.background import repeat
from statewright.storage.idempotency import records
from statewright.storage.pool import Pool

MAX_TIME_SHARE: Final = 0.5
"""Of the time, at most, in which a statement of the sweep runs."""

log = logs.logger(__name__)


class IdempotencySweeper:
    """Removes the records of all tenants whose time is over. Every node may do so at once."""

    def __init__(self, pool: Pool, *, interval: timedelta = timedelta(minutes=5)) -> None:
        self._pool = pool
        self._interval = interval
        self.removed = 0
        """Records since the start of the process."""
        self.stored = 0
        """About how many there were at the last look."""

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, self._interval, log=log, failure="idempotency_sweep_failed", waits_first=True)

    async def run_once(self) -> None:
        """Remove what is too old now, and estimate how much is left."""
        while True:
            began = time.monotonic()
            removed = await records.remove_expired_records(self._pool)
            self.removed += removed
            if removed < records.MAX_BATCH:
                break
            await asyncio.sleep((time.monotonic() - began) * (1 - MAX_TIME_SHARE) / MAX_TIME_SHARE)
        self.stored = await records.estimate_records(self._pool)
