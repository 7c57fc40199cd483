"""The audit trail of the operations API (docs/reference/operations.md#audit).

The settings that a node runs with (docs/reference/operations.md#settings).

How much was written in the last hour (docs/reference/operations.md#rates).

What the operations API counts.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from uuid import UUID

from statewright.instants import parse_instant
from statewright.loop.background import repeat
from statewright.operations.service import ActFilter, ActKey, OperatorAct, Setting
from statewright.operations.work import Rates
from statewright.services.core import Caller, Core
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.settings import SETTINGS, Settings
from statewright.settings.kinds import MASK
from statewright.storage.commit.group_commit import CommitRates
from statewright.storage.ops import audit
from statewright.storage.pool import Pool
from statewright.telemetry import logs

SWEEP_INTERVAL: Final = timedelta(hours=1)

MAX_TIME_SHARE: Final = 0.5
"""Of the time, at most, in which a statement of the sweep runs."""

log = logs.logger(__name__)


async def list_acts(
    core: Core, caller: Caller, wanted: ActFilter, page: PageRequest[ActKey]
) -> Page[OperatorAct, ActKey]:
    """The acts of the tenant's operators, newest first."""
    tenant = caller.tenant
    found = await audit.fetch_acts(core.pool, tenant, wanted, limit=page.size + 1, after=page.after)
    total = await audit.count_acts(core.pool, tenant, wanted, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda act: ActKey(parse_instant(act.at), UUID(act.id)), total)


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


def list_settings(settings: Settings) -> Iterator[Setting]:
    """All settings of the node that is asked, in the order of their page. Secrets are never told."""
    for name, setting in SETTINGS.items():
        value = getattr(settings, name)
        shown = None if value in (None, "", ()) else MASK if setting.reader.is_secret else setting.reader.show(value)
        yield Setting(
            name=f"STATEWRIGHT_{name.upper()}",
            section=setting.section,
            value=shown,
            variable=settings.sources.get(name),
            meaning=setting.meaning,
        )


INTERVAL: Final = timedelta(seconds=10)
"""How old the counts of other nodes may be."""


class RateRecorder:
    """Stores what this process has counted, every few seconds; what is counted between a crash and the last time is
    lost, since these numbers are for looking at.
    """

    def __init__(self, pool: Pool, counted: CommitRates) -> None:
        self.pool = pool
        self._counted = counted

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.run_once, INTERVAL, log=log, failure="rates_not_recorded", waits_first=True)

    async def run_once(self) -> None:
        """Store what was counted since the last time. Raises what the database says; the counts are kept then."""
        taken = self._counted.take()
        try:
            await audit.add_rates(self.pool, taken)
        except BaseException:
            self._counted.give_back(taken)
            raise


async def show_rates(recorder: RateRecorder, caller: Caller) -> Rates:
    """What the tenant has written in each minute of the last hour, the oldest first."""
    await recorder.run_once()
    minutes = await audit.list_recent_rates(recorder.pool, caller.tenant)
    return Rates(
        transactions=sum(each.transactions for each in minutes),
        versions=sum(each.versions for each in minutes),
        minutes=tuple(minutes),
    )


class OpsMetrics:
    """Numbers of one process since its start."""

    def __init__(self) -> None:
        self.explains = 0
        """Explanations that were given."""
        self.restores = 0
        """Versions that were restored."""
        self.simulations = 0
        """Simulations of workflows."""
        self.checks: Counter[str] = Counter()
        """Checks of workflows by their result, ``importable`` or ``refused``."""
