"""A definition of whatever process language as a picture with a table that says the same, and what is put on it.

JSON steps (docs/reference/steps.md), compiled flows (docs/reference/flows.md#the-graph), and the nets of playbooks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from statewright.console.calls import pick_members, pick_objects
from statewright.console.diagrams.drawing import Drawing, Edge, Mark, Marks, Node, Shape
from statewright.console.diagrams.petri import PlaybookSource, PlaybookStep, Task, draw_playbook, list_steps
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.records import Members, Record, Value

Ended: TypeAlias = Literal["", "done", "failed", "skipped"]

MAX_DETAIL_CHARS: Final = 500
MAX_DOTS: Final = 5
"""Tokens up to which each is a dot; more are a number."""


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
    """The picture and its table. ``numbers``: the node of each key; of a net the transition, its place before it."""

    is_net: bool
    drawing: Drawing
    rows: tuple[NodeRow, ...]
    numbers: Mapping[str, int]


def _build_graph(
    drawing: Drawing, rows: Sequence[NodeRow], number: Callable[[int], int], *, is_net: bool = False
) -> ProcessGraph:
    """Rows get the ways that the picture has. ``number`` is that of the node of a row, by its place."""
    shift = 1 if is_net else 0  # arcs lead to the place before a transition
    ways: dict[int, list[Way]] = {}
    for edge in drawing.edges:
        target = drawing.nodes[min(edge.target + shift, len(drawing.nodes) - 1)]
        ways.setdefault(edge.source, []).append(Way(edge.label, target.name, target.href.removeprefix("#")))
    return ProcessGraph(
        is_net=is_net,
        drawing=drawing,
        rows=tuple(replace(row, ways=tuple(ways.get(number(place), ()))) for place, row in enumerate(rows)),
        numbers={row.key: number(place) for place, row in reversed(list(enumerate(rows)))},
    )


# JSON steps.


class BoundaryEvent(Record, frozen=True, kw_only=True):
    """A timer at a step."""

    target_step_id: str = ""
    duration: str = ""
    interrupting: Value = True


class Step(Record, frozen=True, kw_only=True):
    """A step of a definition."""

    id: str = ""
    name: str = ""
    type: str = ""
    job_type: str = ""
    next_step: str = ""
    conditional_next_steps: Members = field(default_factory=dict)
    parallel_next_steps: tuple[Value, ...] = ()
    boundary_events: tuple[BoundaryEvent, ...] = ()


class StepDefinition(Record, frozen=True, kw_only=True):
    """A definition, as far as it is drawn."""

    steps: Value = None


_STEP_SHAPES: Final[Mapping[str, Shape]] = {
    "DECISION": "decision",
    "PARALLEL_GATEWAY": "bar",
    "JOIN_GATEWAY": "bar",
    "WAIT": "circle",
    "END": "end",
}
_STEP_SIGNS: Final[Mapping[str, str]] = {"USER_TASK": "◆ ", "DECISION_TABLE": "▦ ", "TRANSFORMATION": "ƒ "}
_STEP_KINDS: Final = frozenset((*_STEP_SHAPES, "SERVICE_TASK", "USER_TASK", "DECISION_TABLE", "TRANSFORMATION"))
TIMER: Final = "◷"


def read_steps(definition: JsonObject) -> ProcessGraph:
    """The graph of a definition of JSON steps."""
    rows = [
        NodeRow(
            ref=f"step-{place}",
            key=step.id,
            name=step.id,
            kind=step.type.replace("_", " ").lower(),
            detail=step.name if step.name != step.id else "",
            job_type=step.job_type,
        )
        for place, step in enumerate(_pick_steps(definition))
    ]
    return _build_graph(draw_steps(definition), rows, lambda place: place + 1)


def _pick_steps(definition: JsonValue) -> list[Step]:
    return pick_objects(pick_members(definition, StepDefinition).steps, Step)


def draw_steps(definition: JsonValue) -> Drawing:
    """The picture of a definition; nodes are its steps in their order, after a dot for the start."""
    steps = _pick_steps(definition)
    numbers = {step.id: number for number, step in reversed(list(enumerate(steps, start=1)))}
    edges = [Edge(source=0, target=1, classes=("begin",))] if steps else []
    edges += [
        Edge(
            source=number,
            target=numbers[target],
            name=f"{step.id} → {target}{f': {label}' if label else ''}",
            label=label,
            classes=classes,
            href=f"#step-{number - 1}",
        )
        for number, step in enumerate(steps, start=1)
        for target, label, classes in _list_ways(step)
        if target in numbers
    ]
    nodes = (
        Node(name="start", label="", shape="start", classes=("start",)),
        *map(_draw_step, steps, range(len(steps))),
    )
    return Drawing(nodes=nodes, edges=tuple(edges), start=1 if steps else None, has_marks=True)


def _draw_step(step: Step, place: int) -> Node:
    return Node(
        name=step.id,
        label=f"{_STEP_SIGNS.get(step.type, '')}{step.name or step.id}",
        shape=_STEP_SHAPES.get(step.type, "box"),
        classes=("step", step.type.lower().replace("_", "-") if step.type in _STEP_KINDS else "unknown"),
        href=f"#step-{place}",
    )


def _list_ways(step: Step) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Where a token can go from a step, when, and the classes of the edge."""
    for expression, target in step.conditional_next_steps.items():
        yield target if isinstance(target, str) else "", expression, ()
    if step.type == "PARALLEL_GATEWAY":
        for target in step.parallel_next_steps:
            yield target if isinstance(target, str) else "", "", ()
    elif not step.conditional_next_steps and step.type != "END" and step.next_step:
        yield step.next_step, "", ()
    for event in step.boundary_events:
        classes = ("timer", "interrupting") if event.interrupting is not False else ("timer",)
        yield event.target_step_id, f"{TIMER} {event.duration}", classes


