"""Firing a scheduled transition: one task, one transaction (spec/workflows.md §13.5)."""

from typing import Literal, TypeAlias, assert_never

from statewright.engine.engine import ScheduledFire
from statewright.engine.run import record
from statewright.engine.schedules import Expire, Fire, Keep, Remove, verdict
from statewright.entity import Principal
from statewright.failures import Conflict
from statewright.identity import TenantId
from statewright.jsonval.codec import decode
from statewright.services.runtime import Caller, Runtime
from statewright.storage.schedules import ScheduledTask
from statewright.storage.unit_of_work import UnitOfWork

Outcome: TypeAlias = Literal["fired", "declined", "expired", "removed", "kept"]
"""What became of a task. Only a kept one is still stored, or has been armed again."""


def system(tenant: TenantId) -> Principal:
    """Who executes what no client asked for."""
    return Principal(id="system", name="system", kind="system", tenant=tenant)


async def fire(runtime: Runtime, task: ScheduledTask, *, grace_ms: int) -> Outcome:
    """Let a taken task take effect, at most once whoever else has taken it.

    Whoever commits first wins: the others find the task gone, or the entity at another version, and keep their hands
    off. Raises whatever a run can fail with; the task is still stored then.
    """
    async with runtime.unit(Caller(system(task.tenant)), origin=task.arming.principal) as unit:
        try:
            return await _settle(runtime, unit, task, grace_ms)
        except Conflict:
            return "kept"


async def _settle(runtime: Runtime, unit: UnitOfWork, task: ScheduledTask, grace_ms: int) -> Outcome:
    # The entity first: should the task be armed again after that, the version read here is no longer the last one.
    entity = await unit.entity(task.entity)
    stored = (await runtime.tasks.of_entity(task.tenant, task.entity)).get(task.key)
    if stored is None or stored.armed_in != task.armed_in:
        return "kept"
    definition = None if entity is None else await runtime.definitions.by_id(task.tenant, entity.model)
    model = definition.model if definition else None
    decision = verdict(task, entity, model, now=unit.started_at // 1000, grace_ms=grace_ms)
    match decision:
        case Keep():
            return "kept"
        case Remove():
            return await _withdrawn(unit, task, "removed")
        case Expire(event):
            record(unit, task.entity, event)
            return await _withdrawn(unit, task, "expired")
        case Fire():
            return await _fired(runtime, unit, task, decision)
        case _:
            assert_never(decision)


async def _withdrawn(unit: UnitOfWork, task: ScheduledTask, outcome: Outcome) -> Outcome:
    unit.tasks.withdraw(task.entity, task.key, task.armed_in)
    await unit.commit()
    return outcome


async def _fired(runtime: Runtime, unit: UnitOfWork, task: ScheduledTask, decision: Fire) -> Outcome:
    request = ScheduledFire(
        entity=decision.entity,
        document=decode(decision.entity.document),
        workflow=decision.workflow,
        transition=decision.transition,
        task=task,
    )
    fired = await runtime.engine.fire(unit, decision.model, request)
    await unit.commit()
    return "fired" if fired else "declined"
