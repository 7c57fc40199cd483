"""The registry of all metrics of a process."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from statewright.cluster.node import ClusterNode
from statewright.compute.members import Members
from statewright.egress import Egress
from statewright.metrics.node import ClusterCollector, Dropping, ResourceCollector, SpanCollector, TargetCollector
from statewright.metrics.operations import IdempotencyCollector, OpsCollector, ProviderCollector, WaitCollector
from statewright.metrics.processes import LanguageCollector, StepCollector
from statewright.metrics.queues import QueueCollector
from statewright.metrics.requests import ConsoleCollector, GrpcCollector, RequestCollector, StepCallCollector
from statewright.metrics.runs import RunCollector, ScheduleCollector, TransactionCollector
from statewright.services.auth.identity import Administration
from statewright.services.idempotency.requests import IdempotentRequests
from statewright.services.idempotency.sweeping import IdempotencySweeper
from statewright.services.ops.audit import OpsAuditSweeper
from statewright.services.ops.incidents import IncidentSweeper
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.ops.presence import WorkPresence
from statewright.services.ops.queue_watch import QueueWatch
from statewright.services.ops.suspensions import SuspensionEnder
from statewright.services.ops.waiting import EntityWaits
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.runtime import Runtime
from statewright.services.scheduler import ScheduleMetrics
from statewright.services.steps import find_steps


class Metrics:
    """A registry of its own, so that several services in one process do not mix."""

    def __init__(self) -> None:
        self.requests = RequestCollector()
        self.console = ConsoleCollector()
        self.step_calls = StepCallCollector()
        self.grpc = GrpcCollector()
        self._registry = CollectorRegistry()
        self._registry.register(self.requests)
        self._registry.register(self.console)
        self._registry.register(self.step_calls)
        self._registry.register(self.grpc)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self._registry)

    def register_scheduler(self, metrics: ScheduleMetrics) -> None:
        """Report what the scheduler does."""
        self._registry.register(ScheduleCollector(metrics))

    def register_tracer(self, queue: Dropping) -> None:
        """Report the spans that no collector will see."""
        self._registry.register(SpanCollector(queue))

    def register_runtime(self, runtime: Runtime, members: Members, node: ClusterNode, *, version: str) -> None:
        """Report what a running service holds and does."""
        self._registry.register(TransactionCollector(runtime.commits.metrics, node.local.times))
        self._registry.register(RunCollector(runtime.engine.metrics))
        self._registry.register(TargetCollector(version, node.id))
        self._registry.register(ResourceCollector(runtime, members))
        self._registry.register(ClusterCollector(node))
        self._registry.register(StepCollector(find_steps(runtime).metrics))
        self._registry.register(LanguageCollector(runtime.extensions.get(ProcessHosts)))
        ops, sweeper = runtime.extensions.get(OpsMetrics), runtime.extensions.get(OpsAuditSweeper)
        incidents = runtime.extensions.get(IncidentSweeper)
        ender = runtime.extensions.get(SuspensionEnder)
        removed = runtime.extensions.get(IdempotencySweeper)
        workers = runtime.extensions.get(WorkPresence)
        self._registry.register(
            OpsCollector(
                runtime,
                ops,
                [
                    ("ops_audit", sweeper),
                    ("idempotency", removed),
                    ("suspension", ender),
                    ("incident", incidents),
                    ("worker_seen", workers),
                ],
            )
        )
        self._registry.register(QueueCollector(runtime.extensions.get(QueueWatch), node.local))
        self._registry.register(WaitCollector(runtime.extensions.get(EntityWaits)))
        self._registry.register(IdempotencyCollector(runtime.extensions.get(IdempotentRequests), removed))
        identity = runtime.extensions.get(Administration).identity
        self._registry.register(ProviderCollector(identity, runtime.extensions.get(Egress)))
