"""The registry of all metrics of a process."""

from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from statewright.cluster.node import ClusterNode
from statewright.compute.members import Members
from statewright.metrics.node import (
    CertificateCollector,
    ClusterCollector,
    ComputationCollector,
    Dropping,
    ResourceCollector,
    SpanCollector,
    TargetCollector,
)
from statewright.metrics.processes import LanguageCollector, QueueCollector, StepCollector
from statewright.metrics.requests import AnswerCollector, GrpcCollector, StepCallCollector
from statewright.metrics.runs import (
    IdempotencyCollector,
    OpsCollector,
    ProviderCollector,
    RunCollector,
    ScheduleCollector,
    TransactionCollector,
    WaitCollector,
)
from statewright.services.runtime import Runtime
from statewright.services.scheduler import ScheduleMetrics
from statewright.services.steps.dialect import STEP_DIALECT


class Metrics:
    """A registry of its own, so that several services in one process do not mix."""

    def __init__(self) -> None:
        self.requests = AnswerCollector("statewright_http", "HTTP requests", "method")
        self.console = AnswerCollector("statewright_console", "Requests of browsers", "route")
        """Pages, parts and actions of the console, apart from the requests of the API."""
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

    def register_certificate(self, end: datetime) -> None:
        """Report when the certificate ends that clients are shown."""
        self._registry.register(CertificateCollector(end))

    def register_runtime(self, runtime: Runtime, members: Members, node: ClusterNode, *, version: str) -> None:
        """Report what a running service holds and does."""
        self._registry.register(TransactionCollector(runtime.core.commits.metrics, node.local.times))
        self._registry.register(RunCollector(runtime.core.engine.metrics))
        self._registry.register(TargetCollector(version, node.id))
        self._registry.register(ResourceCollector(runtime, members))
        self._registry.register(ComputationCollector(runtime.core.computations))
        self._registry.register(ClusterCollector(node))
        self._registry.register(StepCollector(STEP_DIALECT.find_host(runtime.processes).metrics))
        self._registry.register(LanguageCollector(runtime.processes.hosts))
        ops, sweeper = runtime.operations.metrics, runtime.operations.audit_sweeper
        incidents = runtime.operations.concerns.incident_sweeper
        ender = runtime.operations.concerns.suspension_ender
        removed = runtime.operations.idempotency_sweeper
        workers = runtime.operations.presence
        self._registry.register(
            OpsCollector(
                runtime,
                ops,
                [
                    ("ops_audit", sweeper.removal),
                    ("idempotency", removed.removal),
                    ("suspension", ender.removal),
                    ("incident", incidents.removal),
                    ("worker_seen", workers.removal),
                    ("bulk_job", runtime.operations.bulk),
                    ("event_outbox", runtime.operations.events.removal),
                    ("event_delivery", runtime.operations.webhooks.removal),
                ],
            )
        )
        self._registry.register(QueueCollector(runtime.operations.queue_watch, node.local))
        self._registry.register(WaitCollector(runtime.operations.waits))
        self._registry.register(IdempotencyCollector(runtime.core.requests, removed))
        identity = runtime.identity.identity
        self._registry.register(ProviderCollector(identity, runtime.processes.egress))
