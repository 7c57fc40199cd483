"""Scheduled transitions: when they are due, and what becomes of them (spec/workflows.md §13).

Two decisions are pure functions. ``reconciled`` compares what the settled state of an entity asks for with the tasks
there are; ``verdict`` looks at a task whose time has come. The shells around them are ``Reconciler``, which lets
calculation members decide when, and the use case that fires.

All times are in epoch milliseconds, ``now`` too.
"""

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from statewright.compute.callout import Reply
from statewright.engine import events
from statewright.engine.callouts import Desk, function_request
from statewright.engine.events import Event
from statewright.engine.model import Model
from statewright.engine.run import Run
from statewright.engine.subject import Subject
from statewright.entity import Entity
from statewright.failures import NoComputeMember, ScheduleFunctionInvalidResult, WorkflowFailed
from statewright.identity import EntityId, TenantId, TransactionId
from statewright.jsonval.values import JsonValue
from statewright.storage.schedules import Arming, ScheduledTask, TaskKey
from statewright.workflow import Schedule, ScheduleFunction, Transition, Workflow, governing

LATEST = 2**63 - 1
"""What storage can hold; a delay that ends later ends never."""


class Due(Struct, frozen=True, kw_only=True):
    """A transition is to fire at an instant, no later than ``timeout_ms`` after it; None = any time later."""

    fire_at: int
    timeout_ms: int | None = None


class BornExpired(Struct, frozen=True, kw_only=True):
    """A schedule that is over before it begins."""

    fire_at: int
    expire_at: int


Timing: TypeAlias = Due | BornExpired


def after_delay(schedule: Schedule, now: int) -> Due:
    """The timing of a schedule without function."""
    timeout = schedule.timeout_ms
    return Due(fire_at=_storable(now + schedule.delay_ms), timeout_ms=None if timeout is None else _storable(timeout))


def as_answered(function: str, reply: Reply, now: int) -> Timing:
    """The timing that a schedule function has answered (§13.3). Raises ``ScheduleFunctionInvalidResult``."""
    members = _members(function, reply)
    fire_at = _one_of(function, members, "fireAt", "fireAfterMs", now)
    if fire_at is None:
        raise ScheduleFunctionInvalidResult(function, "neither fireAt nor fireAfterMs is given")
    expire_at = _one_of(function, members, "expireAt", "expireAfterMs", fire_at)
    if expire_at is None:
        return Due(fire_at=_storable(fire_at))
    if expire_at <= fire_at:
        return BornExpired(fire_at=fire_at, expire_at=expire_at)
    return Due(fire_at=_storable(fire_at), timeout_ms=_storable(expire_at - fire_at))


_FIELDS = frozenset({"fireAt", "fireAfterMs", "expireAt", "expireAfterMs"})


def _members(function: str, reply: Reply) -> dict[str, int]:
    """The given members of a result. ``null`` stands for absent."""
    if reply.result_kind != "Schedule":
        raise ScheduleFunctionInvalidResult(function, f'resultKind is not "Schedule" but {reply.result_kind!r}')
    if not isinstance(reply.result, dict):
        raise ScheduleFunctionInvalidResult(function, "the result is not an object")
    unknown = sorted(reply.result.keys() - _FIELDS)
    if unknown:
        raise ScheduleFunctionInvalidResult(function, f"unknown fields: {', '.join(unknown)}")
    return {name: _integer(function, name, value) for name, value in reply.result.items() if value is not None}


