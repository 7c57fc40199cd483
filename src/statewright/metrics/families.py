"""Metrics of the library, from plain numbers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from statewright.telemetry.histogram import Histogram


def build_counter(name: str, meaning: str, value: float) -> Metric:
    """A number that only grows."""
    return CounterMetricFamily(name, meaning, value=value)


def build_counters(name: str, meaning: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    """Numbers that only grow, told apart by the value of a label."""
    return build_counter_table(name, meaning, [label], (((key,), value) for key, value in values))


Table: TypeAlias = Iterable[tuple[Sequence[str], float]]
"""Numbers by the values of labels."""


def build_counter_table(name: str, meaning: str, labels: Sequence[str], table: Table) -> Metric:
    """Numbers that only grow, told apart by the values of labels."""
    return _fill(CounterMetricFamily(name, meaning, labels=labels), table)


def build_gauge_table(name: str, meaning: str, labels: Sequence[str], table: Table) -> Metric:
    """Numbers of this moment, told apart by the values of labels."""
    return _fill(GaugeMetricFamily(name, meaning, labels=labels), table)


def _fill(family: CounterMetricFamily | GaugeMetricFamily, table: Table) -> Metric:
    for values, number in table:
        family.add_metric(values, number)
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