# Flows.


class FlowNode(Record, frozen=True, kw_only=True):
    """A node of a compiled flow, or of whatever else the API gives the graph of."""

    id: str = ""
    kind: str = ""
    name: str = ""
    uri: str = ""
    base: str = ""
    guard: str = ""
    iterate: bool = False
    parameters: Value = None
    line: int | None = None

    @property
    def title(self) -> str:
        """What it is called, or does."""
        return self.name or self.uri or self.kind


class CompiledGraph(Record, frozen=True, kw_only=True):
    """A graph as the API gives it: edges are pairs of places of nodes."""

    nodes: Value = None
    edges: tuple[Value, ...] = ()
    back_edges: tuple[Value, ...] = ()


_FLOW_SHAPES: Final[Mapping[str, Shape]] = {"start": "start", "end": "end", "fork": "bar", "join": "bar"}
_FLOW_KINDS: Final = frozenset((*_FLOW_SHAPES, "task", "read", "write", "literal"))


def read_compiled(graph: JsonObject) -> ProcessGraph:
    """The graph of a compiled definition, such as a flow. Instances call its nodes by their ids, or else by their
    places.
    """
    nodes = pick_objects(pick_members(graph, CompiledGraph).nodes, FlowNode)
    return _build_graph(draw_flow(graph), list(map(_describe_node, nodes, range(len(nodes)))), lambda place: place)


def draw_flow(graph: JsonValue) -> Drawing:
    """The picture of a compiled flow, its nodes at their numbers."""
    told = pick_members(graph, CompiledGraph)
    nodes = pick_objects(told.nodes, FlowNode)
    pairs, backwards = (
        [pair for each in listed if (pair := _read_pair(each, len(nodes))) is not None]
        for listed in (told.edges, told.back_edges)
    )
    edges = tuple(
        Edge(
            source=source,
            target=target,
            name=f"{nodes[source].title} → {nodes[target].title}",
            label="each" if nodes[target].iterate else "",
            classes=("back",) if (source, target) in backwards else (),
            href=f"#node-{source}",
        )
        for source, target in dict.fromkeys([*pairs, *backwards])
    )
    drawn = tuple(map(_draw_node, nodes, range(len(nodes))))
    return Drawing(nodes=drawn, edges=edges, start=0 if nodes else None, has_marks=True)


def _read_pair(value: JsonValue, nodes: int) -> tuple[int, int] | None:
    match value:
        case [int(source), int(target)] if 0 <= source < nodes and 0 <= target < nodes:
            return source, target
        case _:
            return None


