"""Graphs as JSON documents, stable across versions (docs/reference/flows.md#the-compiled-form)."""

from typing import Any, cast

from statewright.flows.errors import FlowWarning, Position
from statewright.flows.graph import Graph, Node, NodeKind
from statewright.jsonval.values import JsonObject, JsonValue


def graph_to_document(graph: Graph) -> JsonObject:
    """The compiled form of a flow."""
    document: JsonObject = {
        "name": graph.name,
        "doc": graph.doc,
        "nodes": [_node_to_document(node) for node in graph.nodes],
        "edges": [[source, target] for source, target in graph.edges],
        "backEdges": [[source, target] for source, target in sorted(graph.back_edges)],
        "warnings": [warning_to_document(warning) for warning in graph.warnings],
    }
    if graph.parameters is not None:
        document["parameters"] = graph.parameters
    return document


def warning_to_document(warning: FlowWarning) -> JsonObject:
    """A warning."""
    position = warning.position
    return {"code": warning.code, "line": position.line, "column": position.column, "text": warning.text}


def graph_from_document(document: JsonObject) -> Graph:
    """The graph of a document that :func:`graph_to_document` has made."""
    stored = cast("dict[str, Any]", document)  # Any: it is our own, and was validated when it was made
    return Graph(
        nodes=tuple(_node_from_document(node) for node in stored["nodes"]),
        edges=tuple((int(source), int(target)) for source, target in stored["edges"]),
        back_edges=frozenset((int(source), int(target)) for source, target in stored["backEdges"]),
        warnings=tuple(
            FlowWarning(each["code"], Position(int(each["line"]), int(each["column"])), each["text"])
            for each in stored["warnings"]
        ),
        name=stored["name"],
        doc=stored["doc"],
        parameters=stored.get("parameters"),
    )


def _node_to_document(node: Node) -> JsonObject:
    document: JsonObject = {"index": node.index, "kind": node.kind}
    if node.kind == "task":
        document |= {"name": node.name, "base": node.base, "parameters": node.parameters, "doc": node.doc}
    if node.kind in {"read", "write"}:
        document |= {"uri": node.uri, "parameters": node.parameters}
    if node.kind == "literal":
        document["value"] = node.value
    if node.kind in {"task", "fork"}:
        document |= {"iterate": node.iterate, "guard": node.guard}
    if node.kind in {"task", "fork", "join", "write", "end"}:
        document["merge"] = node.merge
    if node.kind == "fork":
        document["end"] = node.partner
    if node.kind == "join":
        document["fork"] = node.partner
    if node.position is not None:
        document |= {"line": node.position.line, "column": node.position.column}
    return document


def _node_from_document(stored: dict[str, Any]) -> Node:  # Any: as above
    kind: NodeKind = stored["kind"]
    return Node(
        index=int(stored["index"]),
        kind=kind,
        position=Position(int(stored["line"]), int(stored["column"])) if "line" in stored else None,
        name=stored.get("name", ""),
        base=stored.get("base", ""),
        parameters=cast("JsonValue", stored.get("parameters")),
        merge=stored.get("merge", False),
        iterate=stored.get("iterate", False),
        guard=stored.get("guard"),
        doc=stored.get("doc"),
        uri=stored.get("uri", ""),
        value=cast("JsonValue", stored.get("value")),
        partner=int(stored.get("end", stored.get("fork", 0))),
    )
