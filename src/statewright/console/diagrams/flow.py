"""Compiled flows as pictures (docs/reference/flows.md#the-graph)."""

from collections.abc import Mapping
from typing import Final

from statewright.console.diagrams.drawing import Drawing, Edge, Node, Shape
from statewright.console.diagrams.reading import get_list, get_objects, get_text
from statewright.jsonval.values import JsonObject, JsonValue

_SHAPES: Final[Mapping[str, Shape]] = {"start": "start", "end": "end", "fork": "bar", "join": "bar"}
_KINDS: Final = frozenset(("start", "end", "fork", "join", "task", "read", "write", "literal"))


def draw_flow(graph: JsonValue) -> Drawing:
    """The picture of a compiled flow, its nodes at their numbers."""
    documents = get_objects(graph, "nodes")
    nodes = tuple(map(_draw_node, documents, range(len(documents))))
    backwards = {pair for each in get_list(graph, "backEdges") if (pair := _read_pair(each)) is not None}
    pairs = [pair for each in get_list(graph, "edges") if (pair := _read_pair(each)) is not None]
    edges = tuple(
        Edge(
            source=source,
            target=target,
            name=f"{nodes[source].name} → {nodes[target].name}",
            label="each" if documents[target].get("iterate") is True else "",
            classes=("back",) if (source, target) in backwards else (),
            href=f"#node-{source}",
        )
        for source, target in dict.fromkeys([*pairs, *backwards])
        if 0 <= source < len(nodes) and 0 <= target < len(nodes)
    )
    return Drawing(nodes=nodes, edges=edges, start=0 if nodes else None, has_marks=True)


def _read_pair(value: JsonValue) -> tuple[int, int] | None:
    match value:
        case [int(source), int(target)]:
            return source, target
        case _:
            return None


def _draw_node(document: JsonObject, number: int) -> Node:
    kind = get_text(document, "kind")
    name = get_text(document, "name") or get_text(document, "uri") or kind
    guard = "◇ " if get_text(document, "guard") else ""
    return Node(
        name=name,
        label=f"{guard}{name}" if kind not in ("start", "end", "fork", "join") else "",
        shape=_SHAPES.get(kind, "box"),
        classes=(kind if kind in _KINDS else "unknown",),
        href=f"#node-{number}",
    )
