"""Scheduled transitions: when they are due, which tasks they need, and what a due task leads to
(docs/reference/workflows.md#scheduled-transitions).

Two decisions are pure functions. ``reconcile_tasks`` compares what the settled state of an entity needs with the
tasks there are; ``decide_task`` looks at a task whose time has come. The first is carried out by ``Reconciler``, which
lets calculation members decide when, the second by the scheduler (``statewright.services.scheduler``).

All times are in epoch milliseconds, ``now`` too.
"""

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from statewright.compute.callout import CalloutResult
from statewright.engine import events
from statewright.engine.callouts import CalloutDispatcher, build_function_spec
from statewright.engine.models import Model
from statewright.engine.run import EntityDraft, Run, locate_failure
from statewright.entity import Arming, Entity, Event, ScheduledTask, TaskKey
from statewright.failures import Failure, NoComputeMember, ScheduleFunctionInvalidResult, WorkflowFailed
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.jsonval.values import JsonValue, is_whole
from statewright.telemetry.tracing import get_trace
from statewright.workflow import Schedule, ScheduleFunction, Transition, Workflow, find_governing

MAX_INSTANT_MS: Final = 2**63 - 1
"""The latest instant that storage can hold (a signed 64-bit integer); later ones are cut to it."""


class Due(Struct, frozen=True, kw_only=True):
    """A transition is to fire at an instant, no later than ``timeout_ms`` after it; None = any time later."""

    fire_at: int
    timeout_ms: int | None = None


class BornExpired(Struct, frozen=True, kw_only=True):
    """A schedule whose expiry is not after its fire time: no task is armed."""

    fire_at: int
    expire_at: int


Timing: TypeAlias = Due | BornExpired


def compute_delay_timing(schedule: Schedule, now: int) -> Due:
    """The timing of a schedule without function."""
    timeout = schedule.timeout_ms
    return Due(fire_at=_clamp(now + schedule.delay_ms), timeout_ms=None if timeout is None else _clamp(timeout))


def parse_timing(function: str, reply: CalloutResult, now: int) -> Timing:
    """The timing in the result of a schedule function (docs/reference/workflows.md#schedule-functions).

    Raises ``ScheduleFunctionInvalidResult``.
    """
    members = _read_members(function, reply)
    fire_at = _resolve_instant(function, members, "fireAt", "fireAfterMs", now)
    if fire_at is None:
        raise ScheduleFunctionInvalidResult(function, "neither fireAt nor fireAfterMs is given")
    expire_at = _resolve_instant(function, members, "expireAt", "expireAfterMs", fire_at)
    if expire_at is None:
        return Due(fire_at=_clamp(fire_at))
    if expire_at <= fire_at:
        return BornExpired(fire_at=fire_at, expire_at=expire_at)
    return Due(fire_at=_clamp(fire_at), timeout_ms=_clamp(expire_at - fire_at))


_FIELDS: Final = frozenset({"fireAt", "fireAfterMs", "expireAt", "expireAfterMs"})


def _read_members(function: str, reply: CalloutResult) -> dict[str, int]:
    """The members of a result, without those that are ``null``."""
    if reply.result_kind != "Schedule":
        raise ScheduleFunctionInvalidResult(function, f'resultKind is not "Schedule" but {reply.result_kind!r}')
    if not isinstance(reply.result, dict):
        raise ScheduleFunctionInvalidResult(function, "the result is not an object")
    unknown = sorted(reply.result.keys() - _FIELDS)
    if unknown:
        raise ScheduleFunctionInvalidResult(function, f"unknown fields: {', '.join(unknown)}")
    return {name: _require_integer(function, name, value) for name, value in reply.result.items() if value is not None}


def _require_integer(function: str, name: str, value: JsonValue) -> int:
    if not is_whole(value):
        raise ScheduleFunctionInvalidResult(function, f"{name} is not an integer")
    return value


def _resolve_instant(function: str, members: Mapping[str, int], absolute: str, relative: str, since: int) -> int | None:
    """The instant that one of two members gives; None when neither does."""
    if absolute in members and relative in members:
        raise ScheduleFunctionInvalidResult(function, f"{absolute} and {relative} exclude each other")
    return since + members[relative] if relative in members else members.get(absolute)


def _clamp(number: int) -> int:
    return max(-MAX_INSTANT_MS, min(number, MAX_INSTANT_MS))


class Reconciliation(Struct, frozen=True, kw_only=True):
    """What a settled state needs: tasks to arm, tasks to withdraw, events to record in order.

    ``withdraw`` maps each task to its stored arming; None when only the transaction under way has armed it.
    """

    arm: Mapping[TaskKey, Due]
    withdraw: Mapping[TaskKey, TransactionId | None]
    events: tuple[Event, ...]


def reconcile_tasks(
    state: str, timings: Mapping[str, Timing], tasks: Mapping[TaskKey, TransactionId | None], now: int
) -> Reconciliation:
    """Arm the transitions that have a time in ``state``; withdraw tasks of other states and those that are born expired
    (docs/reference/workflows.md#arming).

    ``timings`` are those of the state's transitions by name, in order; ``tasks`` all tasks of the entity.
    """
    due = {name: timing for name, timing in timings.items() if isinstance(timing, Due)}
    expired = {name: timing for name, timing in timings.items() if isinstance(timing, BornExpired)}
    left = [key for key in tasks if key.state != state]
    stillborn = [key for key in (TaskKey(state, name) for name in expired) if key in tasks]
    return Reconciliation(
        arm={TaskKey(state, name): timing for name, timing in due.items()},
        withdraw={key: tasks[key] for key in (*left, *stillborn)},
        events=(
            *(events.build_schedule_armed_event(name, state, timing.fire_at, now) for name, timing in due.items()),
            *(events.build_schedule_cancelled_event(key.transition, key.state) for key in left),
            *(
                events.build_born_expired_event(name, state, timing.fire_at, timing.expire_at)
                for name, timing in expired.items()
            ),
        ),
    )


