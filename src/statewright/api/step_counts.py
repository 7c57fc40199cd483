"""Prometheus metrics of the step engine, under the names of the public one (spec/step-engine.md §22)."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from statewright.services.steps.tally import LATENCY_BUCKETS, Histogram, Tally


class StepCounts(Collector):
    """What a process has counted since its start."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        tally = self._tally
        yield _counter("workflow_definitions_uploaded", "New versions of definitions", tally.definitions_uploaded)
        yield _counter("workflow_instances_started", "Instances", tally.instances_started)
        yield _counters("workflow_instances_completed", "Ended instances", "outcome", tally.instances_ended)
        yield _counters("workflow_steps_executed", "Entries into steps", "step_type", tally.steps_executed)
        yield _counter("job_retries", "Failed jobs that were put back", tally.job_retries)
        yield _counter("job_lock_conflicts", "Advances that another process was faster with", tally.conflicts)
        yield _counter("engine_job_timeout", "Leases that ended", tally.leases_expired)
        yield _histogram("engine_job_pickup_latency_seconds", "From the creation of a job to its claim", tally.pickup)
        yield _histogram("job_poll_latency_seconds", "Time of a claim", tally.polls)
        yield _histograms("engine_db_transaction_duration_seconds", "Time to commit", "tx_type", tally.transactions)
        yield _histograms("engine_db_lock_wait_duration_seconds", "Time to get at something", "operation", tally.waits)


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(name, meaning, value=value)


def _counters(name: str, meaning: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _histogram(name: str, meaning: str, values: Histogram) -> Metric:
    return HistogramMetricFamily(name, meaning, buckets=_cumulated(values), sum_value=values.sum)


def _histograms(name: str, meaning: str, label: str, values: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, meaning, labels=[label])
    for key, histogram in values.items():
        family.add_metric([key], buckets=_cumulated(histogram), sum_value=histogram.sum)
    return family


def _cumulated(values: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, LATENCY_BUCKETS), "+Inf"]
    return list(zip(bounds, map(float, accumulate(values.counts)), strict=True))
