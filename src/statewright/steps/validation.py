"""The rules a definition must obey to be stored (docs/reference/steps.md#validation,
docs/reference/steps.md#rules-for-tables, docs/reference/steps.md#members-that-tables-do-not-have).

All violations are found at once. Rules that belong to a step are looked at step by step, in the order of the document.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from statewright.jsonval.values import quote
from statewright.net import parse_delay
from statewright.steps.definition import (
    MEMBER_TAGS,
    STEP_TYPES,
    BoundaryEvent,
    Definition,
    Step,
    StepType,
    find_member_tags,
    list_references,
)

MAX_ID_LENGTH: Final = 256
"""Longest definition id, job type and text of tags, in characters: they are in indexes."""

HIT_POLICIES: Final = ("U", "F", "A", "R", "C", "C+", "C#", "C>", "C<")

_ID: Final = re.compile(r"[A-Za-z0-9_:\-]+")
_AGGREGATORS: Final = "+#><"

Violations = Iterator[str]
Known = frozenset[str]


def find_violations(definition: Definition) -> tuple[str, ...]:
    """What is wrong with a definition, in the order of the rules; empty when it may be stored."""
    return tuple(_iterate_violations(definition))


def find_reachable_steps(definition: Definition) -> frozenset[str]:
    """The ids of the steps that can be walked to from the first one."""
    steps = {step.id: step for step in reversed(definition.steps)}
    seen: set[str] = set()
    ahead = [definition.steps[0].id] if definition.steps else []
    while ahead:  # a walk, not a recursion: chains of ten thousands of steps are legitimate
        step_id = ahead.pop()
        if step_id in seen or step_id not in steps:
            continue
        seen.add(step_id)
        ahead.extend(list_references(steps[step_id]))
    return frozenset(seen)


def _iterate_violations(definition: Definition) -> Violations:
    yield from _check_head(definition)
    if not definition.steps:
        return
    yield from _check_ids(definition)
    known = frozenset(step.id for step in definition.steps)
    for step in definition.steps:
        if step.id:
            yield from _check_step(step, known)
            yield from _check_job(step, definition)
    yield from _check_reachability(definition)


def _check_head(definition: Definition) -> Violations:
    if not definition.id:
        yield "id is required"
    if len(definition.id) > MAX_ID_LENGTH:
        yield f"id must be ≤ {MAX_ID_LENGTH} characters, got {len(definition.id)}"
    if definition.id and not _ID.fullmatch(definition.id):
        yield f"id {quote(definition.id)} must match ^[A-Za-z0-9_:\\-]+$"
    if not definition.name:
        yield "name is required"
    if not definition.steps:
        yield "steps must not be empty"
    if definition.auto_start_next_workflow and not definition.next_workflow_id:
        yield "nextWorkflowId is required when autoStartNextWorkflow is true"


def _check_ids(definition: Definition) -> Violations:
    seen: set[str] = set()
    for index, step in enumerate(definition.steps):
        if not step.id:
            yield f"step[{index}] id is required"
        elif step.id in seen:
            yield f"duplicate step id: {quote(step.id)}"
        seen.add(step.id)


def _check_step(step: Step, known: Known) -> Violations:
    label = f"step {quote(step.id)}"
    if not step.name:
        yield f"{label}: name is required"
    step_type = STEP_TYPES.get(step.type)
    if step_type is None:
        yield f"{label}: unsupported type {quote(step.type)}"
    else:
        for message in _check_members(step, step_type):
            yield f"{label} ({step_type}): {message}"
    yield from _check_references(step, label, known)
    for index, event in enumerate(step.boundary_events):
        yield from _check_boundary_event(event, f"{label} boundaryEvents[{index}]", known)


def _check_job(step: Step, definition: Definition) -> Violations:
    tags = find_member_tags(definition, step.job_type) or ""
    for member, text in (("jobType", step.job_type), (f"metadata.dispatch of its jobType: {MEMBER_TAGS}", tags)):
        if len(text) > MAX_ID_LENGTH:
            yield f"step {quote(step.id)}: {member} must be ≤ {MAX_ID_LENGTH} characters, got {len(text)}"


def _check_references(step: Step, label: str, known: Known) -> Violations:
    """Every reference resolves, also one that the step's type does not follow (docs/reference/steps.md)."""
    named = [
        ("nextStep", step.next_step),
        *(("conditionalNextSteps target", target) for target in step.conditional_next_steps.values()),
        ("joinStep", step.join_step),
        *(("parallelNextSteps", target) for target in step.parallel_next_steps),
    ]
    for member, target in named:
        if target not in known and (target or member in ("conditionalNextSteps target", "parallelNextSteps")):
            yield f"{label} {member} references unknown step {quote(target)}"


