"""Pipelines that the service runs at once, within the advance that begins the step: those of ``noop`` tasks alone.

Nothing in them waits, repeats or calls anybody, so that a step which only decides or sets values costs no job.
"""

from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Note, Performed
from statewright.playbooks import templates
from statewright.playbooks.boundary import to_problem
from statewright.playbooks.definition import Playbook, Step, Task
from statewright.playbooks.outcomes import Outcome
from statewright.playbooks.pipeline import NOOP, PipelineEnd, Turn, begin, prepare, settle
from statewright.playbooks.runs import build_dispatch

MAX_INLINE_TASKS: Final = 20
TASK_ENDED: Final = "task.ended"
"""The trace of the end of a task."""


def is_inline(step: Step) -> bool:
    """Whether the pipeline of a step can be run at once."""
    return (
        step.loop is None
        and 0 < len(step.tasks) <= MAX_INLINE_TASKS
        and all(task.kind == NOOP and not _repeats(task) for task in step.tasks)
    )


def _repeats(task: Task) -> bool:
    if task.policy is None:
        return False
    actions = [rule.then for rule in task.policy.rules]
    if task.policy.otherwise is not None:
        actions.append(task.policy.otherwise)
    return any(action.do in ("retry", "jump") for action in actions)


def run_inline(
    playbook: Playbook, step: Step, data: JsonObject, args: JsonObject, turn: templates.Turn | None = None
) -> Performed:
    """Run such a pipeline: what it sets, and how it ended."""
    dispatch = build_dispatch(playbook, step, data, {"args": args}, turn=turn)
    notes: list[Note] = []
    state = begin(dispatch)
    while not isinstance(state, PipelineEnd):
        prepared = prepare(dispatch, state)
        assert isinstance(prepared, Outcome)  # noqa: S101 - nothing is called
        label = dispatch.tasks[state.counter].label
        settled = settle(dispatch, state, prepared)
        notes.append(_describe(label, prepared, settled))
        notes.extend(Note(changes={".".join(patch.path): patch.value}) for patch in settled.patches)
        state = settled.state if settled.end is None else settled.end
    if state.error is not None:
        return Performed(notes=tuple(notes), problem=to_problem(str(state.error.get("kind")).upper(), state.error))
    return Performed(notes=tuple(notes), output=state.result)


def _describe(label: str, outcome: Outcome, turn: Turn) -> Note:
    details: dict[str, JsonValue] = {"task": label, "status": outcome.status, "action": turn.do, "rule": turn.rule}
    return Note(kind=TASK_ENDED, details=details)
