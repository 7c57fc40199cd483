"""Instances of process languages, their steps, jobs and logs; what waits, and what members did."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from statewright.compute.members import Dispatcher
from statewright.metrics.families import (
    Table,
    build_counter,
    build_counter_table,
    build_counters,
    build_gauge_table,
    build_histogram,
    build_labelled_histograms,
)
from statewright.services.ops.queue_watch import MAX_QUEUES, QueueWatch, select_queues
from statewright.services.ops.queues import Queue
from statewright.services.processes.hosting import ProcessHosts, ProcessMetrics


class StepCollector(Collector):
    """What a process has counted since its start."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        metrics = self._metrics
        yield build_counter(
            "workflow_definitions_uploaded", "New versions of definitions", metrics.definitions_uploaded
        )
        yield build_counter("workflow_instances_started", "Instances", metrics.instances_started)
        yield build_counters(
            "workflow_instances_completed", "Ended instances", "outcome", metrics.instances_ended.items()
        )
        yield build_counters(
            "workflow_steps_executed", "Entries into steps", "step_type", metrics.nodes_executed.items()
        )
        yield build_counter("job_retries", "Failed jobs that were put back", metrics.job_retries)
        yield build_counter("job_lock_conflicts", "Advances that another process was faster with", metrics.conflicts)
        yield build_counter("engine_job_timeout", "Leases that ended", metrics.leases_expired)
        yield build_histogram(
            "engine_job_pickup_latency_seconds", "From the creation of a job to its claim", metrics.pickup
        )
        yield build_histogram("job_poll_latency_seconds", "Time of a claim", metrics.polls)
        yield build_labelled_histograms(
            "engine_db_transaction_duration_seconds", "Time to commit", "tx_type", metrics.transactions
        )
        yield build_labelled_histograms(
            "engine_db_lock_wait_duration_seconds", "Time to get at something", "operation", metrics.waits
        )


class LanguageCollector(Collector):
    """What a process has counted since its start, by process language: steps and flows alike."""

    def __init__(self, hosts: ProcessHosts) -> None:
        self._hosts = hosts

    def collect(self) -> Iterator[Metric]:
        """What was counted so far."""
        known = [(hosted.name, hosted.metrics) for hosted in self._hosts.hosted]
        started = [(language, metrics.instances_started) for language, metrics in known]
        yield build_counters("statewright_process_instances_started", "Instances", "language", started)
        ended = self._list_counts(lambda told: told.instances_ended)
        yield build_counter_table(
            "statewright_process_instances_ended", "Ended instances", ("language", "outcome"), ended
        )
        entered = self._list_counts(lambda told: told.nodes_executed)
        yield build_counter_table(
            "statewright_process_nodes_entered", "Entries into nodes", ("language", "node_type"), entered
        )
        logged = [((name, *key), count) for name, told in known for key, count in told.events.items()]
        yield build_counter_table(
            "statewright_process_events", "Entries of logs of instances", ("language", "event", "status"), logged
        )
        pending = self._list_counts(lambda told: told.pending_tokens)
        yield build_counter_table(
            "statewright_process_pending_tokens", "Changes of what is not admitted", ("language", "change"), pending
        )
        retries = [(language, metrics.job_retries) for language, metrics in known]
        yield build_counters("statewright_process_job_retries", "Failed jobs that were put back", "language", retries)
        delayed = sum(metrics.delayed_retries for _, metrics in known)
        rests = [("true", delayed), ("false", sum(times for _, times in retries) - delayed)]
        yield build_counters("statewright_job_retries", "Failed jobs, by whether they rest first", "delayed", rests)
        pickup = {language: metrics.pickup for language, metrics in known}
        meaning = "From the creation of a job to its claim"
        yield build_labelled_histograms("statewright_process_pickup_seconds", meaning, "language", pickup)

    def _list_counts(self, find: Callable[[ProcessMetrics], Counter[str]]) -> Table:
        """Counts of all languages by language and key."""
        return [((each.name, key), n) for each in self._hosts.hosted for key, n in find(each.metrics).items()]


QUEUE_GAUGES: Final[Sequence[tuple[str, str, Callable[[Queue], float]]]] = (
    ("statewright_queue_depth", "Jobs or callouts that wait", lambda queue: queue.depth),
    ("statewright_queue_in_flight", "Those under way", lambda queue: queue.in_flight),
    (
        "statewright_queue_oldest_age_seconds",
        "Age of the oldest one",
        lambda queue: (queue.oldest_age_us or 0) / 1_000_000,
    ),
    ("statewright_queue_workers", "Who can take them", lambda queue: queue.workers),
)


class QueueCollector(Collector):
    """What waits, for whom, and what members did: the same numbers from all nodes, the calls apart."""

    def __init__(self, watch: QueueWatch, dispatcher: Dispatcher) -> None:
        self._watch = watch
        self._dispatcher = dispatcher

    def collect(self) -> Iterator[Metric]:
        """What was counted last."""
        queues = select_queues(self._watch.queues)
        for name, meaning, measure in QUEUE_GAUGES:
            numbers = [(key, measure(queue)) for key, queue in queues]
            yield build_gauge_table(name, meaning, ("tenant", "kind", "queue"), numbers)
        by_tenant = islice(self._watch.queues.items(), MAX_QUEUES)
        unserved = [((tenant,), sum(queue.is_unserved for queue in of_tenant)) for tenant, of_tenant in by_tenant]
        yield build_gauge_table("statewright_queues_without_worker", "That nobody serves", ("tenant",), unserved)
        yield build_counter_table(
            "statewright_member_calls", "Callouts to members", ("tenant", "outcome"), self._dispatcher.calls.items()
        )
