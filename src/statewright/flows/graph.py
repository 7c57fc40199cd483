"""A compiled flow: numbered nodes and the edges between them, and its form as JSON
(docs/reference/flows.md#the-compiled-form).

Ways through a graph: what is reachable, which edges lead back, and what is odd about it
(docs/reference/flows.md#cycles, docs/reference/flows.md#warnings).
"""

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
else:  # Any: msgspec, which reads graphs back, cannot resolve an alias that contains itself
    JsonValue, JsonObject = Any, dict[str, Any]

NodeKind: TypeAlias = Literal["start", "task", "fork", "join", "literal", "read", "write", "end"]
Edge: TypeAlias = tuple[int, int]

ENTITY: Final = "entity:"
"""The scheme of references to entities of the service."""
MAX_NODES: Final = 10_000
MAX_EDGES: Final = 100_000
"""A label with many producers and consumers stands for all edges between them."""


class FlowNode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node. Which members it has depends on its kind."""

    index: int
    kind: NodeKind
    name: str | UnsetType = UNSET
    """Of a task, as written."""
    base: str | UnsetType = UNSET
    """Of a task: what implements it, after all aliases."""
    parameters: JsonValue | UnsetType = UNSET
    """Of a task or resource: an object or an array."""
    uri: str | UnsetType = UNSET
    value: JsonValue | UnsetType = UNSET
    """Of a literal."""
    end: int | UnsetType = UNSET
    """Of a fork: its join."""
    fork: int | UnsetType = UNSET
    """Of a join."""
    merge: bool | UnsetType = UNSET
    """Whether an array that reaches it becomes one object."""
    iterate: bool | UnsetType = UNSET
    """Whether it runs once for each element of its input."""
    guard: str | None | UnsetType = UNSET
    doc: str | None | UnsetType = UNSET
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET

    @property
    def job_type(self) -> str:
        """Of a task, a read or a write: the type of its jobs."""
        if isinstance(self.base, str):
            return self.base
        scheme = "entity" if isinstance(self.uri, str) and self.uri.startswith(ENTITY) else "resource"
        return f"{scheme}:{self.kind}"

    @property
    def place(self) -> tuple[int, int]:
        """Line and column in the text."""
        return self.line if isinstance(self.line, int) else 1, self.column if isinstance(self.column, int) else 1

    @property
    def is_iterated(self) -> bool:
        return self.iterate is True

    @property
    def is_merged(self) -> bool:
        return self.merge is True

    @property
    def condition(self) -> str | None:
        """The guard, if there is one."""
        return self.guard if isinstance(self.guard, str) else None


class FlowGraph(Struct, frozen=True, kw_only=True, rename="camel", dict=True):
    """A compiled flow. Nodes stand at their numbers, edges are sorted."""

    name: str | None = None
    doc: str | None = None
    nodes: tuple[FlowNode, ...]
    edges: tuple[Edge, ...]
    back_edges: tuple[Edge, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def successors(self) -> list[list[int]]:
        """Of each node, ascending."""
        return _collect(len(self.nodes), self.edges, lambda edge: edge)

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Of each node, ascending."""
        return _collect(len(self.nodes), self.edges, lambda edge: (edge[1], edge[0]))


def _collect(size: int, edges: tuple[Edge, ...], turn: Callable[[Edge], Edge]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(size)]
    for edge in edges:
        here, there = turn(edge)
        found[here].append(there)
    return found


def graph_to_document(graph: FlowGraph) -> JsonObject:
    """The compiled form as JSON."""
    nodes: list[JsonValue] = [msgspec.to_builtins(node, builtin_types=(Decimal,)) for node in graph.nodes]
    edges: list[JsonValue] = [[source, target] for source, target in graph.edges]
    back_edges: list[JsonValue] = [[source, target] for source, target in graph.back_edges]
    warnings: list[JsonValue] = list(graph.warnings)
    return {
        "name": graph.name,
        "doc": graph.doc,
        "nodes": nodes,
        "edges": edges,
        "backEdges": back_edges,
        "warnings": warnings,
    }


