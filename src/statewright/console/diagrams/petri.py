"""Playbooks as Petri nets (docs/reference/playbooks.md#steps): a step is a transition, drawn as a bar, with a place
before it in which its tokens wait for admission.

What a picture of a playbook is made from: the members that say how tokens go, and the lines of its steps.

The text has been accepted by the API before. All the same it is read with limits: a text is no picture when it is very
long, deep, or grows by its aliases.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import yaml
from msgspec import Struct

from statewright.console.calls import get_object, get_objects, get_text
from statewright.console.diagrams.drawing import Drawing, Edge, Mark, Marks, Node
from statewright.jsonval.values import JsonObject, JsonValue

MAX_DOTS: Final = 5
"""Tokens up to which each is a dot; more are a number."""


class Tokens(Struct, frozen=True, kw_only=True):
    """What is at a step: tokens that wait, those that were denied, and runs under way."""

    waiting: int = 0
    denied: int = 0
    running: int = 0


def draw_playbook(playbook: JsonValue) -> Drawing:
    """The net of a playbook. Step *i* has the place 2\\ *i* and the transition 2\\ *i* + 1."""
    steps = get_objects(playbook, "workflow")
    numbers = {get_text(step, "step"): place for place, step in reversed(list(enumerate(steps)))}
    final = _read_final(playbook)
    nodes = tuple(node for place, step in enumerate(steps) for node in _draw_step(step, place, final))
    edges: list[Edge] = []
    for place, step in enumerate(steps):
        edges.append(Edge(source=2 * place, target=2 * place + 1, classes=("admission",)))
        edges += _draw_arcs(step, place, numbers)
    return Drawing(nodes=nodes, edges=tuple(edges), start=_find_entry(playbook, numbers), has_marks=True)


def _read_final(playbook: JsonValue) -> str:
    return get_text(get_object(get_object(playbook, "executor"), "spec"), "final_step")


def _find_entry(playbook: JsonValue, numbers: Mapping[str, int]) -> int | None:
    entry = get_text(get_object(get_object(playbook, "executor"), "spec"), "entry_step")
    if not numbers:
        return None
    return 2 * numbers.get(entry, 0)


def _draw_step(step: JsonObject, place: int, final: str) -> Iterator[Node]:
    name = get_text(step, "step")
    kinds = ["loop"] if isinstance(step.get("loop"), dict) else []
    kinds += ["final"] if name == final else []
    yield Node(name=f"tokens for {name}", label="", shape="place", classes=("place",), href=f"#step-{place}")
    label = f"{'↻ ' if 'loop' in kinds else ''}{name}"
    yield Node(name=name, label=label, shape="bar", classes=("transition", *kinds), href=f"#step-{place}")


def _draw_arcs(step: JsonObject, place: int, numbers: Mapping[str, int]) -> Iterator[Edge]:
    following = get_object(step, "next")
    is_inclusive = get_text(get_object(following, "spec"), "mode") == "inclusive"
    for arc in get_objects(following, "arcs"):
        target, guard = get_text(arc, "step"), arc.get("when")
        if target in numbers:
            label = guard if isinstance(guard, str) else ""
            yield Edge(
                source=2 * place + 1,
                target=2 * numbers[target],
                name=f"{get_text(step, 'step')} → {target}{f': {label}' if label else ''}",
                label=label,
                classes=("inclusive",) if is_inclusive else (),
                href=f"#step-{place}",
            )


def find_place(playbook: JsonValue, step: str) -> int | None:
    """The number of the place before a step; that of its transition is one more."""
    names: Sequence[str] = [get_text(each, "step") for each in get_objects(playbook, "workflow")]
    return 2 * names.index(step) if step in names else None


def mark_tokens(playbook: JsonValue, tokens: Mapping[str, Tokens]) -> Marks:
    """Tokens in their places, and which steps run."""
    nodes: dict[int, Mark] = {}
    for step, found in tokens.items():
        place = find_place(playbook, step)
        if place is None:
            continue
        if found.waiting or found.denied:
            nodes[place] = _mark_place(found)
        if found.running:
            nodes[place + 1] = Mark(classes=("active",), note=f"▶ {found.running}", words=f"{found.running} running")
    return Marks(nodes=nodes)


def _mark_place(found: Tokens) -> Mark:
    total = found.waiting + found.denied
    dots = "●" * found.waiting + "○" * found.denied
    note = dots if total <= MAX_DOTS else " ".join(_count(found))
    words = ", ".join(
        [
            *([f"{found.waiting} tokens wait"] if found.waiting else []),
            *([f"{found.denied} tokens are denied"] if found.denied else []),
        ]
    )
    return Mark(classes=("holding", *(["denied"] if found.denied else [])), note=note, words=words)


def _count(found: Tokens) -> Iterator[str]:
    if found.waiting:
        yield f"●{found.waiting}"
    if found.denied:
        yield f"○{found.denied}"


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
