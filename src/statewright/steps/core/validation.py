"""The rules a definition must obey to be stored (seed 000 "Validation rules", spec/step-engine.md §3.2, §7.4, §7.5).

All violations are found at once. Rules that belong to a step are looked at step by step, in the order of the document.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from statewright.net import parse_delay
from statewright.steps.core.definition import STEP_TYPES, BoundaryEvent, Definition, Step, StepType, references
from statewright.steps.core.routing import TAGS, member_tags
from statewright.steps.core.texts import quoted

ID_LIMIT: Final = 256
"""Longest definition id, job type and text of tags, in characters: they are in indexes."""

HIT_POLICIES: Final = ("U", "F", "A", "R", "C", "C+", "C#", "C>", "C<")

_ID = re.compile(r"[A-Za-z0-9_:\-]+")
_AGGREGATORS: Final = "+#><"

Violations = Iterator[str]
Known = frozenset[str]


def violations(definition: Definition) -> tuple[str, ...]:
    """What is wrong with a definition, in the order of the rules; empty when it may be stored."""
    return tuple(_violations(definition))


def reachable_steps(definition: Definition) -> frozenset[str]:
    """The ids of the steps that can be walked to from the first one."""
    steps = {step.id: step for step in reversed(definition.steps)}
    seen: set[str] = set()
    ahead = [definition.steps[0].id] if definition.steps else []
    while ahead:  # a walk, not a recursion: chains of ten thousands of steps are legitimate
        step_id = ahead.pop()
        if step_id in seen or step_id not in steps:
            continue
        seen.add(step_id)
        ahead.extend(references(steps[step_id]))
    return frozenset(seen)


def _violations(definition: Definition) -> Violations:
    yield from _of_head(definition)
    if not definition.steps:
        return
    yield from _of_ids(definition)
    known = frozenset(step.id for step in definition.steps)
    for step in definition.steps:
        if step.id:
            yield from _of_step(step, known)
            yield from _of_job(step, definition)
    yield from _of_reachability(definition)


def _of_head(definition: Definition) -> Violations:
    if not definition.id:
        yield "id is required"
    if len(definition.id) > ID_LIMIT:
        yield f"id must be ≤ {ID_LIMIT} characters, got {len(definition.id)}"
    if definition.id and not _ID.fullmatch(definition.id):
        yield f"id {quoted(definition.id)} must match ^[A-Za-z0-9_:\\-]+$"
    if not definition.name:
        yield "name is required"
    if not definition.steps:
        yield "steps must not be empty"
    if definition.auto_start_next_workflow and not definition.next_workflow_id:
        yield "nextWorkflowId is required when autoStartNextWorkflow is true"


def _of_ids(definition: Definition) -> Violations:
    seen: set[str] = set()
    for index, step in enumerate(definition.steps):
        if not step.id:
            yield f"step[{index}] id is required"
        elif step.id in seen:
            yield f"duplicate step id: {quoted(step.id)}"
        seen.add(step.id)


def _of_step(step: Step, known: Known) -> Violations:
    label = f"step {quoted(step.id)}"
    if not step.name:
        yield f"{label}: name is required"
    step_type = STEP_TYPES.get(step.type)
    if step_type is None:
        yield f"{label}: unsupported type {quoted(step.type)}"
    else:
        for message in RULES[step_type](step):
            yield f"{label} ({step_type}): {message}"
    yield from _of_references(step, label, known)
    for index, event in enumerate(step.boundary_events):
        yield from _of_boundary_event(event, f"{label} boundaryEvents[{index}]", known)


def _of_job(step: Step, definition: Definition) -> Violations:
    tags = member_tags(definition, step.job_type) or ""
    for member, text in (("jobType", step.job_type), (f"metadata.dispatch of its jobType: {TAGS}", tags)):
        if len(text) > ID_LIMIT:
            yield f"step {quoted(step.id)}: {member} must be ≤ {ID_LIMIT} characters, got {len(text)}"


def _of_references(step: Step, label: str, known: Known) -> Violations:
    """Every reference resolves, also one that the step's type does not follow (seed 000)."""
    named = [
        ("nextStep", step.next_step),
        *(("conditionalNextSteps target", target) for target in step.conditional_next_steps.values()),
        ("joinStep", step.join_step),
        *(("parallelNextSteps", target) for target in step.parallel_next_steps),
    ]
    for member, target in named:
        if target not in known and (target or member in ("conditionalNextSteps target", "parallelNextSteps")):
            yield f"{label} {member} references unknown step {quoted(target)}"


