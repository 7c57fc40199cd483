"""Metrics of transactions, callouts and timers (spec/auth-and-operations.md §28.2, docs/reference/metrics.md)."""

from collections.abc import Iterator, Mapping
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from statewright.compute.callout import CalloutKind
from statewright.measures import Times
from statewright.services.firing import Outcome
from statewright.services.schedule_tally import ScheduleTally
from statewright.storage.transaction_tally import SCHEDULE_EVENTS, TransactionTally


class Transactions(Collector):
    """Transactions of this process, the timers they armed and took away, and the callouts to its members."""

    def __init__(self, tally: TransactionTally, callouts: Mapping[CalloutKind, Times]) -> None:
        self._tally = tally
        self._callouts = callouts

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        tally = self._tally
        durations = {"begin": tally.begins, "commit": tally.commits, "rollback": tally.rollbacks}
        yield histogram("cyoda_tx_duration_seconds", "Time of what is done to transactions", "op", durations)
        yield GaugeMetricFamily("cyoda_tx_active", "Transactions that have begun and not ended", value=tally.active)
        yield CounterMetricFamily("cyoda_tx_conflicts", "Transactions that lost to another one", value=tally.conflicts)
        yield histogram("cyoda_dispatch_duration_seconds", "Time of callouts to members", "type", self._callouts)
        counts = CounterMetricFamily("cyoda_dispatch_count", "Callouts to members", labels=["type"])
        for kind, times in self._callouts.items():
            counts.add_metric([kind], times.count)
        yield counts
        timers = CounterMetricFamily("statewright_timers", "Committed changes of timers", labels=["event"])
        for event in SCHEDULE_EVENTS.values():
            timers.add_metric([event], tally.timers[event])
        yield timers


class Scheduling(Collector):
    """The scheduler of this process."""

    def __init__(self, tally: ScheduleTally) -> None:
        self._tally = tally

    def collect(self) -> Iterator[Metric]:
        """What it has done, and how far it is behind."""
        runs = CounterMetricFamily("statewright_scheduler_runs", "Tasks that were taken", labels=["outcome"])
        for outcome in (*get_args(Outcome), "failed"):
            runs.add_metric([outcome], self._tally.outcomes[outcome])
        yield runs
        yield histogram(
            "statewright_scheduler_lateness_seconds", "Time between due and fired", "", {"": self._tally.lateness}
        )
        lag = self._tally.lag_s
        yield GaugeMetricFamily(
            "statewright_scheduler_lag_seconds",
            "Lateness of the most overdue task at the last scan",
            value=lag,
        )
        yield GaugeMetricFamily(
            "statewright_scheduler_under_way", "Scheduled runs under way", value=self._tally.under_way
        )
        yield CounterMetricFamily(
            "statewright_scheduler_failed_scans", "Scans that could not be made", value=self._tally.failed_scans
        )


def histogram(name: str, text: str, label: str, times: Mapping[str, Times] | Mapping[CalloutKind, Times]) -> Metric:
    """A family of the times, told apart by a label; without one for an empty name."""
    family = HistogramMetricFamily(name, text, labels=[label] if label else [])
    for value, each in times.items():
        family.add_metric([value] if label else [], buckets=each.cumulated(), sum_value=each.sum)
    return family
