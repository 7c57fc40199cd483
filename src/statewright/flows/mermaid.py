"""Flows as Mermaid state diagrams (docs/reference/flows.md#diagrams)."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from statewright.flows.definition import FlowProcess
from statewright.flows.graph import FlowGraph, FlowNode, graph_to_document
from statewright.flows.instance import FlowInstance
from statewright.jsonval.values import JsonObject
from statewright.processes.changes import ExecutionStatus
from statewright.processes.language import Drawing, escape_label

STYLES: Final[Mapping[ExecutionStatus, tuple[str, str]]] = {
    "RUNNING": ("running", "fill:#fef3c7,stroke:#d97706,color:#000"),
    "COMPLETED": ("completed", "fill:#dcfce7,stroke:#16a34a,color:#000"),
    "FAILED": ("failed", "fill:#fee2e2,stroke:#dc2626,color:#000"),
    "BYPASSED": ("skipped", "fill:#f3f4f6,stroke:#9ca3af,color:#000"),
    "SKIPPED": ("withdrawn", "fill:#e5e7eb,stroke:#6b7280,color:#000"),
}
"""The class and the colours of nodes by what became of them last."""


def draw_process(process: FlowProcess, wanted: Drawing) -> "str | JsonObject":
    """A definition, as a diagram or as the graph that it is."""
    graph = process.flow.graph
    return graph_to_document(graph) if wanted.as_graph else _draw(graph, wanted)


def draw_instance(process: FlowProcess, _: FlowInstance, known: Mapping[str, ExecutionStatus], wanted: Drawing) -> str:
    """An instance: each node that was entered has the colours of its last status."""
    statuses: dict[int, ExecutionStatus] = {int(node): status for node, status in known.items()}
    used = set(statuses.values())
    classes = [f"  classDef {name} {style}\n" for status, (name, style) in STYLES.items() if status in used]
    return "".join([_draw(process.flow.graph, wanted, statuses), *classes])


def _draw(graph: FlowGraph, wanted: Drawing, statuses: Mapping[int, ExecutionStatus] | None = None) -> str:
    return render_diagram(graph, statuses, is_vertical=wanted.is_vertical, with_docs=wanted.with_docs)


def render_diagram(
    graph: FlowGraph,
    statuses: Mapping[int, ExecutionStatus] | None = None,
    *,
    is_vertical: bool = False,
    with_docs: bool = False,
) -> str:
    """The diagram, a line for each node and each edge. ``with_docs``: notes with the first lines of documentation.

    Of nodes that have a status the first edge that leads there names its class: Mermaid's ``class`` knows no ids with
    a dot, as the published diagrams of the language have them.
    """
    lines = ["stateDiagram-v2"]
    if not is_vertical:
        lines.append("  direction LR")
    lines += [line for node in graph.nodes for line in _declare(node)]
    rest: dict[int, ExecutionStatus] = {} if statuses is None else {**statuses}
    noted: set[int] = set()
    for source, target in graph.edges:
        node = graph.nodes[target]
        status = None if node.kind == "end" else rest.pop(target, None)
        class_ = "" if status is None else f":::{STYLES[status][0]}"
        each = " : each" if node.is_iterated else ""
        lines.append(f"  {_name(graph.nodes[source])}-->{_name(node)}{class_}{each}")
        if with_docs and node.kind == "task" and isinstance(node.doc, str) and target not in noted:
            noted.add(target)
            lines += _annotate(node, node.doc)
    return "\n".join(lines) + "\n"


def _declare(node: FlowNode) -> Iterator[str]:
    match node.kind:
        case "task":
            yield f'  state "{node.name}" as {_name(node)}'
        case "fork":
            yield f"  state {_name(node)} <<fork>>"
        case "join":
            yield f"  state {_name(node)} <<join>>"
        case "read" | "write":
            yield f'  state "{escape_label(f"<{node.uri}>")}" as {_name(node)}'
        case "literal":
            yield f'  state "literal" as {_name(node)}'
        case _:
            pass


def _annotate(node: FlowNode, doc: str) -> Iterator[str]:
    first = doc.strip().split("\n")[0].strip()
    if first:
        yield f"  note left of {_name(node)}"
        yield f"    {_NOTE_END.sub('#32;', escape_label(first))}"
        yield "  end note"


def _name(node: FlowNode) -> str:
    match node.kind:
        case "task":
            name = str(node.name).replace(":", "_COLON_").replace("-", "_HYPHEN_")
            return f"{'_' if _KEYWORD.match(name) else ''}{name}.{node.index}"
        case "fork":
            return f"_start_{node.index}_"
        case "join":
            return f"_end_{node.index}_"
        case "read" | "write":
            return f"resource.{node.index}"
        case "literal":
            return f"literal.{node.index}"
        case _:
            return "[*]"


_KEYWORD: Final = re.compile(r"(default|click|href)\b", re.ASCII | re.IGNORECASE)
"""What Mermaid takes for a word of its own, whatever follows."""
_NOTE_END: Final = re.compile(r"(?<=end) (?=note)", re.IGNORECASE)
