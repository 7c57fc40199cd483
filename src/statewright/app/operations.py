"""What operators see and do (``/ops/v1``), and what requests with keys and waits need, put together."""

from statewright.app.database import Pools
from statewright.cluster.node import ClusterNode
from statewright.ids import system_clock
from statewright.services.idempotency.requests import IdempotentRequests
from statewright.services.idempotency.sweeping import IdempotencySweeper
from statewright.services.ops.audit import OpsAuditSweeper
from statewright.services.ops.checking import CheckConfig
from statewright.services.ops.incidents import IncidentSweeper
from statewright.services.ops.members import ConnectedMembers
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.ops.presence import WorkPresence
from statewright.services.ops.queue_watch import QueueWatch
from statewright.services.ops.queues import WorkCounts
from statewright.services.ops.rates import RateRecorder
from statewright.services.ops.settings import EffectiveSettings
from statewright.services.ops.suspensions import SuspensionEnder, SuspensionFollower
from statewright.services.ops.waiting import EntityWaits
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.runtime import Runtime
from statewright.settings import Settings


def add_operations(runtime: Runtime, settings: Settings, pools: Pools, node: ClusterNode) -> None:
    """Add it to a runtime that has its process languages."""
    add, hosts = runtime.extensions.add, runtime.extensions.get(ProcessHosts)
    add(ConnectedMembers(node.id, node.members, node.peer_table))
    add(node.drains)
    add(OpsMetrics())
    add(RateRecorder(pools.shared, runtime.commits.rates))
    add(SuspensionFollower(pools.shared, node, runtime.suspensions))
    runtime.suspensions.on_change.append(hosts.wakeups.wake_all)
    add(SuspensionEnder(runtime))
    add(CheckConfig(settings.scheduler_scan_interval))
    add(EffectiveSettings(settings))
    add(
        IncidentSweeper(
            pools.shared,
            runtime.incidents,
            interval=settings.incident_sweep_interval,
            retention=settings.incident_retention,
        )
    )
    add(WorkCounts(pools.shared))
    add(QueueWatch(runtime, alert_after=settings.alert_no_worker_after))
    add(
        WorkPresence(
            pools.shared,
            system_clock,
            node=node.id,
            polling=hosts.polling_workers,
            jobs_handed_out=hosts.handed_out,
            members=node.members,
            dispatcher=node.callouts,
        )
    )
    add(
        IdempotentRequests(
            pools.shared,
            pools.reads,
            node=node.id,
            retention=settings.idempotency_retention,
            wait=settings.idempotency_wait,
        )
    )
    add(
        EntityWaits(
            pools.shared,
            runtime.commits,
            look_interval=settings.wait_look_interval,
            max_waiters=settings.waiters_per_node,
        )
    )
    add(IdempotencySweeper(pools.shared, interval=settings.idempotency_sweep_interval))
    add(OpsAuditSweeper(pools.shared, retention=settings.ops_audit_retention))