class TaskReader(Protocol):
    """Reads the committed tasks of an entity."""

    async def list_for_entity(self, tenant: TenantId, entity: EntityId) -> Mapping[TaskKey, ScheduledTask]: ...


class Reconciler(Struct, frozen=True, kw_only=True):
    """Arms and withdraws the tasks of an entity whose run has settled, as part of the run's transaction."""

    dispatcher: CalloutDispatcher
    tasks: TaskReader

    async def reconcile(self, run: Run, draft: EntityDraft) -> None:
        """Stage what the settled state of a workflow with scheduled transitions needs.

        Raises ``WorkflowFailed``, ``ScheduleFunctionInvalidResult`` and the failures of ``CalloutTransport.dispatch``.
        """
        now = run.unit.now // 1000
        scheduled = run.workflow.list_scheduled(draft.state)
        timings = {transition.name: await self._compute_timing(run, draft, transition, now) for transition in scheduled}
        # One more round trip than other runs take: the audit trail names every task that is withdrawn.
        stored = {} if run.writer.is_new else await self.tasks.list_for_entity(run.unit.tenant, draft.id)
        staged = run.unit.tasks
        reconciliation = reconcile_tasks(draft.state, timings, staged.overlay(draft.id, stored), now)
        for key, due in reconciliation.arm.items():
            staged.arm(draft.id, key, _build_arming(due, run, now))
        for key, armed_in in reconciliation.withdraw.items():
            staged.withdraw(draft.id, key, armed_in)
        for event in reconciliation.events:
            run.record(event)

    async def _compute_timing(self, run: Run, draft: EntityDraft, transition: Transition, now: int) -> Timing:
        schedule = transition.schedule
        assert schedule is not None, "only scheduled transitions get here"  # noqa: S101
        if schedule.function is None:
            return compute_delay_timing(schedule, now)
        try:
            return await self._ask_function(run, draft, transition, schedule.function, now)
        except Failure as failure:
            raise locate_failure(failure, run, draft, transition, schedule.function.name) from failure.__cause__

    async def _ask_function(
        self, run: Run, draft: EntityDraft, transition: Transition, function: ScheduleFunction, now: int
    ) -> Timing:
        try:
            reply = await self.dispatcher.ask(build_function_spec(function), run, draft, transition)
        except NoComputeMember as error:
            raise NoComputeMember(f"{RECONCILE_FAILED}: {error.message}") from error
        run.tell_warnings("function", function.name, reply.warnings)
        if not reply.success:
            raise WorkflowFailed(
                f"{RECONCILE_FAILED}: function dispatch failed: {reply.error or 'function returned failure'}"
            )
        return parse_timing(function.name, reply, now)


RECONCILE_FAILED: Final = "failed to reconcile scheduled tasks"


def _build_arming(due: Due, run: Run, now: int) -> Arming:
    trace = get_trace()
    return Arming(
        model=run.model.id,
        fire_at=due.fire_at,
        timeout_ms=due.timeout_ms,
        armed_at=now,
        principal=run.unit.origin,
        trace=None if trace is None else trace.traceparent,
    )


class FireTask(Struct, frozen=True, kw_only=True):
    """The task is due: take the transition."""

    entity: Entity
    model: Model
    workflow: Workflow
    transition: Transition


class ExpireTask(Struct, frozen=True):
    """The task has expired: remove it, and record ``event``."""

    event: Event


class RemoveTask(Struct, frozen=True):
    """The entity, state or transition it was armed for is gone: remove the task without an event."""


class KeepTask(Struct, frozen=True):
    """Not due yet, or late by no more than the grace period allows: leave the task to a later scan."""


TaskDecision: TypeAlias = FireTask | ExpireTask | RemoveTask | KeepTask


def decide_task(
    task: ScheduledTask, entity: Entity | None, model: Model | None, *, now: int, grace_ms: int
) -> TaskDecision:
    """What to do with a task that was taken: steps 3 to 7 of docs/reference/workflows.md#firing.

    ``model`` is the entity's. ``grace_ms``: how long after its timeout a task is kept before it expires. A transition
    that is disabled or no longer scheduled does not fire (docs/reference/workflows.md#workflows).
    """
    if entity is None or model is None or entity.state != task.key.state:
        return RemoveTask()
    lateness, timeout = now - task.arming.fire_at, task.arming.timeout_ms
    if lateness < 0:
        return KeepTask()
    workflow = find_governing(model.workflows, entity.state, entity.workflow) if model.workflows else None
    transition = workflow.find_transition(entity.state, task.key.transition) if workflow else None
    if workflow is None or transition is None or transition.disabled or transition.schedule is None:
        return RemoveTask()
    if timeout is None or lateness <= timeout:
        return FireTask(entity=entity, model=model, workflow=workflow, transition=transition)
    if lateness <= timeout + grace_ms:
        return KeepTask()
    return ExpireTask(events.build_schedule_expired_event(transition.name, entity.state, lateness, timeout, grace_ms))
