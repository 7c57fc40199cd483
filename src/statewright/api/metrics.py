"""Prometheus metrics of one process.

Requests are counted in plain integers, and turned into metrics when somebody asks: the library's own counters take
several microseconds of every request.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from statewright.api.cluster_metrics import ClusterState
from statewright.api.step_counts import StepCounts
from statewright.api.step_metrics import StepCalls
from statewright.api.transaction_metrics import Scheduling, Transactions
from statewright.cluster.node import ClusterNode
from statewright.compute.members import Members
from statewright.measures import Times
from statewright.services.runtime import Runtime
from statewright.services.schedule_tally import ScheduleTally

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
"""Seconds; upper bounds, inclusive."""


class Metrics:
    """A registry of its own, so that several services in one process do not mix."""

    def __init__(self) -> None:
        self.requests = Requests()
        self.step_calls = StepCalls()
        self._registry = CollectorRegistry()
        self._registry.register(self.requests)
        self._registry.register(self.step_calls)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def exposition(self) -> bytes:
        """The text format of Prometheus."""
        return generate_latest(self._registry)

    def watch_scheduler(self, tally: ScheduleTally) -> None:
        """Report what the scheduler does."""
        self._registry.register(Scheduling(tally))

    def watch(self, runtime: Runtime, members: Members, node: ClusterNode) -> None:
        """Report what a running service holds and does."""
        self._registry.register(Transactions(runtime.commits.tally, node.local.times))
        self._registry.register(_Holdings(runtime, members))
        self._registry.register(ClusterState(node))
        self._registry.register(StepCounts(runtime.steps.tally))


class Requests(Collector):
    """How many HTTP requests were answered, with what, and how long that took."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, int], int] = {}
        self._times: dict[str, Times] = {}

    def observe(self, method: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        key = (method, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        times = self._times.get(method)
        if times is None:
            times = self._times[method] = Times(BUCKETS)
        times.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What was observed so far."""
        counts = CounterMetricFamily(
            "statewright_http_requests", "HTTP requests by method and status", labels=["method", "status"]
        )
        for (method, status), count in self._counts.items():
            counts.add_metric([method, str(status)], count)
        yield counts
        seconds = HistogramMetricFamily("statewright_http_request_seconds", "Time to answer", labels=["method"])
        for method, times in self._times.items():
            seconds.add_metric([method], buckets=times.cumulated(), sum_value=times.sum)
        yield seconds


class _Holdings(Collector):
    def __init__(self, runtime: Runtime, members: Members) -> None:
        self._runtime = runtime
        self._members = members

    def collect(self) -> Iterable[Metric]:
        """What the process holds at this moment."""
        pool = self._runtime.pool.state
        connections = GaugeMetricFamily(
            "statewright_pool_connections", "Connections of the shared pool", labels=["state"]
        )
        connections.add_metric(["open"], pool.open)
        connections.add_metric(["idle"], pool.idle)
        yield connections
        yield GaugeMetricFamily("statewright_pool_waiting", "Tasks that wait for a connection", value=pool.waiting)
        yield GaugeMetricFamily(
            "statewright_commits_waiting", "Transactions that wait to be committed", value=self._runtime.commits.waiting
        )
        yield GaugeMetricFamily(
            "statewright_compute_members", "Connected calculation members", value=self._members.count
        )
