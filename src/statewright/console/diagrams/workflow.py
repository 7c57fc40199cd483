"""Workflows as pictures: of the exported document, with marks of live counts, incidents and the way of an entity
(docs/reference/workflows.md#the-definition).
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from statewright.console.calls import list_objects, pick_members, pick_objects
from statewright.console.diagrams.drawing import Drawing, Edge, Mark, Marks, Node
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.records import Members, Record, Value

TransitionKind: TypeAlias = Literal["manual", "automatic", "scheduled"]

SIGNS: Final[Mapping[TransitionKind, str]] = {"manual": "☞", "automatic": "⚡\ufe0e", "scheduled": "◷"}
"""Signs that plain fonts have: a hand and a stopwatch are boxes where there is no font for emoji."""

MODE_LETTERS: Final = {"SYNC": "S", "ASYNC_SAME_TX": "A", "ASYNC_NEW_TX": "N", "COMMIT_BEFORE_DISPATCH": "C"}
_CIRCLED: Final = "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳"
_DELAYS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Processor(Struct, frozen=True, kw_only=True):
    """A callout of a transition: name, letter of its mode, and the tags that a member must have."""

    name: str
    letter: str
    tags: tuple[str, ...]


class Transition(Struct, frozen=True, kw_only=True):
    """A way out of a state. ``tags``: of all its callouts, each once; ``delay`` is empty unless it waits for a time."""

    state: str
    name: str
    target: str
    kind: TransitionKind
    is_disabled: bool
    criterion: JsonValue
    asks_member: bool
    processors: tuple[Processor, ...]
    tags: tuple[str, ...]
    delay: str

    @property
    def key(self) -> tuple[str, str]:
        """State and name: what it is known by."""
        return self.state, self.name


class WorkflowGraph(Struct, frozen=True, kw_only=True):
    """A workflow as it is drawn; states in the order in which they are reached."""

    name: str
    description: str
    is_active: bool
    criterion: JsonValue
    initial: str
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]

    def list_transitions(self, state: str) -> tuple[Transition, ...]:
        """The ways out of a state, in their order."""
        return tuple(each for each in self.transitions if each.state == state)

    @property
    def final_states(self) -> frozenset[str]:
        """The states that nothing leaves."""
        return frozenset(self.states) - {each.state for each in self.transitions}


class CalloutConfig(Record, frozen=True, kw_only=True):
    """Whom a callout asks."""

    calculation_nodes_tags: str | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """Those that a member must have."""
        parts = (self.calculation_nodes_tags or "").replace(";", ",").split(",")
        return tuple(tag.strip() for tag in parts if tag.strip())


class Callout(Record, frozen=True, kw_only=True):
    """A processor, or a function of a criterion or a schedule."""

    name: str = ""
    execution_mode: str | None = None
    config: CalloutConfig | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """Those that a member must have."""
        return self.config.tags if self.config is not None else ()


class Asking(Record, frozen=True, kw_only=True):
    """A criterion or a schedule, as far as a member is asked for it."""

    type: str = ""
    function: Callout | None = None
    delay_ms: Value = None

    @property
    def tags(self) -> tuple[str, ...]:
        """Those of whom it asks."""
        return self.function.tags if self.function is not None else ()


class TransitionDocument(Record, frozen=True, kw_only=True):
    """A transition as it is exported."""

    name: str = ""
    next: str = ""
    manual: bool = False
    disabled: bool = False
    criterion: Value = None
    schedule: Value = None
    processors: tuple[Callout, ...] = ()


class StateDocument(Record, frozen=True, kw_only=True):
    """A state as it is exported."""

    transitions: Value = None


class WorkflowDocument(Record, frozen=True, kw_only=True):
    """A workflow as it is exported."""

    name: str = ""
    desc: str = ""
    active: bool = True
    criterion: Value = None
    initial_state: str = ""
    states: Members = field(default_factory=dict)


class WorkflowExport(Record, frozen=True, kw_only=True):
    """The workflows of a model; None where there is no list of them."""

    workflows: tuple[Value, ...] | None = None


class Named(Record, frozen=True, kw_only=True):
    """What things are known by."""

    name: str = ""


def read_document(document: JsonValue) -> WorkflowDocument:
    """What an export says of a workflow; nothing of one that is not there."""
    return pick_members(document, WorkflowDocument)


def read_workflow(document: JsonValue) -> WorkflowGraph:
    """The graph of an exported workflow. A target that is no state gets a node all the same: documents may be wrong."""
    told = read_document(document)
    transitions = tuple(
        _read_transition(name, each)
        for name, state in told.states.items()
        for each in pick_objects(pick_members(state, StateDocument).transitions, TransitionDocument)
    )
    return WorkflowGraph(
        name=told.name,
        description=told.desc,
        is_active=told.active,
        criterion=told.criterion,
        initial=told.initial_state,
        states=_order_states(told.initial_state, tuple(told.states), transitions),
        transitions=transitions,
    )


def _order_states(initial: str, states: Sequence[str], transitions: Sequence[Transition]) -> tuple[str, ...]:
    """The states as they are reached from the initial one, then all others; documents do not keep an order."""
    targets: dict[str, list[str]] = {}
    for each in transitions:
        targets.setdefault(each.state, []).append(each.target)
    reached = dict.fromkeys([initial] if initial or initial in states else [])
    pending = deque(reached)
    while pending:
        for target in targets.get(pending.popleft(), ()):
            if target not in reached:
                reached[target] = None
                pending.append(target)
    return tuple(dict.fromkeys((*reached, *states, *(each.target for each in transitions))))


def _read_transition(state: str, told: TransitionDocument) -> Transition:
    criterion, schedule = (pick_members(each, Asking) for each in (told.criterion, told.schedule))
    asked = criterion if criterion.type == "function" else Asking()
    processors = tuple(
        Processor(name=each.name, letter=MODE_LETTERS.get(each.execution_mode or "", "S"), tags=each.tags)
        for each in told.processors
    )
    tags = (*asked.tags, *(tag for processor in processors for tag in processor.tags), *schedule.tags)
    return Transition(
        state=state,
        name=told.name,
        target=told.next,
        kind="scheduled" if told.schedule else "manual" if told.manual else "automatic",
        is_disabled=told.disabled,
        criterion=told.criterion,
        asks_member=asked.function is not None,
        processors=processors,
        tags=tuple(dict.fromkeys(tags)),
        delay=_describe_delay(schedule),
    )


def _describe_delay(schedule: Asking) -> str:
    if schedule.function is not None:
        return schedule.function.name
    return format_delay(schedule.delay_ms) if isinstance(schedule.delay_ms, int) else ""


def format_delay(milliseconds: int) -> str:
    """A delay in its largest unit that says it exactly."""
    for size, unit in _DELAYS:
        if milliseconds >= size and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


# Drawings


def draw_workflow(graph: WorkflowGraph, *, has_marks: bool = True, link: Callable[[str], str] | None = None) -> Drawing:
    """The picture of a workflow. The first node is the dot before the initial state; states follow in their order.

    ``link``: where a state leads; without it to its row in the table of the page.
    """
    final = graph.final_states
    nodes = [Node(name="start", label="", shape="start", classes=("start",))]
    nodes += [
        Node(
            name=state,
            label=state,
            shape="final" if state in final else "state",
            classes=("state", *(["final"] if state in final else [])),
            href=link(state) if link is not None else f"#state-{number}",
        )
        for number, state in enumerate(graph.states)
    ]
    numbers = {state: number for number, state in enumerate(graph.states, start=1)}
    edges = [Edge(source=0, target=numbers[graph.initial], classes=("begin",))] if graph.initial in numbers else []
    edges += [_draw_transition(each, numbers, place) for place, each in enumerate(graph.transitions)]
    return Drawing(
        nodes=tuple(nodes),
        edges=tuple(edges),
        start=numbers.get(graph.initial),
        has_marks=has_marks,
    )


def _draw_transition(transition: Transition, numbers: Mapping[str, int], place: int) -> Edge:
    return Edge(
        source=numbers[transition.state],
        target=numbers[transition.target],
        name=f"{transition.name}: {transition.state} → {transition.target}",
        label=label_transition(transition),
        classes=(transition.kind, *(["off"] if transition.is_disabled else [])),
        href=f"#transition-{place}",
    )


def label_transition(transition: Transition) -> str:
    """What an edge says: kind, name, delay, and signs for a criterion and processors."""
    parts = [SIGNS[transition.kind], transition.name]
    if transition.delay:
        parts.append(transition.delay)
    if transition.criterion is not None:
        parts.append("◇ƒ" if transition.asks_member else "◇")
    if transition.processors:
        parts.append(label_processors(transition.processors))
    if transition.is_disabled:
        parts.append("(off)")
    return " ".join(parts)


def label_processors(processors: Sequence[Processor]) -> str:
    """The sign of processors, with the letters of their modes and, of several, their number."""
    letters = "".join(dict.fromkeys(processor.letter for processor in processors))
    count = str(len(processors)) if len(processors) > 1 else ""
    return f"▣{letters}{count}"


def find_state(graph: WorkflowGraph, state: str | None) -> int | None:
    """The number of the node of a state."""
    return graph.states.index(state) + 1 if state in graph.states else None


def _number_edges(graph: WorkflowGraph) -> dict[tuple[str, str], int]:
    offset = 1 if graph.initial in graph.states else 0
    return {each.key: number for number, each in enumerate(graph.transitions, start=offset)}


# Marks


class Overlay(Struct, frozen=True, kw_only=True):
    """What is known of a workflow just now. Transitions are named by state and name.

    ``counts`` are texts, ready to be shown. ``path`` lists the transitions that an entity took, in order.
    """

    counts: Mapping[str, str] = {}
    incidents: Mapping[str, str] = {}
    current: str | None = None
    current_word: str = "now"
    """What is said of the current state: of an entity that was deleted, or as it was once, it is not "now"."""
    path: tuple[tuple[str, str], ...] = ()
    visited: tuple[str, ...] = ()
    """The states that an entity has been in, in order, a state as often as it was entered."""
    impossible: frozenset[tuple[str, str]] = frozenset()
    unserved: frozenset[tuple[str, str]] = frozenset()


def mark_workflow(graph: WorkflowGraph, overlay: Overlay) -> Marks:
    """The marks of an overlay; what it says of states that the workflow lacks is left out."""
    visits = _number_visits(overlay.visited)
    nodes = {
        number: _mark_state(state, overlay, visits.get(state, ())) for number, state in enumerate(graph.states, start=1)
    }
    edges = {number: _mark_transition(key, overlay) for key, number in _number_edges(graph).items()}
    empty = Mark()
    return Marks(
        nodes={number: mark for number, mark in nodes.items() if mark != empty},
        edges={number: mark for number, mark in edges.items() if mark != empty},
    )


def _number_visits(visited: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for step, state in enumerate(visited, start=1):
        found.setdefault(state, []).append(step)
    return found


def label_visits(steps: Sequence[int]) -> str:
    """The number of the last visit in a circle, or how often it was, beyond twenty."""
    if not steps:
        return ""
    if len(steps) > len(_CIRCLED):
        return f"×{len(steps)}"
    return _CIRCLED[steps[-1] - 1] if steps[-1] <= len(_CIRCLED) else f"({steps[-1]})"


def _mark_state(state: str, overlay: Overlay, steps: Sequence[int]) -> Mark:
    is_current = state == overlay.current
    count, incidents = overlay.counts.get(state, ""), overlay.incidents.get(state, "")
    notes = [
        count,
        label_visits(steps),
        overlay.current_word if is_current else "",
        f"■ {incidents}" if incidents else "",
    ]
    words = [
        f"{count} {'entity' if count == '1' else 'entities'}" if count else "",
        _describe_current(overlay.current_word) if is_current else "",
        f"visited as step {steps[-1]}" if steps else "",
        f"{incidents} {'incident' if incidents == '1' else 'incidents'}" if incidents else "",
    ]
    classes = [
        *(["current"] if is_current else []),
        *(["travelled"] if steps else []),
        *(["troubled"] if incidents else []),
    ]
    return Mark(classes=tuple(classes), note=_join(notes, " "), words=_join(words, ", "))


def _describe_current(word: str) -> str:
    return "the current state" if word == "now" else f"the state {word}"


def _mark_transition(key: tuple[str, str], overlay: Overlay) -> Mark:
    steps = [step for step, taken in enumerate(overlay.path, start=1) if taken == key]
    is_unserved, is_impossible = key in overlay.unserved, key in overlay.impossible
    classes = [
        *(["travelled"] if steps else []),
        *(["impossible"] if is_impossible else []),
        *(["unserved"] if is_unserved else []),
    ]
    notes = [label_visits(steps), "■ no worker" if is_unserved else ""]
    words = [
        f"taken as step {steps[-1]}" if steps else "",
        "not possible now" if is_impossible else "",
        "no worker has its tags" if is_unserved else "",
    ]
    return Mark(classes=tuple(classes), note=_join(notes, " "), words=_join(words, ", "))


def _join(parts: Sequence[str], glue: str) -> str:
    return glue.join(part for part in parts if part)


def list_workflows(export: JsonValue) -> list[JsonObject]:
    """The workflows of an export, whether it is the list itself or has it as a member."""
    return list_objects(export if isinstance(export, list) else pick_members(export, WorkflowExport).workflows)


def index_workflows(export: JsonValue) -> dict[str, JsonObject]:
    """The same by their names."""
    return index_by_name(list_workflows(export))


def index_by_name(listed: object) -> dict[str, JsonObject]:
    """The objects of a list by their names."""
    return {pick_members(each, Named).name: each for each in list_objects(listed)}
