"""Ways through a graph: what is reachable, which edges lead back, and what is odd about it
(docs/reference/flows.md#cycles, docs/reference/flows.md#warnings).
"""

from collections.abc import Iterable

from statewright.flows.graph import Edge, FlowGraph, FlowNode


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
    line = node.line if isinstance(node.line, int) else 1
    column = node.column if isinstance(node.column, int) else 1
    return f"{line}:{column} {text}"
