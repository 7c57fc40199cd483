"""How long calls of the step dialect take, under the names its dashboards know (spec/step-engine.md §22)."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 90.0)
"""Seconds; upper bounds, inclusive. Polls may wait for a minute."""


class StepCalls(Collector):
    """Histograms of the calls over REST and gRPC."""

    def __init__(self) -> None:
        self._http: dict[tuple[str, ...], _Times] = {}
        self._grpc: dict[tuple[str, ...], _Times] = {}

    def observe_http(self, method: str, pattern: str, status: int, seconds: float) -> None:
        """A request was answered; ``pattern`` is the path of its route, empty when there is none."""
        self._http.setdefault((method, pattern, str(status)), _Times()).add(seconds)

    def observe_grpc(self, method: str, code: str, seconds: float) -> None:
        """A call was answered."""
        self._grpc.setdefault((method, code), _Times()).add(seconds)

    def collect(self) -> Iterator[Metric]:
        """What was observed so far."""
        yield _family("http_requests_duration_seconds", ("method", "path", "status"), self._http)
        yield _family("grpc_requests_duration_seconds", ("method", "code"), self._grpc)


class _Times:
    __slots__ = ("buckets", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


def _family(name: str, labels: Sequence[str], observed: dict[tuple[str, ...], _Times]) -> Metric:
    family = HistogramMetricFamily(name, "Time to answer, of the step engine", labels=labels)
    for values, times in observed.items():
        cumulated = zip([*map(str, BUCKETS), "+Inf"], map(float, accumulate(times.buckets)), strict=True)
        family.add_metric(list(values), buckets=list(cumulated), sum_value=times.sum)
    return family
