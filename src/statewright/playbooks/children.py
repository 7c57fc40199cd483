"""Steps, and elements of loops, that are other playbooks (docs/reference/executions.md#children)."""

from typing import Final

from statewright.jsonval.values import JsonObject, JsonValue, is_whole
from statewright.net import Problem
from statewright.net.effects import Effect, StartChild
from statewright.playbooks.context import EXECUTION, WORKLOAD, get_member
from statewright.playbooks.definition import Playbook, Step
from statewright.playbooks.dispatch import PARENT_ITER, build_dispatch
from statewright.playbooks.graph import to_problem
from statewright.playbooks.pipeline import PipelineEnd, begin, prepare
from statewright.playbooks.policies import Outcome
from statewright.playbooks.tasks import PLAYBOOK
from statewright.playbooks.templates import Turn

CHILD: Final = "child"
DEPTH: Final = "depth"
MAX_DEPTH: Final = 8
"""Executions within each other, the outermost not counted."""


def is_child(step: Step) -> bool:
    """Whether a step, or each element of its loop, is another playbook that is awaited, and nothing else."""
    return len(step.tasks) == 1 and step.tasks[0].kind == PLAYBOOK and step.tasks[0].policy is None


def build_child_input(
    playbook: Playbook,
    step: Step,
    data: JsonObject,
    given: JsonObject,
    element: int | None = None,
    turn: Turn | None = None,
) -> "JsonValue | Problem":
    """``given``, with the fields of the task as a pipeline would render them, and how deep the other one will run."""
    depth = get_depth(data) + 1
    if depth > MAX_DEPTH:
        message = f"playbooks run within each other {MAX_DEPTH} deep at most"
        return to_problem("DEPTH_LIMIT", {"kind": "depth_limit", "message": message})
    dispatch = build_dispatch(playbook, step, data, given, element=element, turn=turn)
    state = begin(dispatch)
    prepared = state if isinstance(state, PipelineEnd) else prepare(dispatch, state)
    if isinstance(prepared, PipelineEnd | Outcome):
        error = prepared.error or {}
        return to_problem(str(error.get("kind")).upper(), error)
    scope: JsonObject = {} if dispatch.element is None else {PARENT_ITER: dispatch.element.to_iter()}
    return {**given, **scope, CHILD: prepared.fields, DEPTH: depth}


def get_depth(data: JsonObject) -> int:
    """How many others an execution runs within."""
    depth = get_member(data, EXECUTION).get(DEPTH)
    return depth if isinstance(depth, int) else 0


def direct_children(effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """The effects, with executions of the playbooks that the steps name."""
    if not any(isinstance(effect, StartChild) for effect in effects):
        return effects
    return tuple(_direct_child(effect) if isinstance(effect, StartChild) else effect for effect in effects)


def _direct_child(effect: StartChild) -> StartChild:
    given = effect.input if isinstance(effect.input, dict) else {}
    fields = _get_object(given.get(CHILD))
    path, version = fields.get("path"), fields.get("version")
    workload = _get_object(fields.get("args", fields.get("input")))
    start: JsonObject = {WORKLOAD: workload, DEPTH: given.get(DEPTH), PARENT_ITER: given.get(PARENT_ITER)}
    return StartChild(
        net=path if isinstance(path, str) else "",
        version=version if is_whole(version) else 0,
        input=start,
        awaited_by=effect.awaited_by,
    )


def _get_object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