def _check_boundary_event(event: BoundaryEvent, label: str, known: Known) -> Violations:
    if event.type != "TIMER":
        yield f"{label}: unsupported type {quote(event.type)} (only TIMER is in scope)"
    if not event.duration:
        yield f"{label}: duration is required for TIMER events"
    elif event.type == "TIMER" and parse_delay(event.duration) is None:
        yield f"{label}: invalid ISO-8601 duration {quote(event.duration)}"
    if not event.target_step_id:
        yield f"{label}: targetStepId is required"
    elif event.target_step_id not in known:
        yield f"{label}.targetStepId references unknown step {quote(event.target_step_id)}"


def _check_reachability(definition: Definition) -> Violations:
    if not definition.steps[0].id:
        return
    reached = find_reachable_steps(definition)
    for step in definition.steps:
        if step.id and step.id not in reached:
            yield f"step {quote(step.id)} is unreachable from the first step"
    if not any(step.type == "END" and step.id in reached for step in definition.steps):
        yield "no END step is reachable from the first step"


def _check_members(step: Step, step_type: StepType) -> Violations:
    for has_member, message in RULES[step_type]:
        if not has_member(step):
            yield message
    if step_type == "DECISION_TABLE":
        if step.hit_policy and step.hit_policy not in HIT_POLICIES:
            yield _describe_hit_policy_defect(step.hit_policy)
        for name, is_given in _list_foreign_members(step):
            if is_given:
                yield f"{name} is not allowed"


def _describe_hit_policy_defect(policy: str) -> str:
    base, aggregator = policy[:-1], policy[-1]
    if base in HIT_POLICIES and aggregator in _AGGREGATORS:
        return "aggregator suffix is only valid on hitPolicy C"
    return f"unsupported hitPolicy {quote(policy)}"


def _list_foreign_members(step: Step) -> Iterator[tuple[str, bool]]:
    yield "conditionalNextSteps", bool(step.conditional_next_steps)
    yield "transformations", bool(step.transformations)
    yield "parallelNextSteps", bool(step.parallel_next_steps)
    yield "joinStep", bool(step.join_step)
    yield "jobType", bool(step.job_type)
    yield "delegateClass", bool(step.delegate_class)
    yield "retryCount", bool(step.retry_count)
    yield "boundaryEvents", bool(step.boundary_events)


Required: TypeAlias = tuple[Callable[[Step], object], str]
"""A member that must have something in it, and what is said when it has not."""

_NEXT_STEP: Final[Required] = (lambda step: step.next_step, "nextStep is required")

RULES: Final[Mapping[StepType, tuple[Required, ...]]] = {
    "SERVICE_TASK": ((lambda step: step.job_type, "jobType is required"),),
    "USER_TASK": (),
    "DECISION": ((lambda step: step.conditional_next_steps, "conditionalNextSteps must not be empty"),),
    "DECISION_TABLE": (
        (lambda step: step.decision_table and step.decision_table.rules, "decisionTable.rules must not be empty"),
        _NEXT_STEP,
    ),
    "TRANSFORMATION": (_NEXT_STEP, (lambda step: step.transformations, "transformations must not be empty")),
    "WAIT": (_NEXT_STEP,),
    "PARALLEL_GATEWAY": (
        (lambda step: len(step.parallel_next_steps) >= 2, "parallelNextSteps must have at least 2 entries"),
        (lambda step: step.join_step, "joinStep is required"),
    ),
    "JOIN_GATEWAY": (_NEXT_STEP,),
    "END": (),
}
"""What each step type asks of its own members, beyond the rules for all steps."""
