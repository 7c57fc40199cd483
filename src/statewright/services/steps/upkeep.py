"""Leases that ended, and instances that finished long ago: looked after by every node, each row by one of them."""

import asyncio
from datetime import timedelta

from statewright import logs
from statewright.services.runtime import Runtime
from statewright.services.steps import trail
from statewright.services.steps.jobs import audit_line
from statewright.services.steps.purge import BATCH as PURGE_BATCH
from statewright.storage.steps import instances, jobs

SWEEP_BATCH = 1_000
PURGE_EVERY = timedelta(minutes=1)

log = logs.logger("steps")


class Leases:
    """Returns jobs whose lease has ended to the queue, without using a retry (spec/step-engine.md §13.1)."""

    def __init__(self, runtime: Runtime, *, every: timedelta) -> None:
        self._runtime = runtime
        self._every_s = every.total_seconds()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                more = await self.run_once() == SWEEP_BATCH
            except Exception as error:  # a background loop must outlive the failure of one round
                log.warning("lease_sweep_failed", error=repr(error))
                more = False
            if not more:
                await asyncio.sleep(self._every_s)

    async def run_once(self) -> int:
        """Take back what has expired; how many jobs. Raises ``StorageUnavailable``."""
        runtime = self._runtime
        line = audit_line(runtime, trail.entry_event("lease-expired", {}), runtime.clock())
        free = await jobs.sweep(runtime.pool, limit=SWEEP_BATCH, line=line)
        if free:
            runtime.steps.tally.leases_expired += len(free)
            runtime.steps.wakeups.announce(set(free))
            log.info("leases_expired", count=len(free))
        return len(free)


class Retention:
    """Removes instances of all tenants that finished longer ago than ``retention``."""

    def __init__(self, runtime: Runtime, *, retention: timedelta) -> None:
        self._runtime = runtime
        self._retention_us = retention // timedelta(microseconds=1)

    async def run(self) -> None:
        """Purge until cancelled."""
        while True:
            try:
                more = await self.run_once() == PURGE_BATCH
            except Exception as error:  # a background loop must outlive the failure of one round
                log.warning("step_purge_failed", error=repr(error))
                more = False
            if not more:
                await asyncio.sleep(PURGE_EVERY.total_seconds())

    async def run_once(self) -> int:
        """Remove one batch; how many instances. Raises ``StorageUnavailable``."""
        before = self._runtime.clock() - self._retention_us
        count = await instances.purge(self._runtime.pool, finished_before=before, tenant=None, limit=PURGE_BATCH)
        if count:
            log.info("step_instances_purged", count=count)
        return count
