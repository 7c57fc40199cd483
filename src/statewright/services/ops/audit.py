"""The audit trail of the operations API (docs/reference/operations.md#audit)."""

import asyncio
import time
from datetime import timedelta
from typing import Final
from uuid import UUID

from statewright import logs
from statewright.background import repeat
from statewright.operator_acts import ActFilter, ActKey, RecordedAct
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import audit
from statewright.storage.pool import Pool

SWEEP_INTERVAL: Final = timedelta(hours=1)

MAX_TIME_SHARE: Final = 0.5
"""Of the time, at most, in which a statement of the sweep runs."""

log = logs.logger(__name__)


async def list_acts(
    runtime: Runtime, caller: Caller, wanted: ActFilter, page: PageRequest[ActKey]
) -> Page[RecordedAct, ActKey]:
    """The acts of the tenant's operators, newest first."""
    tenant = caller.tenant
    found = await audit.fetch_acts(runtime.pool, tenant, wanted, limit=page.size + 1, after=page.after)
    total = await audit.count_acts(runtime.pool, tenant, wanted, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda act: ActKey(act.at, UUID(act.id)), total)


class OpsAuditSweeper:
    """Removes acts that are older than the retention, of all tenants. Every node may do so at once."""

    def __init__(self, pool: Pool, *, retention: timedelta) -> None:
        self._pool = pool
        self._retention = retention
        self.removed = 0
        """Rows since the start of the process."""

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, SWEEP_INTERVAL, log=log, failure="ops_audit_sweep_failed", waits_first=True)

    async def run_once(self) -> None:
        """Remove what is too old now."""
        while True:
            began = time.monotonic()
            removed = await audit.remove_old_acts(self._pool, older_than=self._retention)
            self.removed += removed
            if removed < audit.MAX_BATCH:
                return
            await asyncio.sleep((time.monotonic() - began) * (1 - MAX_TIME_SHARE) / MAX_TIME_SHARE)
