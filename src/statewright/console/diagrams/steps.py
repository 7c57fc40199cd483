"""Definitions of JSON steps as pictures (docs/reference/steps.md)."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from statewright.console.calls import get_list, get_object, get_objects, get_text
from statewright.console.diagrams.drawing import Drawing, Edge, Node, Shape
from statewright.jsonval.values import JsonObject, JsonValue

_SHAPES: Final[Mapping[str, Shape]] = {
    "DECISION": "decision",
    "PARALLEL_GATEWAY": "bar",
    "JOIN_GATEWAY": "bar",
    "WAIT": "circle",
    "END": "end",
}
_SIGNS: Final[Mapping[str, str]] = {"USER_TASK": "◆ ", "DECISION_TABLE": "▦ ", "TRANSFORMATION": "ƒ "}
_KINDS: Final = frozenset((*_SHAPES, "SERVICE_TASK", "USER_TASK", "DECISION_TABLE", "TRANSFORMATION"))
TIMER: Final = "◷"


class _Way(Struct, frozen=True):
    target: str
    label: str = ""
    classes: tuple[str, ...] = ()


def draw_steps(definition: JsonValue) -> Drawing:
    """The picture of a definition; nodes are its steps in their order, after a dot for the start."""
    steps = get_objects(definition, "steps")
    numbers = {get_text(step, "id"): number for number, step in reversed(list(enumerate(steps, start=1)))}
    nodes = [
        Node(name="start", label="", shape="start", classes=("start",)),
        *map(_draw_step, steps, range(len(steps))),
    ]
    edges = [Edge(source=0, target=1, classes=("begin",))] if steps else []
    for number, step in enumerate(steps, start=1):
        edges += [
            Edge(
                source=number,
                target=numbers[way.target],
                name=f"{get_text(step, 'id')} → {way.target}{f': {way.label}' if way.label else ''}",
                label=way.label,
                classes=way.classes,
                href=f"#step-{number - 1}",
            )
            for way in _list_ways(step)
            if way.target in numbers
        ]
    return Drawing(nodes=tuple(nodes), edges=tuple(edges), start=1 if steps else None, has_marks=True)


def find_step(definition: JsonValue, step_id: str) -> int | None:
    """The number of the node of a step."""
    ids = [get_text(step, "id") for step in get_objects(definition, "steps")]
    return ids.index(step_id) + 1 if step_id in ids else None


def _draw_step(step: JsonObject, place: int) -> Node:
    kind = get_text(step, "type")
    label = get_text(step, "name") or get_text(step, "id")
    return Node(
        name=get_text(step, "id"),
        label=f"{_SIGNS.get(kind, '')}{label}",
        shape=_SHAPES.get(kind, "box"),
        classes=("step", kind.lower().replace("_", "-") if kind in _KINDS else "unknown"),
        href=f"#step-{place}",
    )


def _list_ways(step: JsonObject) -> Iterator[_Way]:
    kind, choices = get_text(step, "type"), get_object(step, "conditionalNextSteps")
    for expression, target in choices.items():
        yield _Way(target if isinstance(target, str) else "", expression)
    if kind == "PARALLEL_GATEWAY":
        for target in get_list(step, "parallelNextSteps"):
            yield _Way(target if isinstance(target, str) else "")
    elif not choices and kind != "END" and (following := get_text(step, "nextStep")):
        yield _Way(following)
    for event in get_objects(step, "boundaryEvents"):
        classes = ("timer", "interrupting") if event.get("interrupting") is not False else ("timer",)
        yield _Way(get_text(event, "targetStepId"), f"{TIMER} {get_text(event, 'duration')}", classes)
