"""Transactions, the runs of workflows in them, and the timers that begin some; what operators, waiting clients and
identity providers ask for.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol, get_args

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from statewright.compute.callout import CalloutKind
from statewright.egress import Egress
from statewright.engine.callouts import RunMetrics
from statewright.metrics.families import (
    build_counter,
    build_counter_table,
    build_counters,
    build_gauge,
    build_gauge_table,
    build_histogram,
    build_histograms,
    build_labelled_histograms,
)
from statewright.operations.bulk_jobs import STATUSES
from statewright.operations.incidents import INCIDENT_KINDS
from statewright.operations.suspensions import SCOPES
from statewright.services.auth.clients import Identity
from statewright.services.idempotency.requests import OUTCOMES, IdempotencySweeper, IdempotentRequests
from statewright.services.ops.service import OpsMetrics
from statewright.services.ops.waiting import OUTCOMES as WAIT_OUTCOMES
from statewright.services.ops.waiting import EntityWaits
from statewright.services.runtime import Runtime
from statewright.services.scheduler import ScheduleMetrics, TaskOutcome
from statewright.storage.commit.group_commit import SCHEDULE_EVENTS, TransactionMetrics
from statewright.telemetry.histogram import Histogram

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
        fired = ((labels, count.value) for labels, count in metrics.transitions)
        yield build_counter_table(
            "statewright_transitions", "Transitions that have fired", ("model", "transition"), fired
        )
        yield build_histograms("statewright_callout_seconds", "Time of callouts", CALLOUT_LABELS, metrics.callouts)
        failed = ((labels, count.value) for labels, count in metrics.failures)
        yield build_counter_table(
            "statewright_callout_failures", "Callouts that failed", (*CALLOUT_LABELS, "reason"), failed
        )
        yield build_counter_table(
            "statewright_callout_retries",
            "Callouts that were tried again",
            ("kind", "cause", "outcome"),
            metrics.retries.items(),
        )


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


class Sweeper(Protocol):
    """Counts the rows that it removes from a table."""

    @property
    def removed(self) -> int: ...


class OpsCollector(Collector):
    """What the operations API was asked for, and what it does in the background."""

    def __init__(self, runtime: Runtime, metrics: OpsMetrics, sweepers: Sequence[tuple[str, Sweeper]]) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._sweepers = sweepers

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        swept = [(table, sweeper.removed) for table, sweeper in self._sweepers]
        yield build_counter("statewright_explains", "Explanations", self._metrics.explains)
        yield build_counter("statewright_restores", "Versions of entities that were restored", self._metrics.restores)
        yield build_counter("statewright_simulations", "Simulations of workflows", self._metrics.simulations)
        yield build_counters("statewright_checks", "Checks of workflows", "result", self._metrics.checks.items())
        imports = self._runtime.core.workflow_imports
        yield build_counters("statewright_workflow_imports", "Imports of workflows", "origin", imports.items())
        yield build_counters("statewright_swept_rows", "Rows removed after their retention", "table", swept)
        yield from self._collect_suspensions()
        yield from self._collect_incidents()
        yield from self._collect_bulk_jobs()
        events = self._runtime.operations.events
        yield build_gauge("statewright_outbox_rows", "Events that are kept, as the database estimates it", events.rows)
        yield build_gauge("statewright_event_streams", "Open streams of events", events.streams.total())
        webhooks = self._runtime.operations.webhooks.metrics
        outcomes = webhooks.outcomes.items()
        yield build_counters("statewright_deliveries", "Attempts to deliver events", "outcome", outcomes)
        took = [((), webhooks.seconds)]
        yield build_histograms("statewright_delivery_seconds", "Times of attempts to deliver events", (), took)
        yield build_gauge_table(
            "statewright_events_lag_seconds",
            "How far behind subscriptions are",
            ("tenant", "subscription"),
            webhooks.lags.items(),
        )

    def _collect_bulk_jobs(self) -> Iterator[Metric]:
        bulk = self._runtime.operations.bulk
        jobs = [((status,), bulk.jobs.get(status, 0)) for status in STATUSES]
        yield build_gauge_table("statewright_bulk_jobs", "Bulk jobs that are kept", ("status",), jobs)
        yield build_counter_table(
            "statewright_bulk_items", "Items of bulk jobs", ("operation", "result"), bulk.items.items()
        )

    def _collect_incidents(self) -> Iterator[Metric]:
        sweeper = self._runtime.operations.concerns.incident_sweeper
        reports = sweeper.reports
        yield build_gauge_table(
            "statewright_incidents_open", "Open incidents", ("tenant", "kind"), sweeper.open.items()
        )
        totals = [(kind, reports.totals[kind]) for kind in INCIDENT_KINDS]
        yield build_counters("statewright_incidents", "Failures that were reported", "kind", totals)
        yield build_counter("statewright_incidents_dropped", "Failures that were not stored", reports.dropped)

    def _collect_suspensions(self) -> Iterator[Metric]:
        active, commits = self._runtime.operations.concerns.suspensions.active, self._runtime.core.commits.metrics
        yield build_gauge_table(
            "statewright_suspensions", "Active suspensions", ("tenant", "scope"), active.count().items()
        )
        found = [(scope, active.refusals[scope] + (scope == "ENTITY") * commits.suspended) for scope in SCOPES]
        yield build_counters("statewright_suspended_refusals", "Requests refused by suspensions", "scope", found)


class WaitCollector(Collector):
    """Requests that wait for entities."""

    def __init__(self, waits: EntityWaits) -> None:
        self._waits = waits

    def collect(self) -> Iterator[Metric]:
        """What is counted now, and was so far."""
        ended = [(outcome, self._waits.outcomes[outcome]) for outcome in WAIT_OUTCOMES]
        yield build_gauge("statewright_waiters", "Requests that wait for an entity or instance", self._waits.count)
        yield build_counters("statewright_waits", "Waits that have ended", "result", ended)


class IdempotencyCollector(Collector):
    """Requests with an ``Idempotency-Key``."""

    def __init__(self, requests: IdempotentRequests, sweeper: IdempotencySweeper) -> None:
        self._requests = requests
        self._sweeper = sweeper

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        outcomes = [(outcome, self._requests.outcomes[outcome]) for outcome in OUTCOMES]
        yield build_counters("statewright_idempotency", "Requests with an Idempotency-Key", "outcome", outcomes)
        yield build_gauge("statewright_idempotency_records", "Stored records, as estimated", self._sweeper.stored)


class ProviderCollector(Collector):
    """What identity providers were asked for, and requests to other servers."""

    def __init__(self, identity: Identity | None, egress: Egress) -> None:
        self._identity = identity
        self._egress = egress

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        requests = [(("processes", outcome), count) for outcome, count in self._egress.outcomes.items()]
        if self._identity is not None:
            live = self._identity.live_providers
            yield build_gauge("oidc_registry_providers", "Active identity providers", live.count)
            yield build_counter("oidc_kid_cache_hit", "Tokens of providers whose key was known", live.hits)
            yield build_counter("oidc_kid_cache_miss", "Tokens whose key was not known", live.misses)
            faults = live.faults.items()
            yield build_counters("oidc_jwks_fetch_error", "Documents that could not be had", "outcome", faults)
            requests += [(("providers", outcome), count) for outcome, count in live.requests.items()]
        yield build_counter_table(
            "statewright_egress_requests", "Requests to other servers", ("purpose", "outcome"), requests
        )
