"""A definition of whatever process language as a picture with a table that says the same, and what is put on it.

Compiled flows as pictures (docs/reference/flows.md#the-graph).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from statewright.console.calls import get_list, get_object, get_objects, get_text
from statewright.console.diagrams.drawing import Drawing, Edge, Mark, Marks, Node, Shape
from statewright.console.diagrams.petri import PlaybookSource, Tokens, draw_playbook, mark_tokens
from statewright.console.diagrams.steps import draw_steps
from statewright.jsonval.codec import encode
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


LanguageName: TypeAlias = Literal["steps", "flows", "playbooks"]
"""As the operations API calls them."""

MAX_DETAIL_CHARS: Final = 500


class Way(Struct, frozen=True):
    """Where a token can go: when, to what, and the row of that."""

    label: str
    target: str
    ref: str


class NodeRow(Struct, frozen=True, kw_only=True):
    """A line of the table. ``ref`` is its id in the page, ``lines`` the first and the last in the source text."""

    ref: str
    key: str
    """By which instances call it."""
    name: str
    kind: str
    detail: str = ""
    job_type: str = ""
    ways: tuple[Way, ...] = ()
    lines: tuple[int, int] | None = None


class ProcessGraph(Struct, frozen=True, kw_only=True):
    """The picture and its table. ``numbers``: the node of each key; of playbooks the transition."""

    language: LanguageName
    drawing: Drawing
    rows: tuple[NodeRow, ...]
    numbers: Mapping[str, int]
    document: JsonObject


class NodeState(Struct, frozen=True, kw_only=True):
    """What is at a node: tokens under way, tokens that wait before it, those denied, and how it ended last."""

    running: int = 0
    waiting: int = 0
    denied: int = 0
    ended: Literal["", "done", "failed", "skipped"] = ""


def read_steps(definition: JsonObject) -> ProcessGraph:
    """The graph of a definition of JSON steps."""
    drawing, steps = draw_steps(definition), get_objects(definition, "steps")
    return ProcessGraph(
        language="steps",
        drawing=drawing,
        rows=_build_rows(drawing, steps, _describe_step, first=1),
        numbers=_number([get_text(step, "id") for step in steps], lambda place: place + 1),
        document=definition,
    )


def read_flow(graph: JsonObject) -> ProcessGraph:
    """The graph of a compiled flow."""
    drawing, nodes = draw_flow(graph), get_objects(graph, "nodes")
    return ProcessGraph(
        language="flows",
        drawing=drawing,
        rows=_build_rows(drawing, nodes, _describe_node, first=0),
        numbers={str(number): number for number in range(len(nodes))},
        document=graph,
    )


def read_playbook_net(source: PlaybookSource) -> ProcessGraph:
    """The net of a playbook."""
    document = source.document
    drawing, steps = draw_playbook(document), get_objects(document, "workflow")
    rows = [
        NodeRow(
            ref=f"step-{place}",
            key=get_text(step, "step"),
            name=get_text(step, "step"),
            kind=_describe_pipeline(step),
            detail=_describe_admission(step),
            ways=_list_ways(drawing, 2 * place + 1),
            lines=source.lines[place] if place < len(source.lines) else None,
        )
        for place, step in enumerate(steps)
    ]
    return ProcessGraph(
        language="playbooks",
        drawing=drawing,
        rows=tuple(rows),
        numbers=_number([row.key for row in rows], lambda place: 2 * place + 1),
        document=document,
    )


def mark_process(graph: ProcessGraph, states: Mapping[str, NodeState]) -> Marks:
    """What is put on the picture, by the keys of its nodes."""
    nodes: dict[int, Mark] = {}
    if graph.language == "playbooks":
        tokens = {key: Tokens(waiting=each.waiting, denied=each.denied) for key, each in states.items()}
        nodes |= mark_tokens(graph.document, tokens).nodes
    for key, state in states.items():
        number, mark = graph.numbers.get(key), _mark_node(state)
        if number is not None and mark is not None:
            nodes[number] = mark
    return Marks(nodes=nodes)


def _mark_node(state: NodeState) -> Mark | None:
    if state.running:
        return Mark(classes=("active",), note=f"▶ {state.running}", words=f"{state.running} under way")
    if state.ended == "failed":
        return Mark(classes=("failed",), note="■ failed", words="failed")
    if state.ended:
        return Mark(classes=("done",), note="✓" if state.ended == "done" else "skipped", words=state.ended)
    return None


def _number(keys: Sequence[str], place: Callable[[int], int]) -> dict[str, int]:
    return {key: place(number) for number, key in reversed(list(enumerate(keys)))}


def _build_rows(
    drawing: Drawing, documents: Sequence[JsonObject], describe: "_Describe", *, first: int
) -> tuple[NodeRow, ...]:
    ways = _index_ways(drawing)
    return tuple(describe(document, place, ways.get(place + first, ())) for place, document in enumerate(documents))


_Describe: TypeAlias = "Callable[[JsonObject, int, tuple[Way, ...]], NodeRow]"


def _index_ways(drawing: Drawing) -> dict[int, tuple[Way, ...]]:
    found: dict[int, list[Way]] = {}
    for edge in drawing.edges:
        target = drawing.nodes[edge.target]
        found.setdefault(edge.source, []).append(Way(edge.label, target.name, target.href.removeprefix("#")))
    return {source: tuple(ways) for source, ways in found.items()}


def _list_ways(drawing: Drawing, source: int) -> tuple[Way, ...]:
    ways: list[Way] = []
    for edge in drawing.edges:
        if edge.source == source:
            place = drawing.nodes[edge.target]
            step = drawing.nodes[edge.target + 1]
            ways.append(Way(edge.label, step.name, place.href.removeprefix("#")))
    return tuple(ways)


def _describe_step(step: JsonObject, place: int, ways: tuple[Way, ...]) -> NodeRow:
    name = get_text(step, "name")
    return NodeRow(
        ref=f"step-{place}",
        key=get_text(step, "id"),
        name=get_text(step, "id"),
        kind=get_text(step, "type").replace("_", " ").lower(),
        detail=name if name != get_text(step, "id") else "",
        job_type=get_text(step, "jobType"),
        ways=ways,
    )


def _describe_node(node: JsonObject, place: int, ways: tuple[Way, ...]) -> NodeRow:
    kind, line = get_text(node, "kind"), node.get("line")
    parts = [f"if {guard}"] if (guard := get_text(node, "guard")) else []
    parts += ["for each element"] if node.get("iterate") is True else []
    parts += [_cut(node.get("parameters"))] if node.get("parameters") else []
    return NodeRow(
        ref=f"node-{place}",
        key=str(place),
        name=get_text(node, "name") or get_text(node, "uri") or kind,
        kind=kind,
        detail=", ".join(parts),
        job_type=get_text(node, "base") if kind == "task" else f"resource:{kind}" if kind in ("read", "write") else "",
        ways=ways,
        lines=(line, line) if isinstance(line, int) else None,
    )


def _describe_pipeline(step: JsonObject) -> str:
    tool = step.get("tool")
    tasks = [tool] if isinstance(tool, dict) else get_list(step, "tool")
    kinds = list(dict.fromkeys(kind for task in tasks if (kind := get_text(task, "kind"))))
    return ", ".join([*(["loop"] if isinstance(step.get("loop"), dict) else []), *kinds]) or "no task"


def _describe_admission(step: JsonObject) -> str:
    """The conditions under which tokens are admitted."""
    rules = get_objects(get_object(get_object(get_object(step, "spec"), "policy"), "admit"), "rules")
    conditions = [when for rule in rules if (when := get_text(rule, "when"))]
    return f"admits tokens when {' or '.join(conditions)}"[:MAX_DETAIL_CHARS] if rules else ""


def _cut(value: JsonValue) -> str:
    text = encode(value).decode()
    return text if len(text) <= MAX_DETAIL_CHARS else f"{text[:MAX_DETAIL_CHARS]}…"
