"""Playbooks as Petri nets (docs/reference/playbooks.md#steps): a step is a transition, drawn as a bar, with a place
before it in which its tokens wait for admission.

What a picture of a playbook is made from: the members that say how tokens go, and the lines of its steps.

The text has been accepted by the API before. All the same it is read with limits: a text is no picture when it is very
long, deep, or grows by its aliases.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import yaml
from msgspec import Struct, field

from statewright.console.calls import pick_members, pick_objects
from statewright.console.diagrams.drawing import Drawing, Edge, Node
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.records import Record, Value


class Condition(Record, frozen=True, kw_only=True):
    """A rule of admission, or an arc to a step: when it applies."""

    when: Value = None
    step: str = ""


class ArcSpec(Record, frozen=True, kw_only=True):
    """How arcs are chosen."""

    mode: str = ""


class Arcs(Record, frozen=True, kw_only=True):
    """Where tokens go from a step."""

    spec: ArcSpec = ArcSpec()
    arcs: tuple[Condition, ...] = ()


class Admission(Record, frozen=True, kw_only=True):
    """Which tokens a step admits."""

    rules: tuple[Condition, ...] = ()


class StepPolicy(Record, frozen=True, kw_only=True):
    """What a step does with tokens."""

    admit: Admission = Admission()


class StepSpec(Record, frozen=True, kw_only=True):
    """How a step runs."""

    policy: StepPolicy = StepPolicy()


class Task(Record, frozen=True, kw_only=True):
    """A task of a step."""

    kind: str = ""


class PlaybookStep(Record, frozen=True, kw_only=True):
    """A step of a playbook, as far as it is drawn."""

    step: str = ""
    tool: Value = None
    loop: Value = None
    next: Arcs = Arcs()
    spec: StepSpec = StepSpec()

    @property
    def is_loop(self) -> bool:
        """Whether it runs for each of several elements."""
        return isinstance(self.loop, dict)


class Entry(Record, frozen=True, kw_only=True):
    """Where a playbook begins and ends."""

    entry_step: str = field(name="entry_step", default="")
    final_step: str = field(name="final_step", default="")


class Executor(Record, frozen=True, kw_only=True):
    """How a playbook is carried out."""

    spec: Entry = Entry()


class PlaybookDocument(Record, frozen=True, kw_only=True):
    """A playbook, as far as it is drawn."""

    executor: Executor = Executor()
    workflow: Value = None


def list_steps(playbook: JsonValue) -> list[PlaybookStep]:
    """The steps of a playbook."""
    return pick_objects(pick_members(playbook, PlaybookDocument).workflow, PlaybookStep)


def draw_playbook(playbook: JsonValue) -> Drawing:
    """The net of a playbook. Step *i* has the place 2\\ *i* and the transition 2\\ *i* + 1."""
    steps, entry = list_steps(playbook), pick_members(playbook, PlaybookDocument).executor.spec
    numbers = {step.step: place for place, step in reversed(list(enumerate(steps)))}
    nodes = tuple(node for place, step in enumerate(steps) for node in _draw_step(step, place, entry.final_step))
    edges: list[Edge] = []
    for place, step in enumerate(steps):
        edges.append(Edge(source=2 * place, target=2 * place + 1, classes=("admission",)))
        edges += _draw_arcs(step, place, numbers)
    start = 2 * numbers.get(entry.entry_step, 0) if steps else None
    return Drawing(nodes=nodes, edges=tuple(edges), start=start, has_marks=True)


def _draw_step(step: PlaybookStep, place: int, final: str) -> Iterator[Node]:
    name, href = step.step, f"#step-{place}"
    kinds = [*(["loop"] if step.is_loop else []), *(["final"] if name == final else [])]
    yield Node(name=f"tokens for {name}", label="", shape="place", classes=("place",), href=href)
    label = f"{'↻ ' if step.is_loop else ''}{name}"
    yield Node(name=name, label=label, shape="bar", classes=("transition", *kinds), href=href)


def _draw_arcs(step: PlaybookStep, place: int, numbers: Mapping[str, int]) -> Iterator[Edge]:
    for arc in step.next.arcs:
        if arc.step in numbers:
            label = arc.when if isinstance(arc.when, str) else ""
            yield Edge(
                source=2 * place + 1,
                target=2 * numbers[arc.step],
                name=f"{step.step} → {arc.step}{f': {label}' if label else ''}",
                label=label,
                classes=("inclusive",) if step.next.spec.mode == "inclusive" else (),
                href=f"#step-{place}",
            )


MAX_CHARS: Final = 256 * 1024
MAX_DEPTH: Final = 24
MAX_NODES: Final = 50_000
_DRAWN: Final = frozenset({"executor", "workflow"})


class PlaybookSource(Struct, frozen=True, kw_only=True):
    """``document``: executor and workflow, scalars as texts. ``lines`` are the first and the last of each step."""

    document: JsonObject
    lines: tuple[tuple[int, int], ...]


class TooLarge(ValueError):
    """A text is too long or too deep for a picture."""


def read_playbook(source: str) -> PlaybookSource | None:
    """The structure of a text in YAML or JSON; None where it cannot be read or is too large."""
    if len(source) > MAX_CHARS:
        return None
    try:
        root = yaml.compose(source, Loader=yaml.CSafeLoader)
        if not isinstance(root, yaml.MappingNode):
            return None
        reading = _Reading()
        document = {name: reading.read(value, 1) for name, value in _list_members(root) if name in _DRAWN}
    except (yaml.YAMLError, TooLarge, RecursionError):
        return None
    steps = next((value for name, value in _list_members(root) if name == "workflow"), None)
    return PlaybookSource(document=document, lines=_list_lines(steps, source.split("\n")))


def _list_members(node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
    return [(key.value, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _list_lines(steps: yaml.Node | None, lines: Sequence[str]) -> tuple[tuple[int, int], ...]:
    if not isinstance(steps, yaml.SequenceNode):
        return ()
    found: list[tuple[int, int]] = []
    for step in steps.value:
        if isinstance(step, yaml.MappingNode):
            first, last = step.start_mark.line + 1, step.end_mark.line + (1 if step.end_mark.column else 0)
            while last > first and not lines[last - 1].strip():  # a block ends where the next one begins
                last -= 1
            found.append((first, max(first, last)))
    return tuple(found)


class _Reading:
    """Counts what is read, since aliases can make much of a little."""

    def __init__(self) -> None:
        self._nodes = 0

    def read(self, node: yaml.Node, depth: int) -> JsonValue:
        """A node as a JSON value. Raises ``TooLarge``."""
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise TooLarge
        if isinstance(node, yaml.MappingNode):
            return {name: self.read(value, depth + 1) for name, value in _list_members(node)}
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, depth + 1) for item in node.value]
        return node.value if isinstance(node.value, str) else None
