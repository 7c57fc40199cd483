"""Prometheus metrics of one process (docs/reference/service.md#metrics, docs/reference/metrics.md).

Requests are counted in plain integers, and turned into metrics when they are asked for: the library's own counters take
several microseconds of every request. So it is with what the other packages count, each on its own; here is a collector
for each subject, and the registry of them all.

To add a metric, count it there, yield it in the collector of its subject here, and describe it in
docs/reference/metrics.md.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from statewright.cluster.node import ClusterNode
from statewright.compute.callout import CalloutKind
from statewright.compute.members import Members
from statewright.egress import Egress
from statewright.engine.metrics import RunMetrics
from statewright.histogram import Histogram
from statewright.incidents import INCIDENT_KINDS
from statewright.rpc.server import PortLoad
from statewright.services.auth.identity import Administration, Identity
from statewright.services.idempotency.requests import OUTCOMES, IdempotentRequests
from statewright.services.idempotency.sweeping import IdempotencySweeper
from statewright.services.ops.audit import OpsAuditSweeper
from statewright.services.ops.incidents import IncidentSweeper
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.ops.suspensions import SuspensionEnder
from statewright.services.ops.waiting import OUTCOMES as WAIT_OUTCOMES
from statewright.services.ops.waiting import EntityWaits
from statewright.services.processes.hosting import ProcessHosts, ProcessMetrics
from statewright.services.runtime import Runtime
from statewright.services.scheduler import ScheduleMetrics, TaskOutcome
from statewright.services.steps import find_steps
from statewright.storage.commit.metrics import SCHEDULE_EVENTS, TransactionMetrics
from statewright.storage.faults import FAULT_KINDS
from statewright.suspensions import SCOPES


def build_counter(name: str, meaning: str, value: float) -> Metric:
    """A number that only grows."""
    return CounterMetricFamily(name, meaning, value=value)


def build_counters(name: str, meaning: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """Numbers that only grow, told apart by the value of a label."""
    family = CounterMetricFamily(name, meaning, labels=[label])
    for key, value in values:
        family.add_metric([key], value)
    return family


def build_gauge(name: str, meaning: str, value: float) -> Metric:
    """A number of this moment."""
    return GaugeMetricFamily(name, meaning, value=value)


def build_histogram(name: str, meaning: str, times: Histogram) -> Metric:
    """One distribution of times."""
    return HistogramMetricFamily(name, meaning, buckets=times.cumulate(), sum_value=times.sum)


def build_histograms(
    name: str, meaning: str, labels: Sequence[str], times: Iterable[tuple[Sequence[str], Histogram]]
) -> Metric:
    """Distributions of times, told apart by the values of labels."""
    family = HistogramMetricFamily(name, meaning, labels=labels)
    for values, histogram in times:
        family.add_metric(values, buckets=histogram.cumulate(), sum_value=histogram.sum)
    return family


def build_labelled_histograms(name: str, meaning: str, label: str, times: Mapping[str, Histogram]) -> Metric:
    """Distributions of times, told apart by the value of one label."""
    return build_histograms(name, meaning, [label], (((value,), histogram) for value, histogram in times.items()))


REQUEST_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)

CALLOUT_LABELS: Final = ("model", "kind", "name", "tags")

CALL_BOUNDS_S: Final = (*REQUEST_BOUNDS_S, 90.0)
"""Polls for jobs may wait for a minute."""


class RequestCollector(Collector):
    """How many HTTP requests were answered, with what, and how long that took."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._times: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(REQUEST_BOUNDS_S))

    def observe(self, method: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        self._counts[method, status] += 1
        self._times[method].observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What was observed so far."""
        counts = CounterMetricFamily(
            "statewright_http_requests", "HTTP requests by method and status", labels=["method", "status"]
        )
        for (method, status), count in self._counts.items():
            counts.add_metric([method, str(status)], count)
        yield counts
        yield build_labelled_histograms("statewright_http_request_seconds", "Time to answer", "method", self._times)


class StepCallCollector(Collector):
    """How long calls of the step dialect take, under the names of its dashboards (docs/reference/steps.md#metrics)."""

    def __init__(self) -> None:
        self._http: defaultdict[tuple[str, ...], Histogram] = defaultdict(lambda: Histogram(CALL_BOUNDS_S))
        self._grpc: defaultdict[tuple[str, ...], Histogram] = defaultdict(lambda: Histogram(CALL_BOUNDS_S))

    def observe_http(self, method: str, pattern: str, status: int, seconds: float) -> None:
        """A request was answered; ``pattern`` is the path of its route, empty when there is none."""
        self._http[method, pattern, str(status)].observe(seconds)

    def observe_grpc(self, method: str, code: str, seconds: float) -> None:
        """A call was answered."""
        self._grpc[method, code].observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What was observed so far."""
        meaning = "Time to answer, of the step engine"
        http = self._http.items()
        yield build_histograms("http_requests_duration_seconds", meaning, ("method", "path", "status"), http)
        yield build_histograms("grpc_requests_duration_seconds", meaning, ("method", "code"), self._grpc.items())


class TransactionCollector(Collector):
    """Transactions of this process, the timers they armed and took away, and the callouts to its members."""

    def __init__(self, metrics: TransactionMetrics, callouts: Mapping[CalloutKind, Histogram]) -> None:
        self._metrics = metrics
        self._callouts = callouts

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        metrics = self._metrics
        durations = {"begin": metrics.begins, "commit": metrics.commits, "rollback": metrics.rollbacks}
        yield build_labelled_histograms(
            "cyoda_tx_duration_seconds", "Time of what is done to transactions", "op", durations
        )
        yield build_gauge("cyoda_tx_active", "Transactions that have begun and not ended", metrics.active)
        yield build_counter("cyoda_tx_conflicts", "Transactions that lost to another one", metrics.conflicts)
        callouts = [((kind,), times) for kind, times in self._callouts.items()]
        yield build_histograms("cyoda_dispatch_duration_seconds", "Time of callouts to members", ["type"], callouts)
        counts = [(kind, times.count) for kind, times in self._callouts.items()]
        yield build_counters("cyoda_dispatch_count", "Callouts to members", "type", counts)
        timers = [(event, metrics.timers[event]) for event in SCHEDULE_EVENTS.values()]
        yield build_counters("statewright_timers", "Committed changes of timers", "event", timers)


class RunCollector(Collector):
    """Transitions and callouts of the runs of this process, by the names that workflows give them."""

    def __init__(self, metrics: RunMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        metrics = self._metrics
        fired = CounterMetricFamily(
            "statewright_transitions", "Transitions that have fired", labels=["model", "transition"]
        )
        for labels, count in metrics.transitions:
            fired.add_metric(labels, count.value)
        yield fired
        yield build_histograms("statewright_callout_seconds", "Time of callouts", CALLOUT_LABELS, metrics.callouts)
        failed = CounterMetricFamily(
            "statewright_callout_failures", "Callouts that failed", labels=[*CALLOUT_LABELS, "reason"]
        )
        for labels, count in metrics.failures:
            failed.add_metric(labels, count.value)
        yield failed
        retries = CounterMetricFamily(
            "statewright_callout_retries", "Callouts that were tried again", labels=["kind", "cause", "outcome"]
        )
        for told, times in metrics.retries.items():
            retries.add_metric(told, times)
        yield retries


class TargetCollector(Collector):
    """What process this is, to be joined with the other metrics."""

    def __init__(self, version: str, instance: str) -> None:
        self._info = {"service_name": "statewright", "service_version": version, "service_instance_id": instance}

    def collect(self) -> Iterator[Metric]:
        """One constant."""
        yield InfoMetricFamily("target", "What process this is", value=self._info)


class ScheduleCollector(Collector):
    """The scheduler of this process."""

    def __init__(self, metrics: ScheduleMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """What it has done, and how far it is behind."""
        metrics = self._metrics
        runs = [(outcome, metrics.outcomes[outcome]) for outcome in (*get_args(TaskOutcome), "failed")]
        yield build_counters("statewright_scheduler_runs", "Tasks that were taken", "outcome", runs)
        yield build_histogram("statewright_scheduler_lateness_seconds", "Time between due and fired", metrics.lateness)
        yield build_gauge(
            "statewright_scheduler_lag_seconds", "Lateness of the most overdue task at the last scan", metrics.lag_s
        )
        yield build_gauge("statewright_scheduler_under_way", "Scheduled runs under way", metrics.under_way)
        yield build_counter("statewright_scheduler_failed_scans", "Scans that could not be made", metrics.failed_scans)


class ResourceCollector(Collector):
    """Connections, queues and members of this process."""

    def __init__(self, runtime: Runtime, members: Members) -> None:
        self._runtime = runtime
        self._members = members

    def collect(self) -> Iterator[Metric]:
        """What the process holds at this moment."""
        pool, commits = self._runtime.pool.state, self._runtime.commits
        connections = GaugeMetricFamily(
            "statewright_pool_connections", "Connections of the shared pool", labels=["state"]
        )
        connections.add_metric(["open"], pool.open)
        connections.add_metric(["idle"], pool.idle)
        yield connections
        yield build_gauge("statewright_pool_waiting", "Tasks that wait for a connection", pool.waiting)
        yield build_gauge("statewright_commits_waiting", "Transactions that wait to be committed", commits.waiting)
        faults = [(kind, self._runtime.pool.faults.counts[kind]) for kind in FAULT_KINDS]
        yield build_counters("statewright_storage_failures", "What the database could not do", "kind", faults)
        yield build_gauge("statewright_compute_members", "Connected calculation members", self._members.count)


class GrpcCollector(Collector):
    """The gRPC ports of this process: that of clients, and that of other nodes."""

    def __init__(self) -> None:
        self._ports: dict[str, Callable[[], PortLoad | None]] = {}

    def add_port(self, name: str, get_load: Callable[[], PortLoad | None]) -> None:
        """Report a port from now on."""
        self._ports[name] = get_load

    def collect(self) -> Iterator[Metric]:
        """What is so at this moment."""
        connections = GaugeMetricFamily("statewright_grpc_connections", "Open connections", labels=["port"])
        memory = GaugeMetricFamily("statewright_grpc_memory_bytes", "What calls hold in memory", labels=["port"])
        incidents = CounterMetricFamily(
            "statewright_grpc_incidents", "What clients should not have done", labels=["port", "event"]
        )
        for port, get_load in self._ports.items():
            if load := get_load():
                connections.add_metric([port], load.connections)
                memory.add_metric([port], load.memory_bytes)
                for event, count in load.incidents.items():
                    incidents.add_metric([port, event], count)
        yield from (connections, memory, incidents)


class ClusterCollector(Collector):
    """This node of the cluster, and the others."""

    def __init__(self, node: ClusterNode) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """What is so at this moment."""
        peers, sent, relayed = self._node.peer_table, self._node.callouts.forwarded, self._node.http_proxy.relayed
        yield build_gauge("statewright_cluster_peers", "Other nodes that are alive", len(peers.peers))
        yield build_gauge("statewright_cluster_peer_members", "Calculation members of other nodes", peers.member_count)
        yield build_counter("statewright_callouts_forwarded", "Callouts sent to other nodes", sent)
        yield build_counter("statewright_requests_relayed", "HTTP callbacks answered by other nodes", relayed)


class StepCollector(Collector):
    """What a process has counted since its start."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        metrics = self._metrics
        yield build_counter(
            "workflow_definitions_uploaded", "New versions of definitions", metrics.definitions_uploaded
        )
        yield build_counter("workflow_instances_started", "Instances", metrics.instances_started)
        yield build_counters(
            "workflow_instances_completed", "Ended instances", "outcome", metrics.instances_ended.items()
        )
        yield build_counters(
            "workflow_steps_executed", "Entries into steps", "step_type", metrics.nodes_executed.items()
        )
        yield build_counter("job_retries", "Failed jobs that were put back", metrics.job_retries)
        yield build_counter("job_lock_conflicts", "Advances that another process was faster with", metrics.conflicts)
        yield build_counter("engine_job_timeout", "Leases that ended", metrics.leases_expired)
        yield build_histogram(
            "engine_job_pickup_latency_seconds", "From the creation of a job to its claim", metrics.pickup
        )
        yield build_histogram("job_poll_latency_seconds", "Time of a claim", metrics.polls)
        yield build_labelled_histograms(
            "engine_db_transaction_duration_seconds", "Time to commit", "tx_type", metrics.transactions
        )
        yield build_labelled_histograms(
            "engine_db_lock_wait_duration_seconds", "Time to get at something", "operation", metrics.waits
        )


class Sweeper(Protocol):
    """Counts the rows that it removes from a table."""

    @property
    def removed(self) -> int: ...


class OpsCollector(Collector):
    """What the operations API was asked for, and what it does in the background."""

    def __init__(self, runtime: Runtime, metrics: OpsMetrics, sweepers: Sequence[tuple[str, Sweeper]]) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._sweepers = sweepers

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        swept = [(table, sweeper.removed) for table, sweeper in self._sweepers]
        yield build_counter("statewright_explains", "Explanations", self._metrics.explains)
        yield build_counter("statewright_simulations", "Simulations of workflows", self._metrics.simulations)
        yield build_counters("statewright_checks", "Checks of workflows", "result", self._metrics.checks.items())
        yield build_counters("statewright_swept_rows", "Rows removed after their retention", "table", swept)
        yield from self._collect_suspensions()
        yield from self._collect_incidents()

    def _collect_incidents(self) -> Iterator[Metric]:
        reports, sweeper = self._runtime.incidents, self._runtime.extensions.get(IncidentSweeper)
        unresolved = GaugeMetricFamily("statewright_incidents_open", "Open incidents", labels=["tenant", "kind"])
        for labels, count in sweeper.open.items():
            unresolved.add_metric(labels, count)
        yield unresolved
        totals = [(kind, reports.totals[kind]) for kind in INCIDENT_KINDS]
        yield build_counters("statewright_incidents", "Failures that were reported", "kind", totals)
        yield build_counter("statewright_incidents_dropped", "Failures that were not stored", reports.dropped)

    def _collect_suspensions(self) -> Iterator[Metric]:
        active, commits = self._runtime.suspensions, self._runtime.commits.metrics
        suspended = GaugeMetricFamily("statewright_suspensions", "Active suspensions", labels=["tenant", "scope"])
        for (tenant, scope), count in active.count().items():
            suspended.add_metric([tenant, scope], count)
        yield suspended
        found = [(scope, active.refusals[scope] + (scope == "ENTITY") * commits.suspended) for scope in SCOPES]
        yield build_counters("statewright_suspended_refusals", "Requests refused by suspensions", "scope", found)


class WaitCollector(Collector):
    """Requests that wait for entities."""

    def __init__(self, waits: EntityWaits) -> None:
        self._waits = waits

    def collect(self) -> Iterator[Metric]:
        """What is counted now, and was so far."""
        ended = [(outcome, self._waits.outcomes[outcome]) for outcome in WAIT_OUTCOMES]
        yield build_gauge("statewright_waiters", "Requests that wait for an entity or instance", self._waits.count)
        yield build_counters("statewright_waits", "Waits that have ended", "result", ended)


class IdempotencyCollector(Collector):
    """Requests with an ``Idempotency-Key``."""

    def __init__(self, requests: IdempotentRequests, sweeper: IdempotencySweeper) -> None:
        self._requests = requests
        self._sweeper = sweeper

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        outcomes = [(outcome, self._requests.outcomes[outcome]) for outcome in OUTCOMES]
        yield build_counters("statewright_idempotency", "Requests with an Idempotency-Key", "outcome", outcomes)
        yield build_gauge("statewright_idempotency_records", "Stored records, as estimated", self._sweeper.stored)


class LanguageCollector(Collector):
    """What a process has counted since its start, by process language: steps and flows alike."""

    def __init__(self, hosts: ProcessHosts) -> None:
        self._hosts = hosts

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        known = [(hosted.name, hosted.metrics) for hosted in self._hosts.hosted]
        started = [(language, metrics.instances_started) for language, metrics in known]
        yield build_counters("statewright_process_instances_started", "Instances", "language", started)
        ended = CounterMetricFamily(
            "statewright_process_instances_ended", "Ended instances", labels=["language", "outcome"]
        )
        entered = CounterMetricFamily(
            "statewright_process_nodes_entered", "Entries into nodes", labels=["language", "node_type"]
        )
        for language, metrics in known:
            for outcome, count in metrics.instances_ended.items():
                ended.add_metric([language, outcome], count)
            for node_type, count in metrics.nodes_executed.items():
                entered.add_metric([language, node_type], count)
        yield from (ended, entered)
        yield from self._collect_log_counts()
        retries = [(language, metrics.job_retries) for language, metrics in known]
        yield build_counters("statewright_process_job_retries", "Failed jobs that were put back", "language", retries)
        delayed = sum(metrics.delayed_retries for _, metrics in known)
        rests = [("true", delayed), ("false", sum(times for _, times in retries) - delayed)]
        yield build_counters("statewright_job_retries", "Failed jobs, by whether they rest first", "delayed", rests)
        pickup = {language: metrics.pickup for language, metrics in known}
        meaning = "From the creation of a job to its claim"
        yield build_labelled_histograms("statewright_process_pickup_seconds", meaning, "language", pickup)

    def _collect_log_counts(self) -> Iterator[Metric]:
        """Of languages whose instances have logs."""
        logged = CounterMetricFamily(
            "statewright_process_events", "Entries of logs of instances", labels=["language", "event", "status"]
        )
        pending = CounterMetricFamily(
            "statewright_process_pending_tokens", "Changes of what is not admitted", labels=["language", "change"]
        )
        for hosted in self._hosts.hosted:
            for labels, count in hosted.metrics.events.items():
                logged.add_metric([hosted.name, *labels], count)
            for change, count in hosted.metrics.pending_tokens.items():
                pending.add_metric([hosted.name, change], count)
        yield from (logged, pending)


class Dropping(Protocol):
    """Counts what it drops."""

    @property
    def dropped(self) -> int: ...


class SpanCollector(Collector):
    """Spans that were dropped, where traces are switched on."""

    def __init__(self, queue: Dropping) -> None:
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        yield build_counter(
            "statewright_spans_dropped", "Spans that the collector did not take in time", self._queue.dropped
        )


class ProviderCollector(Collector):
    """What identity providers were asked for, and requests to other servers."""

    def __init__(self, identity: Identity | None, egress: Egress) -> None:
        self._identity = identity
        self._egress = egress

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        requests = CounterMetricFamily(
            "statewright_egress_requests", "Requests to other servers", labels=["purpose", "outcome"]
        )
        for outcome, count in self._egress.outcomes.items():
            requests.add_metric(["processes", outcome], count)
        if self._identity is not None:
            live = self._identity.live_providers
            yield GaugeMetricFamily("oidc_registry_providers", "Active identity providers", value=live.count)
            yield build_counter("oidc_kid_cache_hit", "Tokens of providers whose key was known", live.hits)
            yield build_counter("oidc_kid_cache_miss", "Tokens whose key was not known", live.misses)
            faults = live.faults.items()
            yield build_counters("oidc_jwks_fetch_error", "Documents that could not be had", "outcome", faults)
            for outcome, count in live.requests.items():
                requests.add_metric(["providers", outcome], count)
        yield requests


class Metrics:
    """A registry of its own, so that several services in one process do not mix."""

    def __init__(self) -> None:
        self.requests = RequestCollector()
        self.step_calls = StepCallCollector()
        self.grpc = GrpcCollector()
        self._registry = CollectorRegistry()
        self._registry.register(self.requests)
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
        self._registry.register(
            OpsCollector(
                runtime,
                ops,
                [("ops_audit", sweeper), ("idempotency", removed), ("suspension", ender), ("incident", incidents)],
            )
        )
        self._registry.register(WaitCollector(runtime.extensions.get(EntityWaits)))
        self._registry.register(IdempotencyCollector(runtime.extensions.get(IdempotentRequests), removed))
        identity = runtime.extensions.get(Administration).identity
        self._registry.register(ProviderCollector(identity, runtime.extensions.get(Egress)))
