"""What a process is and holds, and the cluster that it is part of."""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from statewright.cluster.node import ClusterNode
from statewright.computations import OUTCOMES, ComputationPool
from statewright.compute.members import Members
from statewright.metrics.families import build_counter, build_counters, build_gauge, build_gauge_table, build_histogram
from statewright.services.runtime import Runtime
from statewright.storage.connections import FAULT_KINDS


class TargetCollector(Collector):
    """What process this is, to be joined with the other metrics."""

    def __init__(self, version: str, instance: str) -> None:
        self._info = {"service_name": "statewright", "service_version": version, "service_instance_id": instance}

    def collect(self) -> Iterator[Metric]:
        """One constant."""
        yield InfoMetricFamily("target", "What process this is", value=self._info)


class CertificateCollector(Collector):
    """The certificate that clients are shown, which a renewed file does not replace in a process that runs."""

    def __init__(self, end: datetime) -> None:
        self._end = end

    def collect(self) -> Iterator[Metric]:
        """One constant."""
        text = "When the certificate in use ends, in seconds since 1970"
        yield build_gauge("statewright_tls_certificate_end_seconds", text, self._end.timestamp())


class ResourceCollector(Collector):
    """Connections, queues and members of this process."""

    def __init__(self, runtime: Runtime, members: Members) -> None:
        self._runtime = runtime
        self._members = members

    def collect(self) -> Iterator[Metric]:
        """What the process holds at this moment."""
        pool, commits = self._runtime.core.pool.state, self._runtime.core.commits
        connections = [(("open",), pool.open), (("idle",), pool.idle)]
        yield build_gauge_table(
            "statewright_pool_connections", "Connections of the shared pool", ("state",), connections
        )
        yield build_gauge("statewright_pool_waiting", "Tasks that wait for a connection", pool.waiting)
        yield build_gauge("statewright_commits_waiting", "Transactions that wait to be committed", commits.waiting)
        faults = [(kind, self._runtime.core.pool.faults.counts[kind]) for kind in FAULT_KINDS]
        yield build_counters("statewright_storage_failures", "What the database could not do", "kind", faults)
        yield build_gauge("statewright_compute_members", "Connected calculation members", self._members.count)


class ComputationCollector(Collector):
    """Computations that took processes of their own."""

    def __init__(self, pool: ComputationPool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        """What became of them, and what is under way."""
        pool, metrics = self._pool, self._pool.metrics
        outcomes = [(outcome, metrics.outcomes[outcome]) for outcome in OUTCOMES]
        yield build_counters("statewright_computations", "Computations that took a process", "outcome", outcomes)
        yield build_histogram("statewright_computation_seconds", "From asking for one to its end", metrics.seconds)
        yield build_gauge("statewright_computations_waiting", "Computations that wait for a process", pool.waiting)
        yield build_gauge("statewright_computing_processes", "Processes that compute, or could", len(pool.pids))


class ClusterCollector(Collector):
    """This node of the cluster, and the others."""

    def __init__(self, node: ClusterNode) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """What is so at this moment."""
        peers, sent, relayed = self._node.peer_table, self._node.callouts.forwarded, self._node.http_proxy.relayed
        yield build_gauge("statewright_cluster_peers", "Other nodes that are alive", len(peers.peers))
        yield build_gauge("statewright_cluster_peer_members", "Calculation members of other nodes", peers.member_count)
        yield build_counters("statewright_callouts_forwarded", "Callouts sent to other nodes", "over", sent.items())
        yield build_counter("statewright_requests_relayed", "HTTP callbacks answered by other nodes", relayed)


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
