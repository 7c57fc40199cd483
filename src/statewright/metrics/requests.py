"""What was asked over HTTP and gRPC, and how long the answers took."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, Literal

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from grpc_h2 import PortLoad
from statewright.metrics.families import build_counter_table, build_gauge_table, build_histograms
from statewright.telemetry.histogram import AnswerTimes, Histogram

REQUEST_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)


CALL_BOUNDS_S: Final = (*REQUEST_BOUNDS_S, 90.0)
"""Polls for jobs may wait for a minute."""


class AnswerCollector(Collector):
    """How many requests were answered, with what, and how long that took, by one ``label``, the method or the route.
    The metrics begin with ``name``.
    """

    def __init__(self, name: str, meaning: str, label: Literal["method", "route"]) -> None:
        self.times = AnswerTimes(REQUEST_BOUNDS_S)
        self._name = name
        self._meaning = meaning
        self._label = label

    def collect(self) -> Iterator[Metric]:
        """What was observed so far."""
        position = 0 if self._label == "method" else 1
        counts = ((values, times.count) for values, times in self.times.sum_up(position, 2).items())
        yield build_counter_table(
            f"{self._name}_requests", f"{self._meaning} by {self._label} and status", (self._label, "status"), counts
        )
        of_label = self.times.sum_up(position).items()
        yield build_histograms(f"{self._name}_request_seconds", "Time to answer", [self._label], of_label)


class StepCallCollector(Collector):
    """How long calls of the step dialect take, under the names of its dashboards (docs/reference/steps.md#metrics)."""

    def __init__(self) -> None:
        self.http = AnswerTimes(CALL_BOUNDS_S)
        self._grpc: defaultdict[tuple[str, ...], Histogram] = defaultdict(lambda: Histogram(CALL_BOUNDS_S))

    def observe_grpc(self, method: str, code: str, seconds: float) -> None:
        """A call was answered."""
        self._grpc[method, code].observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """What was observed so far."""
        meaning = "Time to answer, of the step engine"
        http = self.http.sum_up(0, 1, 2).items()
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
        loads = [(port, load) for port, get_load in self._ports.items() if (load := get_load())]
        connections = [((port,), load.connections) for port, load in loads]
        yield build_gauge_table("statewright_grpc_connections", "Open connections", ("port",), connections)
        memory = [((port,), load.memory_bytes) for port, load in loads]
        yield build_gauge_table("statewright_grpc_memory_bytes", "What calls hold in memory", ("port",), memory)
        incidents = [((port, event), count) for port, load in loads for event, count in load.incidents.items()]
        yield build_counter_table(
            "statewright_grpc_incidents", "What clients should not have done", ("port", "event"), incidents
        )
