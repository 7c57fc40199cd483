"""What operators see and do (``/ops/v1``), put together once in ``app``."""

from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from statewright.cluster.node import MemberDrains
from statewright.engine.simulation import SimulationLimits
from statewright.services.core import Core
from statewright.services.idempotency.requests import IdempotencySweeper
from statewright.services.ops.audit import OpsAuditSweeper, OpsMetrics, RateRecorder
from statewright.services.ops.incidents import Concerns
from statewright.services.ops.queue_watch import QueueWatch, WorkPresence
from statewright.services.ops.queues import ConnectedMembers, WorkCounts
from statewright.services.ops.waiting import EntityWaits
from statewright.services.processes.hosting import Processes
from statewright.settings import Settings


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

    @property
    def scan_interval(self) -> timedelta:
        """How often due timers are looked for."""
        return self.settings.scheduler_scan_interval

    def within(self, core: Core, processes: Processes) -> "Operations":
        """The same on other parts."""
        return replace(self, core=core, processes=processes)
