"""A graph to a net (docs/reference/flows.md#at-run-time)."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from statewright.flows.graph import FlowGraph, FlowNode, find_reachable
from statewright.flows.guards import Guard
from statewright.flows.language import FlowLanguage
from statewright.net import (
    DRAIN,
    AllInputs,
    AnyInput,
    Arc,
    Body,
    Language,
    Many,
    Net,
    NoActivity,
    Node,
    NodeId,
    Routing,
    Task,
    conclude_by_language,
)
from statewright.net.nodes import Activity, Arrival
from statewright.processes.changes import JobPolicy

MAX_VISITS: Final = 1_000
"""How often a node can be activated, in an instance or in the run of one element."""
MAX_CONCURRENT_ITERATIONS: Final = 100
"""How many elements of an iteration run at once."""


_WITH_JOBS: Final = ("task", "read", "write")
"""Kinds of nodes."""


class FlowLimits(Struct, frozen=True, kw_only=True):
    """What can be set for the flows of a service."""

    max_visits: int = MAX_VISITS
    iteration: int | None = MAX_CONCURRENT_ITERATIONS
    retries: int = 0
    """How often a task that failed can be tried again."""


class Flow(Struct, frozen=True, kw_only=True):
    """A flow ready to run; immutable, shared by all its instances."""

    graph: FlowGraph
    net: Net
    policies: dict[NodeId, JobPolicy]
    """Of the nodes that have jobs: tasks, reads and writes."""
    columns: dict[NodeId, int]
    """Of the joins of iterated subflows whose result has a column for each incoming edge: how many there are."""
    guards: dict[str, Guard] = field(default_factory=dict[str, Guard])
    """Those that were evaluated so far, by their texts: the first instance that comes to one parses it for all."""

    def create_language(self, turn_elements: int | None = None) -> Language:
        """The language for one operation; one that computes more than ``turn_elements`` raises ``TurnExceeded``."""
        return FlowLanguage(self.graph, self.columns, self.guards, turn_elements)


def to_node_id(index: int) -> NodeId:
    """The node of a net for a node of a graph."""
    return NodeId(str(index))


def compile_graph(
    graph: FlowGraph,
    limits: FlowLimits = FlowLimits(),  # noqa: B008 - a constant
    find_policy: Callable[[FlowNode], JobPolicy] | None = None,
) -> Flow:
    """The net of a graph. Nodes that cannot be reached take no part. ``find_policy``: of a node that has jobs."""
    compiler = _Compiler(graph, limits, find_policy or (lambda _: JobPolicy(retries=limits.retries)))
    nodes = {to_node_id(index): compiler.compile_node(graph.nodes[index]) for index in sorted(compiler.reachable)}
    net = Net(
        nodes=nodes,
        entries=(to_node_id(0),),
        on_failure=DRAIN,
        ending=conclude_by_language,
        keeps_order=True,
        max_visits=limits.max_visits,
        max_entries=len(nodes) * (limits.max_visits + 1) * 10,
    )
    columns = {to_node_id(node.index): compiler.count_columns(node) for node in graph.nodes if node.kind == "join"}
    columns = {node: count for node, count in columns.items() if count > 1}
    return Flow(graph=graph, net=net, policies=compiler.policies, columns=columns)


class _Compiler:
    def __init__(self, graph: FlowGraph, limits: FlowLimits, find_policy: Callable[[FlowNode], JobPolicy]) -> None:
        self._graph = graph
        self._limits = limits
        self.reachable = find_reachable(graph)
        self.policies = {
            to_node_id(index): find_policy(graph.nodes[index])
            for index in sorted(self.reachable)
            if graph.nodes[index].kind in _WITH_JOBS
        }
        self._back = frozenset(graph.back_edges)

    def compile_node(self, node: FlowNode) -> Node:
        """A node, with one activity at a time."""
        policy = self.policies.get(to_node_id(node.index))
        return Node(
            id=to_node_id(node.index),
            arrival=self._compile_arrival(node.index),
            activity=self._compile_activity(node, 0 if policy is None else policy.retries),
            time_limit=None if policy is None else policy.time_limit,
            skip_unless=node.condition,
            routing=Routing(mode="ALL", arcs=self._compile_arcs(node)),
            concurrency=1 if policy is not None or node.is_iterated else None,
            yields=node.kind == "end" or self._is_iterated_join(node),
        )

    def count_columns(self, node: FlowNode) -> int:
        """How many columns the result of an iterated subflow has; 0 for any other node."""
        if not self._is_iterated_join(node) or node.is_merged:
            return 0
        return len(self._list_forward_sources(node.index))

    def _is_iterated_join(self, node: FlowNode) -> bool:
        return isinstance(node.fork, int) and self._graph.nodes[node.fork].is_iterated

    def _list_forward_sources(self, index: int) -> tuple[int, ...]:
        sources = self._graph.predecessors[index]
        return tuple(source for source in sources if source in self.reachable and (source, index) not in self._back)

    def _compile_arrival(self, index: int) -> Arrival:
        """One value from each forward edge; one that comes along a back edge suffices."""
        forward = self._list_forward_sources(index)
        if len(forward) < 2:
            return AnyInput()
        back = [source for source in self._graph.predecessors[index] if (source, index) in self._back]
        return AllInputs((tuple(map(to_node_id, forward)), *((to_node_id(source),) for source in back)))

    def _compile_activity(self, node: FlowNode, retries: int) -> Activity:
        if node.kind == "fork" and node.is_iterated:
            entries = tuple(map(to_node_id, self._graph.successors[node.index]))
            return Many(Body(entries), self._limits.iteration)
        if node.kind in ("read", "write"):
            return Task(node.job_type, retries)
        if node.kind != "task":
            return NoActivity()
        task = Task(str(node.base), retries)
        return Many(task, self._limits.iteration) if node.is_iterated else task

    def _compile_arcs(self, node: FlowNode) -> tuple[Arc, ...]:
        """Nothing skipped goes back. A skipped subflow goes on where its join does, and an iterated one always."""
        index, graph = node.index, self._graph
        if self._is_iterated_join(node):
            return ()
        if node.kind != "fork" or not isinstance(node.end, int):
            return tuple(self._compile_arc(index, target) for target in graph.successors[index])
        # from the join of a part that nothing leads out of, no path goes on: what follows takes no part either
        onward = tuple(
            self._compile_arc(node.end, target, leaves=index)
            for target in graph.successors[node.end]
            if node.end in self.reachable
        )
        if node.is_iterated:
            return onward
        into = tuple(Arc(to_node_id(target), on=("DONE",)) for target in graph.successors[index])
        if node.condition is None:
            return into
        skipping = tuple(Arc(arc.target, on=("SKIPPED",), source=arc.source) for arc in onward if "SKIPPED" in arc.on)
        return (*into, *skipping)

    def _compile_arc(self, source: int, target: int, leaves: int | None = None) -> Arc:
        return Arc(
            to_node_id(target),
            on=("DONE",) if self._is_back(source, target) else ("DONE", "SKIPPED"),
            source=None if leaves is None else to_node_id(source),
        )

    def _is_back(self, source: int, target: int) -> bool:
        return (source, target) in self._back
