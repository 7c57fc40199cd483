"""Playbooks as Petri nets (docs/reference/playbooks.md#steps): a step is a transition, drawn as a bar, with a place
before it in which its tokens wait for admission.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from statewright.console.diagrams.drawing import Drawing, Edge, Mark, Marks, Node
from statewright.console.diagrams.reading import get_object, get_objects, get_text
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
