"""What can be done to an instance: one function per operation, from a state to a state and effects.

A shell loads the instance under its lock, calls one of these, and in the same transaction stores the new instance and
carries out the effects. No effects means that nothing happened and nothing needs to be stored: reports that come late
or twice are accepted without effect (decision J6). What the caller did wrong is a :class:`Rejection`.
"""

from typing import Final, TypeAlias

from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, quote, tidy_numbers
from statewright.net import Moment, NodeId, TimerId, Token, WorkId, advance, start
from statewright.net.effects import (
    Cancelled,
    Event,
    HumanTaskCompleted,
    Retried,
    Signalled,
    TaskCompleted,
    TaskFailed,
    TimerFired,
)
from statewright.processes import language as processes
from statewright.processes.changes import JOB_FAILED, find_completion
from statewright.processes.language import NewInstance, Rejection
from statewright.steps.definition import StepType
from statewright.steps.instance import Instance, derive_status, list_transitions
from statewright.steps.language import Process

TERMINAL: Final = "instance is in a terminal state"
WRONG_TYPE: Final = "step type does not match the endpoint"
NO_TASK: Final = "user task not found"
NOT_PARKED: Final = "wait step is not currently parked on the instance"


Applied: TypeAlias = processes.Applied[Instance]
"""An instance of the step language after an operation."""


def start_instance(process: Process, new: NewInstance, moment: Moment) -> Applied:
    """A new instance, after all the steps that wait for nothing (docs/reference/steps.md#advancing)."""
    step = start(process.net, process.create_language(), tidy_numbers(new.variables), moment)
    instance = Instance(
        id=new.id,
        definition_id=process.definition.id,
        definition_version=process.version,
        status=derive_status(process, step.marking),
        marking=step.marking,
        started_at=moment.at,
        completed_at=None if step.marking.phase == "RUNNING" else moment.at,
        business_key=new.business_key or None,
        parent_instance_id=new.parent_instance_id,
    )
    moves = list_transitions(None, instance.status, step.effects)
    return Applied(instance=instance, effects=step.effects, transitions=moves)


def complete_job(
    process: Process, instance: Instance, job: str, variables: "JsonObject | None", moment: Moment
) -> Applied:
    """A worker's result. While the instance is failed it is kept for a retry (docs/reference/steps.md#the-contract,
    docs/reference/steps.md#retrying-a-failed-instance).
    """
    return _apply(process, instance, TaskCompleted(WorkId(job), tidy_numbers(variables or {})), moment)


def fail_job(process: Process, instance: Instance, job: str, reason: str, moment: Moment) -> Applied:
    """A job failed for good (docs/reference/steps.md#when-a-job-fails): see
    :func:`statewright.processes.changes.decide_retry` for when it has.
    """
    return _apply(process, instance, TaskFailed(WorkId(job), reason or JOB_FAILED), moment)


def fire_timer(process: Process, instance: Instance, timer: str, moment: Moment) -> Applied:
    """A boundary timer is due. Without effect it was disarmed, or it is held while the instance is failed
    (docs/reference/steps.md#guards).
    """
    return _apply(process, instance, TimerFired(TimerId(timer)), moment)


def complete_user_task(
    process: Process,
    instance: Instance,
    step_id: str,
    variables: "JsonObject | None",
    moment: Moment,
    *,
    by: str | None = None,
) -> Applied | Rejection:
    """A person's result for the task at a step, the oldest one if there are several
    (docs/reference/steps.md#user-tasks-and-signals).
    """
    refusal = _check_step(process, instance, step_id, "USER_TASK", Rejection("not-found", NO_TASK))
    token = _find_working_token(instance, step_id)
    if refusal is not None or token is None or token.work is None:
        return refusal or Rejection("not-found", NO_TASK)
    return _apply(process, instance, HumanTaskCompleted(token.work, tidy_numbers(variables or {}), by or None), moment)


def complete_user_task_by_id(
    process: Process,
    instance: Instance,
    task: str,
    variables: "JsonObject | None",
    moment: Moment,
    *,
    by: str | None = None,
) -> Applied | Rejection:
    """As :func:`complete_user_task`, for a task named by its own id."""
    if instance.is_terminal:
        return Rejection("conflict", TERMINAL)
    done = _apply(
        process, instance, HumanTaskCompleted(WorkId(task), tidy_numbers(variables or {}), by or None), moment
    )
    return done if done.effects else Rejection("not-found", NO_TASK)


def signal_step(
    process: Process, instance: Instance, step_id: str, variables: "JsonObject | None", moment: Moment
) -> Applied | Rejection:
    """A signal for a WAIT step. It is not kept: the step has to be parked when it comes
    (docs/reference/steps.md#user-tasks-and-signals).
    """
    refusal = _check_step(process, instance, step_id, "WAIT", Rejection("conflict", NOT_PARKED))
    if refusal is not None or _find_working_token(instance, step_id) is None:
        return refusal or Rejection("conflict", NOT_PARKED)
    return _apply(process, instance, Signalled(NodeId(step_id), tidy_numbers(variables or {})), moment)


def cancel_instance(process: Process, instance: Instance, reason: str, moment: Moment) -> Applied | Rejection:
    """Stop an instance and everything it has going on (docs/reference/steps.md#cancelling). ``reason`` may be empty."""
    if instance.is_terminal:
        return Rejection("conflict", TERMINAL)
    return _apply(process, instance, Cancelled(reason), moment)


def retry_step(
    process: Process, instance: Instance, step_id: str, variables: "JsonObject | None", moment: Moment
) -> Applied | Rejection:
    """Have the step that failed the instance run again, after a change to the variables
    (docs/reference/steps.md#retrying-a-failed-instance).
    """
    if step_id not in process.steps:
        return Rejection("not-found", f"step {quote(step_id)} not found in definition")
    if instance.status != "FAILED":
        return Rejection("conflict", "instance is not in FAILED state")
    if not any(token.stage == "FAILED" and token.node == step_id for token in instance.marking.tokens):
        return Rejection("conflict", f"latest attempt of step {quote(step_id)} is not FAILED")
    return _apply(process, instance, Retried(NodeId(step_id), tidy_numbers(variables or {})), moment)


def _apply(process: Process, instance: Instance, event: Event, moment: Moment) -> Applied:
    step = advance(process.net, process.create_language(), instance.marking, event, moment)
    if not step.effects:
        return Applied(instance=instance, effects=(), transitions=())
    after = replace(
        instance,
        marking=step.marking,
        status=derive_status(process, step.marking),
        completed_at=find_completion(instance.completed_at, step.effects, moment.at),
    )
    moves = list_transitions(instance.status, after.status, step.effects)
    return Applied(instance=after, effects=step.effects, transitions=moves)


def _check_step(
    process: Process, instance: Instance, step_id: str, step_type: StepType, unknown: Rejection
) -> Rejection | None:
    step = process.steps.get(step_id)
    if step is None:
        return unknown
    if step.type != step_type:
        return Rejection("bad-request", WRONG_TYPE)
    return Rejection("conflict", TERMINAL) if instance.is_terminal else None


def _find_working_token(instance: Instance, step_id: str) -> Token | None:
    tokens = instance.marking.tokens
    return next((token for token in tokens if token.node == step_id and token.stage == "WORKING"), None)