def _of_boundary_event(event: BoundaryEvent, label: str, known: Known) -> Violations:
    if event.type != "TIMER":
        yield f"{label}: unsupported type {quoted(event.type)} (only TIMER is in scope)"
    if not event.duration:
        yield f"{label}: duration is required for TIMER events"
    elif event.type == "TIMER" and parse_delay(event.duration) is None:
        yield f"{label}: invalid ISO-8601 duration {quoted(event.duration)}"
    if not event.target_step_id:
        yield f"{label}: targetStepId is required"
    elif event.target_step_id not in known:
        yield f"{label}.targetStepId references unknown step {quoted(event.target_step_id)}"


def _of_reachability(definition: Definition) -> Violations:
    if not definition.steps[0].id:
        return
    reached = reachable_steps(definition)
    for step in definition.steps:
        if step.id and step.id not in reached:
            yield f"step {quoted(step.id)} is unreachable from the first step"
    if not any(step.type == "END" and step.id in reached for step in definition.steps):
        yield "no END step is reachable from the first step"


def _nothing_more(_: Step) -> Violations:
    return iter(())


def _service_task(step: Step) -> Violations:
    if not step.job_type:
        yield "jobType is required"


def _decision(step: Step) -> Violations:
    if not step.conditional_next_steps:
        yield "conditionalNextSteps must not be empty"


def _with_successor(step: Step) -> Violations:
    if not step.next_step:
        yield "nextStep is required"


def _transformation(step: Step) -> Violations:
    yield from _with_successor(step)
    if not step.transformations:
        yield "transformations must not be empty"


def _parallel_gateway(step: Step) -> Violations:
    if len(step.parallel_next_steps) < 2:
        yield "parallelNextSteps must have at least 2 entries"
    if not step.join_step:
        yield "joinStep is required"


def _decision_table(step: Step) -> Violations:
    if step.decision_table is None or not step.decision_table.rules:
        yield "decisionTable.rules must not be empty"
    yield from _with_successor(step)
    if step.hit_policy and step.hit_policy not in HIT_POLICIES:
        yield _hit_policy_defect(step.hit_policy)
    for name, is_given in _foreign_to_tables(step):
        if is_given:
            yield f"{name} is not allowed"


def _hit_policy_defect(policy: str) -> str:
    base, aggregator = policy[:-1], policy[-1]
    if base in HIT_POLICIES and aggregator in _AGGREGATORS:
        return "aggregator suffix is only valid on hitPolicy C"
    return f"unsupported hitPolicy {quoted(policy)}"


def _foreign_to_tables(step: Step) -> Iterator[tuple[str, bool]]:
    yield "conditionalNextSteps", bool(step.conditional_next_steps)
    yield "transformations", bool(step.transformations)
    yield "parallelNextSteps", bool(step.parallel_next_steps)
    yield "joinStep", bool(step.join_step)
    yield "jobType", bool(step.job_type)
    yield "delegateClass", bool(step.delegate_class)
    yield "retryCount", bool(step.retry_count)
    yield "boundaryEvents", bool(step.boundary_events)


RULES: Final[Mapping[StepType, Callable[[Step], Violations]]] = {
    "SERVICE_TASK": _service_task,
    "USER_TASK": _nothing_more,
    "DECISION": _decision,
    "DECISION_TABLE": _decision_table,
    "TRANSFORMATION": _transformation,
    "WAIT": _with_successor,
    "PARALLEL_GATEWAY": _parallel_gateway,
    "JOIN_GATEWAY": _with_successor,
    "END": _nothing_more,
}
"""What each step type asks of its own members, beyond the rules for all steps."""
