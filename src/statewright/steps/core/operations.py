"""What can be done to an instance: one function per operation, from a state to a state and effects.

A shell loads the instance under its lock, calls one of these, and in the same transaction stores the new instance and
carries out the effects. No effects means that nothing happened and nothing needs to be stored: reports that come late
or twice are accepted without effect (decision J6). What the caller did wrong is a :class:`Refusal`.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject
from statewright.net import Advance, Moment, NodeId, TimerId, Token, WorkId, advance, start
from statewright.net.effects import ChangePhase, Effect
from statewright.net.events import (
    Cancelled,
    Event,
    HumanCompleted,
    Retried,
    Signalled,
    TaskCompleted,
    TaskFailed,
    TimerFired,
)
from statewright.steps.core.compiling import Process
from statewright.steps.core.definition import StepType
from statewright.steps.core.instance import Instance, status_of
from statewright.steps.core.lifecycle import Transition, transitions
from statewright.steps.core.merging import tidied
from statewright.steps.core.texts import quoted

TERMINAL = "instance is in a terminal state"
WRONG_TYPE = "step type does not match the endpoint"
NO_TASK = "user task not found"
NOT_PARKED = "wait step is not currently parked on the instance"
JOB_FAILED = "job failed"
"""The reason of a failure that came without one."""


class Applied(Struct, frozen=True, kw_only=True):
    """The instance after an operation, and what has to happen together with storing it."""

    instance: Instance
    effects: tuple[Effect, ...]
    transitions: tuple[Transition, ...]
    """What the operation amounts to in the life of the entity."""


class Refusal(Struct, frozen=True):
    """Why an operation is not possible, in the words of the public engine (spec/step-engine.md §1, §11.7)."""

    kind: Literal["bad-request", "not-found", "conflict"]
    reason: str


class NewInstance(Struct, frozen=True, kw_only=True):
    """What is asked for when an instance is started."""

    id: str
    variables: JsonObject = {}
    business_key: str = ""
    """Empty: none."""
    parent_instance_id: str | None = None


def start_instance(process: Process, new: NewInstance, moment: Moment) -> Applied:
    """A new instance, after all the steps that need nobody (§5.1)."""
    step = start(process.net, process.language(), tidied(new.variables), moment)
    instance = Instance(
        id=new.id,
        definition_id=process.definition.id,
        definition_version=process.version,
        status=status_of(process, step.marking),
        marking=step.marking,
        started_at=moment.at,
        completed_at=None if step.marking.phase == "RUNNING" else moment.at,
        business_key=new.business_key or None,
        parent_instance_id=new.parent_instance_id,
    )
    moves = transitions(None, instance.status, step.effects)
    return Applied(instance=instance, effects=step.effects, transitions=moves)


def complete_job(
    process: Process, instance: Instance, job: str, variables: "JsonObject | None", moment: Moment
) -> Applied:
    """A worker's result. While the instance is failed it is kept for a retry (§13.1, §14.3)."""
    return _apply(process, instance, TaskCompleted(WorkId(job), tidied(variables or {})), moment)


def fail_job(process: Process, instance: Instance, job: str, reason: str, moment: Moment) -> Applied:
    """A job failed for good (§14.1): see :func:`statewright.steps.core.jobs.judge_failure` for when it has."""
    return _apply(process, instance, TaskFailed(WorkId(job), reason or JOB_FAILED), moment)


def fire_timer(process: Process, instance: Instance, timer: str, moment: Moment) -> Applied:
    """A boundary timer is due. Without effect it was disarmed, or it is held while the instance is failed (§8.4)."""
    return _apply(process, instance, TimerFired(TimerId(timer)), moment)


