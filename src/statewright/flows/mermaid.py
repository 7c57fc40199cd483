"""Diagrams of flows (docs/reference/flows.md#diagrams)."""

from collections.abc import Iterator, Mapping
from typing import Literal

from statewright.flows.graph import Graph, Node

NodeStatus = Literal["active", "completed", "skipped", "failed"]

_STYLES: Mapping[NodeStatus, str] = {
    "active": "fill:#fde68a,color:#000",
    "completed": "fill:#bbf7d0,color:#000",
    "skipped": "fill:#e5e7eb,color:#000",
    "failed": "fill:#fecaca,color:#000",
}


def draw_flow(
    graph: Graph,
    *,
    is_horizontal: bool = True,
    with_docs: bool = False,
    statuses: Mapping[int, NodeStatus] | None = None,
) -> str:
    """A Mermaid state diagram; with ``statuses`` of an instance's nodes, coloured by them."""
    return "".join(f"{line}\n" for line in _iter_lines(graph, is_horizontal, with_docs, statuses or {}))


def _iter_lines(
    graph: Graph, is_horizontal: bool, with_docs: bool, statuses: Mapping[int, NodeStatus]
) -> Iterator[str]:
    yield "stateDiagram-v2"
    if is_horizontal:
        yield "  direction LR"
    for node in graph.nodes:
        yield from _describe(node)
    documented: set[int] = set()
    for source, target in graph.edges:
        node = graph.nodes[target]
        each = " : each" if node.iterate else ""
        yield f"  {_identify(graph.nodes[source])}-->{_identify(node)}{each}"
        if with_docs and node.doc and target not in documented:
            documented.add(target)
            yield f"  note left of {_identify(node)}"
            yield f"    {node.doc.strip().partition(chr(10))[0].rstrip()}"
            yield "  end note"
    for status, style in _STYLES.items():
        members = [_identify(graph.nodes[index]) for index, has in sorted(statuses.items()) if has == status]
        if members:
            yield f"  classDef {status} {style}"
            yield f"  class {','.join(members)} {status}"


def _describe(node: Node) -> Iterator[str]:
    if node.kind == "task":
        yield f'  state "{node.name}" as {_identify(node)}'
    elif node.kind in {"fork", "join"}:
        yield f"  state {_identify(node)} <<{node.kind}>>"
    elif node.kind in {"read", "write"}:
        yield f'  state "<{_escape(node.uri)}>" as {_identify(node)}'
    elif node.kind == "literal":
        yield f'  state "literal" as {_identify(node)}'


def _identify(node: Node) -> str:
    if node.kind == "task":
        return f"{node.name.replace(':', '_COLON_').replace('-', '_HYPHEN_')}.{node.index}"
    names = {
        "fork": f"_start_{node.index}_",
        "join": f"_end_{node.index}_",
        "literal": f"literal.{node.index}",
        "read": f"resource.{node.index}",
        "write": f"resource.{node.index}",
    }
    return names.get(node.kind, "[*]")


def _escape(text: str) -> str:
    """A resource may hold what would end its name."""
    return text.replace('"', "#quot;")
