"""Transactions, the runs of workflows in them, and the timers that begin some."""

from collections.abc import Iterator, Mapping
from typing import Final, get_args

from prometheus_client.core import (
    CounterMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from statewright.compute.callout import CalloutKind
from statewright.engine.metrics import RunMetrics
from statewright.histogram import Histogram
from statewright.metrics.families import (
    build_counter,
    build_counters,
    build_gauge,
    build_histogram,
    build_histograms,
    build_labelled_histograms,
)
from statewright.services.scheduler import ScheduleMetrics, TaskOutcome
from statewright.storage.commit.metrics import SCHEDULE_EVENTS, TransactionMetrics

CALLOUT_LABELS: Final = ("model", "kind", "name", "tags")


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
