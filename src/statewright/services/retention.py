"""Removing superseded versions: by request, a model at a time, and in the background (storage/retention.py)."""

import asyncio
import time
from datetime import timedelta
from typing import Final

from msgspec import Struct

from statewright import logs
from statewright.background import repeat
from statewright.entity import ModelKey
from statewright.ids import ModelId, TenantId
from statewright.services.runtime import Caller, Runtime
from statewright.settings import Retention
from statewright.storage import retention
from statewright.storage.pool import Pool

REQUEST_WINDOW: Final = timedelta(seconds=5)
"""How long one request works; who wants more asks again."""

MAX_TIME_SHARE: Final = 0.5
"""Of the time, at most, in which a statement of ours runs: the disk is there for others, too."""

log = logs.logger(__name__)


class PruneResult(Struct, frozen=True, kw_only=True):
    """What was removed. ``kept_from``: the instant (epoch microseconds) from which on every version is kept."""

    removed: int
    kept_from: int
    is_complete: bool


async def prune(runtime: Runtime, caller: Caller, key: ModelKey, *, period: timedelta) -> PruneResult:
    """Remove versions of a model that were superseded longer than ``period`` ago, for a few seconds.

    Raises ``ModelNotFound``.
    """
    model = (await runtime.get_definition(caller.tenant, key)).stored.id
    return await _prune(runtime.pool, caller.tenant, model, period=period, within=REQUEST_WINDOW)


class Pruner:
    """Keeps the setting: removes what is too old, of all tenants, now and then. Every node may do so at once."""

    def __init__(self, pool: Pool, setting: Retention, *, interval: timedelta) -> None:
        self._pool = pool
        self._setting = setting
        self._interval = interval

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, self._interval, log=log, failure="history_pruning_failed", waits_first=True)

    async def run_once(self) -> int:
        """Remove everything that is too old now; how many versions."""
        total = 0
        for found in await retention.fetch_prunable(self._pool):
            period = self._setting.get_period(None if found.key is None else f"{found.key.name}/{found.key.version}")
            if period is not None:
                pruning = await _prune(self._pool, found.tenant, found.model, period=period)
                total += pruning.removed
        if total:
            log.info("history_pruned", count=total)
        return total


async def _prune(
    pool: Pool, tenant: TenantId, model: ModelId, *, period: timedelta, within: timedelta | None = None
) -> PruneResult:
    kept_from = await retention.move_horizon(pool, tenant, model, period=period)
    deadline = None if within is None else time.monotonic() + within.total_seconds()
    removed, since = 0, 0
    while deadline is None or time.monotonic() < deadline:
        began = time.monotonic()
        batch = await retention.remove_batch(pool, tenant, model, since=since, kept_from=kept_from)
        removed, since = removed + batch.removed, batch.up_to
        if batch.removed < retention.MAX_BATCH:
            return PruneResult(removed=removed, kept_from=kept_from, is_complete=True)
        await asyncio.sleep((time.monotonic() - began) * (1 - MAX_TIME_SHARE) / MAX_TIME_SHARE)
    return PruneResult(removed=removed, kept_from=kept_from, is_complete=False)
