"""What was asked over HTTP and gRPC, and how long the answers took."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from grpc_h2 import PortLoad
from statewright.metrics.families import build_histograms, build_labelled_histograms
from statewright.telemetry.histogram import Histogram

REQUEST_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)


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


class ConsoleCollector(Collector):
    """How many pages, parts and actions of the console were answered, apart from the requests of the API."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._times: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(REQUEST_BOUNDS_S))

    def observe(self, route: str, status: int, seconds: float) -> None:
        """A request of a browser has been answered."""
        self._counts[route, status] += 1
        self._times[route].observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What was observed so far."""
        counts = CounterMetricFamily(
            "statewright_console_requests", "Requests of browsers by route and status", labels=["route", "status"]
        )
        for (route, status), count in self._counts.items():
            counts.add_metric([route, str(status)], count)
        yield counts
        yield build_labelled_histograms("statewright_console_request_seconds", "Time to answer", "route", self._times)


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