def _draw_node(node: FlowNode, number: int) -> Node:
    return Node(
        name=node.title,
        label="" if node.kind in _FLOW_SHAPES else f"{'◇ ' if node.guard else ''}{node.title}",
        shape=_FLOW_SHAPES.get(node.kind, "box"),
        classes=(node.kind if node.kind in _FLOW_KINDS else "unknown",),
        href=f"#node-{number}",
    )


def _describe_node(node: FlowNode, place: int) -> NodeRow:
    parts = [f"if {node.guard}"] if node.guard else []
    parts += ["for each element"] if node.iterate else []
    parts += [_cut(node.parameters)] if node.parameters else []
    return NodeRow(
        ref=f"node-{place}",
        key=node.id or str(place),
        name=node.title,
        kind=node.kind,
        detail=", ".join(parts),
        job_type=node.base
        if node.kind == "task"
        else f"resource:{node.kind}"
        if node.kind in ("read", "write")
        else "",
        lines=None if node.line is None else (node.line, node.line),
    )


def _cut(value: JsonValue) -> str:
    text = encode(value).decode()
    return text if len(text) <= MAX_DETAIL_CHARS else f"{text[:MAX_DETAIL_CHARS]}…"


# Playbooks.


def read_playbook_net(source: PlaybookSource) -> ProcessGraph:
    """The net of a playbook."""
    rows = [
        NodeRow(
            ref=f"step-{place}",
            key=step.step,
            name=step.step,
            kind=_describe_pipeline(step),
            detail=_describe_admission(step),
            lines=source.lines[place] if place < len(source.lines) else None,
        )
        for place, step in enumerate(list_steps(source.document))
    ]
    return _build_graph(draw_playbook(source.document), rows, lambda place: 2 * place + 1, is_net=True)


def _describe_pipeline(step: PlaybookStep) -> str:
    tasks = step.tool if isinstance(step.tool, list) else [step.tool]
    named = dict.fromkeys(task.kind for task in pick_objects(tasks, Task) if task.kind)
    return ", ".join([*(["loop"] if step.is_loop else []), *named]) or "no task"


def _describe_admission(step: PlaybookStep) -> str:
    """The conditions under which tokens are admitted."""
    rules = step.spec.policy.admit.rules
    conditions = [rule.when for rule in rules if isinstance(rule.when, str) and rule.when]
    return f"admits tokens when {' or '.join(conditions)}"[:MAX_DETAIL_CHARS] if rules else ""


# What is put on a picture.


class NodeState(Struct, frozen=True, kw_only=True):
    """What is at a node: tokens under way, tokens that wait before it, those denied, and how it ended last."""

    running: int = 0
    waiting: int = 0
    denied: int = 0
    ended: Ended = ""


def mark_process(graph: ProcessGraph, states: Mapping[str, NodeState]) -> Marks:
    """What is put on the picture, by the keys of its nodes. Tokens of playbooks wait in the place before their step."""
    nodes: dict[int, Mark] = {}
    for key, state in states.items():
        number, mark = graph.numbers.get(key), _mark_node(state)
        if number is not None and mark is not None:
            nodes[number] = mark
        if number is not None and graph.is_net and (state.waiting or state.denied):
            nodes[number - 1] = _mark_place(state)
    return Marks(nodes=nodes)


def _mark_node(state: NodeState) -> Mark | None:
    if state.running:
        return Mark(classes=("active",), note=f"▶ {state.running}", words=f"{state.running} under way")
    if state.ended == "failed":
        return Mark(classes=("failed",), note="■ failed", words="failed")
    if state.ended:
        return Mark(classes=("done",), note="✓" if state.ended == "done" else "skipped", words=state.ended)
    return None


def _mark_place(state: NodeState) -> Mark:
    counts = [
        each for each in (("●", state.waiting, "tokens wait"), ("○", state.denied, "tokens are denied")) if each[1]
    ]
    is_few = state.waiting + state.denied <= MAX_DOTS
    return Mark(
        classes=("holding", *(["denied"] if state.denied else [])),
        note="".join(dot * count for dot, count, _ in counts)
        if is_few
        else " ".join(f"{dot}{count}" for dot, count, _ in counts),
        words=", ".join(f"{count} {words}" for _, count, words in counts),
    )