def _integer(function: str, name: str, value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ScheduleFunctionInvalidResult(function, f"{name} is not an integer")
    return value


def _one_of(function: str, members: Mapping[str, int], absolute: str, relative: str, since: int) -> int | None:
    """The instant that one of two members gives; None when neither does."""
    if absolute in members and relative in members:
        raise ScheduleFunctionInvalidResult(function, f"{absolute} and {relative} exclude each other")
    return since + members[relative] if relative in members else members.get(absolute)


def _storable(number: int) -> int:
    return max(-LATEST, min(number, LATEST))


class Reconciled(Struct, frozen=True, kw_only=True):
    """What a settled state asks for: tasks to arm, tasks to withdraw, events to record in order.

    ``withdraw`` maps each task to its stored arming; None when only the transaction under way knows it.
    """

    arm: Mapping[TaskKey, Due]
    withdraw: Mapping[TaskKey, TransactionId | None]
    events: tuple[Event, ...]


def reconciled(
    state: str, timings: Mapping[str, Timing], tasks: Mapping[TaskKey, TransactionId | None], now: int
) -> Reconciled:
    """Arm what has a time in ``state``; withdraw what belongs to other states and what is born expired (§13.2).

    ``timings`` are those of the state's transitions by name, in order; ``tasks`` all tasks of the entity.
    """
    due = {name: timing for name, timing in timings.items() if isinstance(timing, Due)}
    expired = {name: timing for name, timing in timings.items() if isinstance(timing, BornExpired)}
    left = [key for key in tasks if key.state != state]
    stillborn = [key for key in (TaskKey(state, name) for name in expired) if key in tasks]
    return Reconciled(
        arm={TaskKey(state, name): timing for name, timing in due.items()},
        withdraw={key: tasks[key] for key in (*left, *stillborn)},
        events=(
            *(events.schedule_armed(name, state, timing.fire_at, now) for name, timing in due.items()),
            *(events.schedule_cancelled(key.transition, key.state) for key in left),
            *(
                events.schedule_born_expired(name, state, timing.fire_at, timing.expire_at)
                for name, timing in expired.items()
            ),
        ),
    )


class Tasks(Protocol):
    """Whoever knows the committed tasks of entities."""

    async def of_entity(self, tenant: TenantId, entity: EntityId) -> Mapping[TaskKey, ScheduledTask]: ...


class Reconciler(Struct, frozen=True, kw_only=True):
    """Arms and withdraws the tasks of an entity whose run has settled, as part of the run's transaction."""

    desk: Desk
    tasks: Tasks

    async def reconcile(self, run: Run, subject: Subject) -> None:
        """Stage what the settled state asks for. A workflow without any scheduled transition changes nothing.

        Raises ``WorkflowFailed``, ``ScheduleFunctionInvalidResult`` and the failures of ``Callouts.dispatch``.
        """
        if not run.workflow.has_schedules:
            return
        now = run.unit.now // 1000
        scheduled = run.workflow.scheduled_of(subject.state)
        timings = {transition.name: await self._timing(run, subject, transition, now) for transition in scheduled}
        # One more round trip than other runs take: the audit trail names every task that is withdrawn.
        stored = {} if run.anchor.is_new else await self.tasks.of_entity(run.unit.tenant, subject.id)
        staged = run.unit.tasks
        decided = reconciled(subject.state, timings, staged.over(subject.id, stored), now)
        for key, due in decided.arm.items():
            staged.arm(subject.id, key, _arming(due, run, now))
        for key, armed_in in decided.withdraw.items():
            staged.withdraw(subject.id, key, armed_in)
        for event in decided.events:
            run.record(event)

    async def _timing(self, run: Run, subject: Subject, transition: Transition, now: int) -> Timing:
        schedule = transition.schedule
        assert schedule is not None, "only scheduled transitions get here"  # noqa: S101
        if schedule.function is None:
            return after_delay(schedule, now)
        return await self._ask(run, subject, transition, schedule.function, now)

    async def _ask(
        self, run: Run, subject: Subject, transition: Transition, function: ScheduleFunction, now: int
    ) -> Timing:
        try:
            reply = await self.desk.ask(function_request(function), run, subject, transition)
        except NoComputeMember as nobody:
            raise NoComputeMember(f"{FAILED}: {nobody.message}") from nobody
        run.unit.warnings += [f"function {function.name}: {warning}" for warning in reply.warnings]
        if not reply.success:
            raise WorkflowFailed(f"{FAILED}: function dispatch failed: {reply.error or 'function returned failure'}")
        return as_answered(function.name, reply, now)


FAILED = "failed to reconcile scheduled tasks"


def _arming(due: Due, run: Run, now: int) -> Arming:
    return Arming(
        model=run.model.id,
        fire_at=due.fire_at,
        timeout_ms=due.timeout_ms,
        armed_at=now,
        principal=run.unit.origin,
    )


class Fire(Struct, frozen=True, kw_only=True):
    """Take the transition."""

    entity: Entity
    model: Model
    workflow: Workflow
    transition: Transition


class Expire(Struct, frozen=True):
    """It is too late: remove the task, and say so."""

    event: Event


class Remove(Struct, frozen=True):
    """The task means nothing any more; nobody needs to be told."""


class Keep(Struct, frozen=True):
    """Not now; a later scan will see."""


Verdict: TypeAlias = Fire | Expire | Remove | Keep


def verdict(task: ScheduledTask, entity: Entity | None, model: Model | None, *, now: int, grace_ms: int) -> Verdict:
    """What becomes of a task that was taken: steps 3 to 7 of §13.5.

    ``model`` is the entity's. A transition that is disabled or no longer scheduled does not fire (§18).
    """
    if entity is None or model is None or entity.state != task.key.state:
        return Remove()
    lateness, timeout = now - task.arming.fire_at, task.arming.timeout_ms
    if lateness < 0:
        return Keep()
    workflow = governing(model.workflows, entity.state, entity.workflow) if model.workflows else None
    transition = workflow.transition_named(entity.state, task.key.transition) if workflow else None
    if workflow is None or transition is None or transition.disabled or transition.schedule is None:
        return Remove()
    if timeout is None or lateness <= timeout:
        return Fire(entity=entity, model=model, workflow=workflow, transition=transition)
    if lateness <= timeout + grace_ms:
        return Keep()
    return Expire(events.schedule_expired(transition.name, entity.state, lateness, timeout, grace_ms))
