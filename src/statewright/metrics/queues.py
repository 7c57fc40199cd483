"""What waits, and what members did."""

from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from statewright.compute.dispatch import Dispatcher
from statewright.services.ops.queue_watch import MAX_QUEUES, QueueWatch, select_queues


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
