"""Diagrams in Mermaid's flowchart notation: of a definition, and of a live instance on it."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from statewright.processes.changes import ExecutionStatus
from statewright.processes.language import Drawing, escape_label
from statewright.steps.definition import TIMED_TYPES, Definition, Step
from statewright.steps.instance import Instance
from statewright.steps.language import Process

Progress: TypeAlias = Literal["done", "active", "failed", "stopped"]

_SHAPES: Final[Mapping[str, tuple[str, str]]] = {
    "SERVICE_TASK": ("[", "]"),
    "USER_TASK": ("[/", "/]"),
    "DECISION": ("{", "}"),
    "DECISION_TABLE": ("{{", "}}"),
    "TRANSFORMATION": ("[[", "]]"),
    "WAIT": ("([", "])"),
    "PARALLEL_GATEWAY": ("[\\", "/]"),
    "JOIN_GATEWAY": ("[/", "\\]"),
    "END": ("(((", ")))"),
}
_CLASSES: Final[Mapping[Progress, str]] = {
    "done": "fill:#d7f0dd,stroke:#2e7d4f,color:#123",
    "active": "fill:#fff3c4,stroke:#b8860b,color:#123,stroke-width:3px",
    "failed": "fill:#f9d6d5,stroke:#b3261e,color:#123,stroke-width:3px",
    "stopped": "fill:#e3e3e3,stroke:#6b6b6b,color:#123",
}
_STAGES: Final[Mapping[str, Progress]] = {
    "WORKING": "active",
    "WAITING": "active",
    "ANSWERED": "active",
    "PARKED": "active",
    "FAILED": "failed",
    "STRANDED": "failed",
    "WITHDRAWN": "stopped",
}
_URGENCY: Final[tuple[Progress, ...]] = ("done", "stopped", "active", "failed")


def draw_process(process: Process, _: Drawing) -> str:
    """The definition of a process."""
    return draw_definition(process.definition)


def draw_process_instance(
    process: Process, instance: Instance, ended: Mapping[str, ExecutionStatus], _: Drawing
) -> str:
    """An instance on its definition, as ``draw_instance``."""
    return draw_instance(process.definition, instance, ended)


def draw_definition(definition: Definition) -> str:
    """The steps and the ways between them."""
    return _draw_flowchart(definition, {})


def draw_instance(definition: Definition, instance: Instance, ended: Mapping[str, ExecutionStatus]) -> str:
    """The same, with what is done, active, failed or stopped marked by colour.

    ``ended``: by step, what became of its last execution; an instance itself does not know what a timer interrupted.
    """
    return _draw_flowchart(definition, compute_progress(instance, ended))


def compute_progress(instance: Instance, ended: Mapping[str, ExecutionStatus]) -> Mapping[str, Progress]:
    """How far each step is that was ever entered; where several tokens are, the most urgent counts."""
    marks: dict[str, Progress] = {
        str(step): "stopped" if ended.get(step) in ("FAILED", "SKIPPED") else "done"
        for step in instance.marking.attempts
    }
    for token in instance.marking.tokens:
        mark = _STAGES[token.stage]
        if _URGENCY.index(mark) > _URGENCY.index(marks.get(token.node, "done")):
            marks[token.node] = mark
    return marks


def _draw_flowchart(definition: Definition, marks: Mapping[str, Progress]) -> str:
    names = {step.id: f"s{index}" for index, step in reversed(list(enumerate(definition.steps)))}
    lines = ["flowchart TD"]
    for step in definition.steps:
        lines.append(f"    {names[step.id]}{_draw_box(step)}")
        lines += [
            f"    {names[step.id]} {arrow} {names[target]}" for arrow, target in _list_arrows(step) if target in names
        ]
    lines += [f"    classDef {name} {style}" for name, style in _CLASSES.items() if name in marks.values()]
    lines += [f"    class {names[step_id]} {mark}" for step_id, mark in marks.items() if step_id in names]
    return "\n".join(lines) + "\n"


def _draw_box(step: Step) -> str:
    opening, closing = _SHAPES.get(step.type, ("[", "]"))
    return f'{opening}"{escape_label(step.name or step.id)}"{closing}'


def _list_arrows(step: Step) -> Iterator[tuple[str, str]]:
    for expression, target in step.conditional_next_steps.items():
        yield f'-- "{escape_label(expression)}" -->', target
    for target in step.parallel_next_steps if step.type == "PARALLEL_GATEWAY" else ():
        yield "-->", target
    if step.next_step and not step.conditional_next_steps and step.type not in ("END", "PARALLEL_GATEWAY"):
        yield "-->", step.next_step
    for event in step.boundary_events if step.type in TIMED_TYPES else ():
        opening, closing = ("==", "==>") if event.interrupting else ("-.", ".->")
        yield f'{opening} "after {escape_label(event.duration)}" {closing}', event.target_step_id
