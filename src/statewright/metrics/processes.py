"""Instances of process languages, their steps, jobs and logs; what waits, and what members did."""

from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from statewright.compute.members import Dispatcher
from statewright.metrics.families import build_counter, build_counters, build_histogram, build_labelled_histograms
from statewright.services.ops.queue_watch import MAX_QUEUES, QueueWatch, select_queues
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
        ended = CounterMetricFamily(
            "statewright_process_instances_ended", "Ended instances", labels=["language", "outcome"]
        )
        entered = CounterMetricFamily(
            "statewright_process_nodes_entered", "Entries into nodes", labels=["language", "node_type"]
        )
        for language, metrics in known:
            for outcome, count in metrics.instances_ended.items():
                ended.add_metric([language, outcome], count)
            for node_type, count in metrics.nodes_executed.items():
                entered.add_metric([language, node_type], count)
        yield from (ended, entered)
        yield from self._collect_log_counts()
        retries = [(language, metrics.job_retries) for language, metrics in known]
        yield build_counters("statewright_process_job_retries", "Failed jobs that were put back", "language", retries)
        delayed = sum(metrics.delayed_retries for _, metrics in known)
        rests = [("true", delayed), ("false", sum(times for _, times in retries) - delayed)]
        yield build_counters("statewright_job_retries", "Failed jobs, by whether they rest first", "delayed", rests)
        pickup = {language: metrics.pickup for language, metrics in known}
        meaning = "From the creation of a job to its claim"
        yield build_labelled_histograms("statewright_process_pickup_seconds", meaning, "language", pickup)

    def _collect_log_counts(self) -> Iterator[Metric]:
        """Of languages whose instances have logs."""
        logged = CounterMetricFamily(
            "statewright_process_events", "Entries of logs of instances", labels=["language", "event", "status"]
        )
        pending = CounterMetricFamily(
            "statewright_process_pending_tokens", "Changes of what is not admitted", labels=["language", "change"]
        )
        for hosted in self._hosts.hosted:
            for labels, count in hosted.metrics.events.items():
                logged.add_metric([hosted.name, *labels], count)
            for change, count in hosted.metrics.pending_tokens.items():
                pending.add_metric([hosted.name, change], count)
        yield from (logged, pending)


class QueueCollector(Collector):
    """What waits, for whom, and what members did: the same numbers from all nodes, the calls apart."""

    def __init__(self, watch: QueueWatch, dispatcher: Dispatcher) -> None:
        self._watch = watch
        self._dispatcher = dispatcher

    def collect(self) -> Iterator[Metric]:
        """What was counted last."""
        labels = ["tenant", "kind", "queue"]
        depth = GaugeMetricFamily("statewright_queue_depth", "Jobs or callouts that wait", labels=labels)
        in_flight = GaugeMetricFamily("statewright_queue_in_flight", "Those under way", labels=labels)
        oldest = GaugeMetricFamily("statewright_queue_oldest_age_seconds", "Age of the oldest one", labels=labels)
        workers = GaugeMetricFamily("statewright_queue_workers", "Who can take them", labels=labels)
        for key, queue in select_queues(self._watch.queues):
            depth.add_metric(key, queue.depth)
            in_flight.add_metric(key, queue.in_flight)
            oldest.add_metric(key, (queue.oldest_age_us or 0) / 1_000_000)
            workers.add_metric(key, queue.workers)
        yield from (depth, in_flight, oldest, workers)
        unserved = GaugeMetricFamily("statewright_queues_without_worker", "That nobody serves", labels=["tenant"])
        for tenant, queues in islice(self._watch.queues.items(), MAX_QUEUES):
            unserved.add_metric([tenant], sum(queue.is_unserved for queue in queues))
        yield unserved
        calls = CounterMetricFamily("statewright_member_calls", "Callouts to members", labels=["tenant", "outcome"])
        for (tenant, outcome), count in self._dispatcher.calls.items():
            calls.add_metric([tenant, outcome], count)
        yield calls