def graph_from_document(document: JsonObject) -> FlowGraph:
    """The graph that :func:`graph_to_document` wrote. Raises ValueError for anything else."""
    try:
        graph = msgspec.convert(document, FlowGraph)
    except msgspec.ValidationError as defect:
        raise ValueError(f"compiled flow is damaged: {defect}") from defect
    size = len(graph.nodes)
    if any(node.index != place for place, node in enumerate(graph.nodes)):
        raise ValueError("compiled flow is damaged: nodes do not stand at their numbers")
    if any(not 0 <= end < size for edge in (*graph.edges, *graph.back_edges) for end in edge):
        raise ValueError("compiled flow is damaged: an edge leads to no node")
    return graph


def find_reachable(graph: FlowGraph) -> frozenset[int]:
    """The nodes that a path from the start leads to. Others take no part."""
    seen, rest = {0}, [0]
    while rest:
        for target in graph.successors[rest.pop()]:
            if target not in seen:
                seen.add(target)
                rest.append(target)
    return frozenset(seen)


def find_back_edges(graph: FlowGraph) -> tuple[Edge, ...]:
    """The edges to a node on the current path, depth first from the start, successors in ascending order."""
    back: list[Edge] = []
    seen, on_path = {0}, {0}
    path = [(0, iter(graph.successors[0]))]
    while path:
        node, targets = path[-1]
        target = next(targets, None)
        if target is None:
            path.pop()
            on_path.discard(node)
        elif target in on_path:
            back.append((node, target))
        elif target not in seen:
            seen.add(target)
            on_path.add(target)
            path.append((target, iter(graph.successors[target])))
    return tuple(sorted(back))


def find_endless_subflows(graph: FlowGraph) -> Iterator[FlowNode]:
    """The forks from which no path leads to their joins, in their order. A subflow within another is passed over: it
    is looked at by itself, and the outer one is not to blame for it.
    """
    for fork in graph.nodes:
        if isinstance(fork.end, int) and fork.end not in _find_within(graph, fork):
            yield fork


def _find_within(graph: FlowGraph, fork: FlowNode) -> set[int]:
    """What can be reached of a subflow, those within it passed over."""
    seen, rest = {fork.index}, [*graph.successors[fork.index]]
    while rest:
        index = rest.pop()
        if index not in seen and index != fork.end:
            inner = graph.nodes[index].end
            rest += graph.successors[inner if isinstance(inner, int) else index]
        seen.add(index)
    return seen


def list_warnings(graph: FlowGraph) -> Iterable[str]:
    """What is not wrong, but hardly meant."""
    reachable = find_reachable(graph)
    for node in graph.nodes:
        if node.index not in reachable and node.kind not in ("end", "join"):
            yield _warn(node, f"{describe(node)} cannot be reached from the start")
    for source, target in graph.back_edges:
        if not _can_be_skipped(graph, graph.nodes[source]):
            leading, entry = graph.nodes[source], graph.nodes[target]
            yield _warn(
                leading, f"the cycle from {describe(leading)} to {describe(entry)} has no exit: guard what leads back"
            )
    if graph.nodes[-1].index not in reachable:
        yield _warn(graph.nodes[-1], "no path leads from the start to the end")


def describe(node: FlowNode) -> str:
    """The node as messages name it."""
    match node.kind:
        case "task":
            return f"{node.name}.{node.index}"
        case "fork" | "join":
            return f"the subflow at node {node.index}"
        case "read" | "write":
            return f"<{node.uri}>"
        case kind:
            return f"the {kind}"


def _can_be_skipped(graph: FlowGraph, node: FlowNode) -> bool:
    entry = graph.nodes[node.fork] if isinstance(node.fork, int) else node
    return entry.condition is not None and not entry.is_iterated


def _warn(node: FlowNode, text: str) -> str:
    line, column = node.place
    return f"{line}:{column} {text}"
