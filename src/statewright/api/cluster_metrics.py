"""What a node knows of the others, and what it has asked of them, as metrics."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from statewright.cluster.node import ClusterNode


class ClusterState(Collector):
    """The metrics of one node of the cluster."""

    def __init__(self, node: ClusterNode) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        """What is so at this moment."""
        node = self._node
        yield GaugeMetricFamily(
            "statewright_cluster_peers", "Other nodes that are alive", value=len(node.picture.peers)
        )
        yield GaugeMetricFamily(
            "statewright_cluster_peer_members", "Calculation members of other nodes", value=node.picture.member_count
        )
        yield CounterMetricFamily(
            "statewright_callouts_forwarded", "Callouts sent to other nodes", value=node.callouts.forwarded
        )
        yield CounterMetricFamily(
            "statewright_requests_relayed", "HTTP callbacks answered by other nodes", value=node.relay.relayed
        )
