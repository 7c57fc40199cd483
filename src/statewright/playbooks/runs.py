"""What one run of a step, or of an element of its loop, is given: its pipeline, and the data as they are now."""

from typing import Final

from statewright.jsonval.values import JsonObject
from statewright.playbooks.context import CTX, EXECUTION, RESULTS, WORKLOAD, get_member
from statewright.playbooks.definition import Playbook, Step
from statewright.playbooks.dispatch import Dispatch, Element
from statewright.playbooks.templates import Turn

PARENT_ITER: Final = "iter"
"""The member of what the execution is that has ``iter`` of the element that awaits it."""


def build_dispatch(
    playbook: Playbook,
    step: Step,
    data: JsonObject,
    given: JsonObject,
    *,
    run: str = "",
    element: int | None = None,
    turn: Turn | None = None,
) -> Dispatch:
    """The dispatch of a run. ``given`` is its input as the kernel keeps it: ``args``, of an element its ``item``."""
    return Dispatch(
        tasks=step.tasks,
        step=step.name,
        execution_id=str(get_member(data, EXECUTION).get("id")),
        step_run=run,
        input=step.input,
        workload=get_member(data, WORKLOAD),
        ctx=get_member(data, CTX),
        args=get_member(given, "args"),
        results=get_member(data, RESULTS),
        element=_build_element(step, data, given, element),
        max_task_executions=playbook.limits.max_task_executions,
        turn=turn,
    )


def _build_element(step: Step, data: JsonObject, given: JsonObject, index: int | None) -> Element | None:
    if step.loop is None or index is None:
        return None
    parent = get_member(data, EXECUTION).get(PARENT_ITER)
    return Element(
        iterator=step.loop.iterator,
        value=given.get("item"),
        index=index,
        is_last=given.get("isLast") is True,
        parent=parent if isinstance(parent, dict) else None,
    )
