"""Playbooks as Mermaid flowcharts (docs/reference/executions.md#diagrams)."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from statewright.playbooks.definition import NextArc, Playbook, Step
from statewright.playbooks.execution import Execution
from statewright.playbooks.source import PlaybookProcess
from statewright.processes.changes import ExecutionStatus
from statewright.processes.language import Drawing, escape_label

StepStatus = Literal["RUNNING", "COMPLETED", "FAILED", "PENDING", "SKIPPED"]

STYLES: Final[Mapping[StepStatus, str]] = {
    "RUNNING": "fill:#fef3c7,stroke:#d97706,color:#000",
    "COMPLETED": "fill:#dcfce7,stroke:#16a34a,color:#000",
    "FAILED": "fill:#fee2e2,stroke:#dc2626,color:#000",
    "PENDING": "fill:#e0e7ff,stroke:#4f46e5,color:#000",
    "SKIPPED": "fill:#e5e7eb,stroke:#6b7280,color:#000",
}
"""The colours of steps by what became of them last; ``PENDING``: a token waits there for admission."""

MAX_LABEL_CHARS: Final = 60


_STATUSES: Final[Mapping[ExecutionStatus, StepStatus]] = {
    "RUNNING": "RUNNING",
    "COMPLETED": "COMPLETED",
    "FAILED": "FAILED",
    "SKIPPED": "SKIPPED",
    "BYPASSED": "COMPLETED",
}


def draw_process(process: PlaybookProcess, wanted: Drawing) -> str:
    """The steps of a playbook."""
    return render_diagram(process.playbook, is_vertical=wanted.is_vertical)


def draw_instance(
    process: PlaybookProcess, execution: Execution, known: Mapping[str, ExecutionStatus], wanted: Drawing
) -> str:
    """The same, coloured by what became of them last."""
    statuses: dict[str, StepStatus] = {name: _STATUSES[status] for name, status in known.items()}
    statuses |= dict.fromkeys(execution.pending_steps, "PENDING")
    return render_diagram(process.playbook, statuses, is_vertical=wanted.is_vertical)


def render_diagram(
    playbook: Playbook, statuses: Mapping[str, StepStatus] | None = None, *, is_vertical: bool = False
) -> str:
    """A line for each step and each arc, guards as labels; with ``statuses`` coloured."""
    numbers = {step.name: number for number, step in enumerate(playbook.steps)}
    lines = ["flowchart TB" if is_vertical else "flowchart LR"]
    lines += [f"  {_draw_step(playbook, step, numbers[step.name])}" for step in playbook.steps]
    for step in playbook.steps:
        for arc in step.router.arcs if step.router is not None else ():
            lines.append(f"  s{numbers[step.name]} {_draw_arc(arc)} s{numbers[arc.target]}")
    lines += _colour(numbers, statuses or {})
    return "\n".join(lines) + "\n"


def _draw_step(playbook: Playbook, step: Step, number: int) -> str:
    """A loop is a stack, a gate or a join a hexagon, the final step a stadium, what only routes a circle."""
    label = _quote(step.name)
    if step.name == playbook.final:
        return f's{number}(["{label}"])'
    if step.loop is not None:
        return f's{number}[["{label}"]]'
    if step.admission is not None or step.join is not None:
        return f's{number}{{{{"{label}"}}}}'
    return f's{number}["{label}"]' if step.tasks else f's{number}("{label}")'


def _draw_arc(arc: NextArc) -> str:
    return "-->" if arc.when is None else f'-->|"{_quote(str(arc.when.source))}"|'


def _colour(numbers: Mapping[str, int], statuses: Mapping[str, StepStatus]) -> Iterator[str]:
    for status, style in STYLES.items():
        steps = [f"s{numbers[name]}" for name, found in statuses.items() if found == status and name in numbers]
        if steps:
            yield f"  classDef {status.lower()} {style}"
            yield f"  class {','.join(steps)} {status.lower()}"


def _quote(text: str) -> str:
    """The text on one line, cut to what a label holds."""
    one_line = " ".join(text.split())
    cut = one_line if len(one_line) <= MAX_LABEL_CHARS else one_line[: MAX_LABEL_CHARS - 1] + "…"
    return escape_label(cut)