def complete_user_task(
    process: Process,
    instance: Instance,
    step_id: str,
    variables: "JsonObject | None",
    moment: Moment,
    *,
    by: str | None = None,
) -> Applied | Refusal:
    """A person's result for the task at a step, the oldest one if there are several (§11.7)."""
    refusal = _refusal(process, instance, step_id, "USER_TASK", Refusal("not-found", NO_TASK))
    token = _working_at(instance, step_id)
    if refusal is not None or token is None or token.work is None:
        return refusal or Refusal("not-found", NO_TASK)
    return _apply(process, instance, HumanCompleted(token.work, tidied(variables or {}), by or None), moment)


def complete_user_task_by_id(
    process: Process,
    instance: Instance,
    task: str,
    variables: "JsonObject | None",
    moment: Moment,
    *,
    by: str | None = None,
) -> Applied | Refusal:
    """As :func:`complete_user_task`, for a task named by its own id."""
    if instance.is_terminal:
        return Refusal("conflict", TERMINAL)
    done = _apply(process, instance, HumanCompleted(WorkId(task), tidied(variables or {}), by or None), moment)
    return done if done.effects else Refusal("not-found", NO_TASK)


def signal(
    process: Process, instance: Instance, step_id: str, variables: "JsonObject | None", moment: Moment
) -> Applied | Refusal:
    """A signal for a WAIT step. It is not kept: the step has to be parked when it comes (§11.7)."""
    refusal = _refusal(process, instance, step_id, "WAIT", Refusal("conflict", NOT_PARKED))
    if refusal is not None or _working_at(instance, step_id) is None:
        return refusal or Refusal("conflict", NOT_PARKED)
    return _apply(process, instance, Signalled(NodeId(step_id), tidied(variables or {})), moment)


def cancel(process: Process, instance: Instance, reason: str, moment: Moment) -> Applied | Refusal:
    """Stop an instance and everything it has going on (§14.4). ``reason`` may be empty."""
    if instance.is_terminal:
        return Refusal("conflict", TERMINAL)
    return _apply(process, instance, Cancelled(reason), moment)


def retry_step(
    process: Process, instance: Instance, step_id: str, variables: "JsonObject | None", moment: Moment
) -> Applied | Refusal:
    """Have the step that failed the instance run again, after a change to the variables (§14.3)."""
    if step_id not in process.steps:
        return Refusal("not-found", f"step {quoted(step_id)} not found in definition")
    if instance.status != "FAILED":
        return Refusal("conflict", "instance is not in FAILED state")
    if not any(token.stage == "FAILED" and token.node == step_id for token in instance.marking.tokens):
        return Refusal("conflict", f"latest attempt of step {quoted(step_id)} is not FAILED")
    return _apply(process, instance, Retried(NodeId(step_id), tidied(variables or {})), moment)


def _apply(process: Process, instance: Instance, event: Event, moment: Moment) -> Applied:
    step = advance(process.net, process.language(), instance.marking, event, moment)
    if not step.effects:
        return Applied(instance=instance, effects=(), transitions=())
    after = _moved(process, instance, step, moment)
    moves = transitions(instance.status, after.status, step.effects)
    return Applied(instance=after, effects=step.effects, transitions=moves)


def _moved(process: Process, instance: Instance, step: Advance, moment: Moment) -> Instance:
    completed_at = instance.completed_at
    for effect in step.effects:
        if isinstance(effect, ChangePhase):
            completed_at = None if effect.phase == "RUNNING" else moment.at
    status = status_of(process, step.marking)
    return replace(instance, marking=step.marking, status=status, completed_at=completed_at)


def _refusal(
    process: Process, instance: Instance, step_id: str, step_type: StepType, unknown: Refusal
) -> Refusal | None:
    step = process.steps.get(step_id)
    if step is None:
        return unknown
    if step.type != step_type:
        return Refusal("bad-request", WRONG_TYPE)
    return Refusal("conflict", TERMINAL) if instance.is_terminal else None


def _working_at(instance: Instance, step_id: str) -> Token | None:
    tokens = instance.marking.tokens
    return next((token for token in tokens if token.node == step_id and token.stage == "WORKING"), None)
