"""Metrics of the library, from plain numbers."""

from collections.abc import Iterable, Mapping, Sequence

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
