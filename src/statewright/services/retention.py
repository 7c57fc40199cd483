"""Removing superseded versions: by request, a model at a time, and in the background (storage/retention.py)."""

import asyncio
import random
import time
from datetime import timedelta

from msgspec import Struct

from statewright import logs
from statewright.entity import ModelKey
from statewright.identity import ModelId, TenantId
from statewright.services.leases import surviving
from statewright.services.runtime import Caller, Runtime
from statewright.settings import Retention
from statewright.storage import retention
from statewright.storage.pool import Pool

REQUEST_WITHIN = timedelta(seconds=5)
"""How long one request works; who wants more asks again."""

SHARE = 0.5
"""Of the time, at most, in which a statement of ours runs: the disk is there for others, too."""

log = logs.logger("services")


class Pruning(Struct, frozen=True, kw_only=True):
    """What was removed. ``kept_from``: the instant (epoch microseconds) from which on every version is kept."""

    removed: int
    kept_from: int
    is_complete: bool


async def prune(runtime: Runtime, caller: Caller, key: ModelKey, *, period: timedelta) -> Pruning:
    """Remove versions of a model that were superseded longer than ``period`` ago, for a few seconds.

    Raises ``ModelNotFound``.
    """
    model = (await runtime.definition(caller.tenant, key)).stored.id
    return await _prune(runtime.pool, caller.tenant, model, period=period, within=REQUEST_WITHIN)


class Pruner:
    """Keeps the setting: removes what is too old, of all tenants, now and then. Every node may do so at once."""

    def __init__(self, pool: Pool, wanted: Retention, *, interval: timedelta) -> None:
        self._pool = pool
        self._wanted = wanted
        self._interval_s = interval.total_seconds()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s * random.uniform(0.9, 1.1))  # noqa: S311 - nodes should not work in step
            with surviving("history_pruning_failed"):
                await self.run_once()

    async def run_once(self) -> int:
        """Remove everything that is too old now; how many versions."""
        total = 0
        for found in await retention.prunable(self._pool):
            period = self._wanted.of(None if found.key is None else f"{found.key.name}/{found.key.version}")
            if period is not None:
                pruning = await _prune(self._pool, found.tenant, found.model, period=period)
                total += pruning.removed
        if total:
            log.info("history_pruned", count=total)
        return total


async def _prune(
    pool: Pool, tenant: TenantId, model: ModelId, *, period: timedelta, within: timedelta | None = None
) -> Pruning:
    kept_from = await retention.move_horizon(pool, tenant, model, period=period)
    deadline = None if within is None else time.monotonic() + within.total_seconds()
    removed, since = 0, 0
    while deadline is None or time.monotonic() < deadline:
        began = time.monotonic()
        batch = await retention.remove_batch(pool, tenant, model, since=since, kept_from=kept_from)
        removed, since = removed + batch.removed, batch.up_to
        if batch.removed < retention.BATCH:
            return Pruning(removed=removed, kept_from=kept_from, is_complete=True)
        await asyncio.sleep((time.monotonic() - began) * (1 - SHARE) / SHARE)
    return Pruning(removed=removed, kept_from=kept_from, is_complete=False)
