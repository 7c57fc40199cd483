"""What operators see and do (``/ops/v1``), put together once in ``app``: the settings that a node runs with
(docs/reference/operations.md#settings), the audit trail of the operations API (docs/reference/operations.md#audit), and
what it counts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Final, Protocol
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from statewright.cluster.node import MemberDrains
from statewright.engine.simulation import SimulationLimits
from statewright.instants import parse_instant
from statewright.loop.background import Removal, repeat
from statewright.operations.service import ActFilter, ActKey, OperatorAct, Setting
from statewright.services.core import Caller, Core
from statewright.services.idempotency.requests import IdempotencySweeper
from statewright.services.ops.deliveries import SubscriptionRunner
from statewright.services.ops.events import EventLog
from statewright.services.ops.incidents import Concerns
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.ops.queue_watch import QueueWatch, WorkPresence
from statewright.services.ops.queues import ConnectedMembers, RateRecorder, WorkCounts
from statewright.services.ops.waiting import EntityWaits
from statewright.services.processes.hosting import Processes
from statewright.settings import SETTINGS, Settings
from statewright.settings.kinds import MASK
from statewright.storage.ops import service as stored
from statewright.storage.pool import Pool
from statewright.telemetry import logs

SWEEP_INTERVAL: Final = timedelta(hours=1)

log = logs.logger(__name__)


async def list_acts(
    core: Core, caller: Caller, wanted: ActFilter, page: PageRequest[ActKey]
) -> Page[OperatorAct, ActKey]:
    """The acts of the tenant's operators, newest first."""
    tenant = caller.tenant
    found = await stored.fetch_acts(core.pool, tenant, wanted, limit=page.size + 1, after=page.after)
    total = await stored.count_acts(core.pool, tenant, wanted, limit=page.count_up_to) if page.counts else None
    return build_page(page, found, lambda act: ActKey(parse_instant(act.at), UUID(act.id)), total)


class OpsAuditSweeper:
    """Removes acts that are older than the retention, of all tenants. Every node may do so at once."""

    def __init__(self, pool: Pool, *, retention: timedelta) -> None:
        remove_batch = partial(stored.remove_rows, pool, stored.REMOVE, retention)
        self.removal = Removal(remove_batch, stored.MAX_BATCH)

    async def run(self) -> None:
        """Work until cancelled."""
        await repeat(self.removal.run, SWEEP_INTERVAL, log=log, failure="ops_audit_sweep_failed", waits_first=True)


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


class BulkWorker(Protocol):
    """What works on bulk jobs in the background."""

    @property
    def items(self) -> Mapping[tuple[str, str], int]:
        """Items by operation and result, since the start of the process."""
        ...

    @property
    def jobs(self) -> Mapping[str, int]:
        """Jobs by status, as last counted."""
        ...

    @property
    def removed(self) -> int:
        """Rows since the start of the process."""
        ...

    def wake(self) -> None:
        """There is something new to do."""
        ...

    async def run(self, operations: "Operations") -> None:
        """Work until cancelled."""
        ...


class Operations(Struct, frozen=True, kw_only=True, eq=False):
    """What operators are shown and can change, on the cores of entities and processes."""

    core: Core
    processes: Processes
    settings: Settings
    members: ConnectedMembers
    drains: MemberDrains
    metrics: OpsMetrics
    rates: RateRecorder
    work: WorkCounts
    queue_watch: QueueWatch
    presence: WorkPresence
    waits: EntityWaits
    concerns: Concerns
    idempotency_sweeper: IdempotencySweeper
    audit_sweeper: OpsAuditSweeper
    simulation_limits: SimulationLimits
    bulk: BulkWorker
    events: EventLog
    webhooks: SubscriptionRunner

    @property
    def scan_interval(self) -> timedelta:
        """How often due timers are looked for."""
        return self.settings.scheduler_scan_interval

    def within(self, core: Core, processes: Processes) -> "Operations":
        """The same on other parts."""
        return replace(self, core=core, processes=processes)
