"""The graph of a flow: what its text means, ready to run.

Nodes are numbered from 0, the start, in the order in which they are written (docs/reference/flows.md#the-graph). Edges
lead from one number to another.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.flows.errors import FlowWarning, Position
from statewright.jsonval.values import JsonValue

NodeKind: TypeAlias = Literal["start", "task", "fork", "join", "literal", "read", "write", "end"]
Edge: TypeAlias = tuple[int, int]


class Node(Struct, frozen=True, kw_only=True):
    """A node of a graph.

    ``name`` is what was written and ``base`` what does the work, of a task; ``uri`` is a resource's, ``value`` a
    literal's. ``partner`` is the join of a fork, and the fork of a join. ``merge``: the input becomes one object.
    ``iterate``: the step runs once for each element of its input.
    """

    index: int
    kind: NodeKind
    position: Position | None = None
    name: str = ""
    base: str = ""
    parameters: JsonValue = None
    merge: bool = False
    iterate: bool = False
    guard: str | None = None
    doc: str | None = None
    uri: str = ""
    value: JsonValue = None
    partner: int = 0


class Graph(Struct, frozen=True, kw_only=True, dict=True):
    """A compiled flow; ``back_edges`` are those that lead back to a node on the way to them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    back_edges: frozenset[Edge] = frozenset()
    warnings: tuple[FlowWarning, ...] = ()
    name: str | None = None
    doc: str | None = None
    parameters: JsonValue = None

    @cached_property
    def successors(self) -> Mapping[int, Sequence[int]]:
        """The targets of the edges of each node, ascending."""
        return _group(self.edges)

    @cached_property
    def predecessors(self) -> Mapping[int, Sequence[int]]:
        """The sources of the edges into each node, ascending."""
        return _group([(target, source) for source, target in self.edges])

    @cached_property
    def reachable(self) -> frozenset[int]:
        """The nodes that a value can come to from the start. No others take part in a run."""
        return find_reachable(self.successors, 0)


def find_reachable(successors: Mapping[int, Sequence[int]], start: int) -> frozenset[int]:
    """The nodes that can be reached from one, itself included."""
    seen, left = {start}, [start]
    while left:
        for target in successors.get(left.pop(), ()):
            if target not in seen:
                seen.add(target)
                left.append(target)
    return frozenset(seen)


def find_back_edges(successors: Mapping[int, Sequence[int]]) -> frozenset[Edge]:
    """The edges to a node on the current path, when nodes are visited depth first from the start, ascending."""
    back: set[Edge] = set()
    on_path, seen = {0}, {0}
    path = [(0, iter(successors.get(0, ())))]
    while path:
        node, left = path[-1]
        for target in left:
            if target in on_path:
                back.add((node, target))
            elif target not in seen:
                seen.add(target)
                on_path.add(target)
                path.append((target, iter(successors.get(target, ()))))
                break
        else:
            path.pop()
            on_path.discard(node)
    return frozenset(back)


def find_cycles(nodes: frozenset[int], successors: Mapping[int, Sequence[int]]) -> list[frozenset[int]]:
    """The largest sets of nodes in which each can be reached from each other, and itself (Tarjan's algorithm)."""
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    pending: list[int] = []
    is_pending: set[int] = set()
    found: list[frozenset[int]] = []
    for root in sorted(nodes):
        if root in order:
            continue
        path = [(root, iter(successors.get(root, ())))]
        order[root] = lowest[root] = len(order)
        pending.append(root)
        is_pending.add(root)
        while path:
            node, left = path[-1]
            for target in left:
                if target not in order:
                    order[target] = lowest[target] = len(order)
                    pending.append(target)
                    is_pending.add(target)
                    path.append((target, iter(successors.get(target, ()))))
                    break
                if target in is_pending:
                    lowest[node] = min(lowest[node], order[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    component = _pop_until(node, pending)
                    is_pending -= component
                    if len(component) > 1 or node in successors.get(node, ()):
                        found.append(component)
    return found


def _pop_until(node: int, pending: list[int]) -> frozenset[int]:
    component = set()
    while True:
        popped = pending.pop()
        component.add(popped)
        if popped == node:
            return frozenset(component)


def _group(edges: Sequence[Edge]) -> Mapping[int, Sequence[int]]:
    targets: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in sorted(edges):
        targets[source].append(target)
    return dict(targets)
