"""Advancing instances: load, decide, commit; from the beginning when somebody else was faster (spec §18, §25.4).

An advance holds nothing in the database while it is computed. It commits against the version it was computed from, with
everything it amounts to in one statement; so of any number of completions, signals, timers and cancellations that meet,
each is decided on what the one before it left, in this process or in another. Nothing is applied twice, since a job, a
task or a timer that had its effect is no longer part of the instance.
"""

import asyncio
import time
from collections.abc import Callable
from random import Random

from msgspec import Struct

from statewright.engine.anchor import demand
from statewright.entity import Actor
from statewright.failures import (
    BadRequest,
    BusinessKeyInUse,
    Conflict,
    StepBadRequest,
    StepConflict,
    StepNotFound,
    UniqueViolation,
)
from statewright.identity import EntityId, TenantId, TransactionId
from statewright.net import IDS_PER_MOMENT, Moment
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import builtin
from statewright.services.steps.documents import instance_of
from statewright.services.steps.recent import MAX_VARIABLES, Loaded
from statewright.services.steps.writing import Advance, entered_types, entity_id, entity_of, job_types, stage, uuid
from statewright.steps.core import Applied, Changes, Instance, Process, Refusal, changes
from statewright.steps.core.instance import IN_FLIGHT
from statewright.storage.unit_of_work import UnitOfWork

Operation = Callable[[Process, Instance, Moment], Applied | Refusal]
"""What is to be done to an instance: one of ``steps.core.operations``, the rest of its arguments filled in."""

ATTEMPTS = 50
"""How often an advance is begun before its caller is told of the conflict; nobody is that unlucky by chance."""

PATIENCE_S = 20.0
"""After so long it is not begun again: somebody else has locked the row, and callers do not wait for ever."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.05

_CHILD_OFFSET = IDS_PER_MOMENT - 1

_jitter = Random()  # noqa: S311 - spreads retries, guards nothing


class Advanced(Struct, frozen=True, kw_only=True):
    """What an operation came to: the instance afterwards, and what changed beside it; None when it had no effect."""

    instance: Instance
    changed: Changes | None
    transaction_id: TransactionId
    """That wrote the instance last."""


class _Stale(Exception):
    """What was decided may rest on an old version of the instance."""


async def advance(
    runtime: Runtime,
    caller: Caller,
    instance_id: EntityId,
    operation: Operation,
    *,
    kind: str,
    unknown: StepNotFound,
    origin: Actor | None = None,
    if_match: str | None = None,
) -> Advanced:
    """Do something to an instance; ``kind`` names the transaction in the metrics.

    ``if_match`` is the version that the client demands; another one raises ``EntityModified``.

    Raises ``unknown`` when there is no such instance, the failure of a refusal, ``BusinessKeyInUse``,
    ``StorageUnavailable``, ``Conflict``.
    """
    refuse_joined(caller)
    tenant, parts = caller.tenant, runtime.steps
    pause = FIRST_PAUSE_S
    asked = time.perf_counter()
    async with parts.turns.at(tenant, instance_id):
        parts.tally.waits["instance.for_update"].observe(time.perf_counter() - asked)
        recent = None if if_match is not None else parts.recent.get(tenant, instance_id)
        for _ in range(ATTEMPTS):
            loaded = recent or await _load(runtime, tenant, instance_id)
            if loaded is None:
                raise unknown
            if if_match is not None:
                demand(loaded.entity, if_match)
            try:
                return await _attempt(
                    runtime, caller, loaded, operation, kind=kind, origin=origin, surely=recent is None
                )
            except _Stale:
                recent = None
            except Conflict:
                parts.recent.drop(tenant, instance_id)
                if time.perf_counter() - asked > PATIENCE_S:
                    raise
                if recent is None:
                    parts.tally.conflicts += 1
                    await asyncio.sleep(pause * _jitter.uniform(0.5, 1.5))
                    pause = min(2 * pause, LONGEST_PAUSE_S)
                recent = None
    raise Conflict("too many others change this instance")


async def create(
    runtime: Runtime,
    caller: Caller,
    applied: Applied,
    process: Process,
    moment: Moment,
    *,
    origin: Actor | None = None,
    beside: Callable[[UnitOfWork], None] | None = None,
) -> Instance:
    """Make a new instance durable, together with what else is staged ``beside`` it.

    Raises ``BusinessKeyInUse``, ``Conflict`` for an id that is taken.
    """
    refuse_joined(caller)
    await equip(runtime, caller.tenant)
    step = Advance(
        process=process,
        before=None,
        applied=applied,
        at=moment.at,
        base=None,
        child_ids=_child_ids(applied, moment),
    )
    async with runtime.unit(caller, origin=origin) as unit:
        if beside is not None:
            beside(unit)
        await _commit(runtime, unit, step, kind="instance.start")
    return applied.instance


def refuse_joined(caller: Caller) -> None:
    """Instances commit on their own, since others wait for their jobs. Raises ``BadRequest`` in a transaction."""
    if caller.transaction is not None:
        raise BadRequest("instances, definitions and user tasks cannot be changed inside another transaction")


async def equip(runtime: Runtime, tenant: TenantId) -> None:
    """Make sure that the tenant has the built-in models."""
    parts = runtime.steps
    if tenant in parts.equipped:
        return
    for model in builtin.KEYS:
        if await runtime.definitions.by_id(tenant, model) is None:
            await builtin.equip(runtime.pool, tenant)
            for made in builtin.KEYS:
                runtime.definitions.forget(tenant, made)
            break
    parts.equipped.add(tenant)


async def find(runtime: Runtime, tenant: TenantId, instance_id: str) -> Instance | None:
    """An instance by its ULID, as last committed."""
    id_ = entity_id(instance_id)
    loaded = None if id_ is None else await _load(runtime, tenant, id_)
    return None if loaded is None else loaded.instance


def wanted(instance_id: str, unknown: StepNotFound) -> EntityId:
    """The entity of an instance that a client named. Raises ``unknown`` when it can be none."""
    id_ = entity_id(instance_id)
    if id_ is None:
        raise unknown
    return id_


def refused(refusal: Refusal) -> StepBadRequest | StepNotFound | StepConflict:
    """The failure that a refusal of the core is to its caller."""
    match refusal.kind:
        case "bad-request":
            return StepBadRequest(refusal.reason)
        case "not-found":
            return StepNotFound(refusal.reason)
        case "conflict":
            return StepConflict(refusal.reason)


async def _load(runtime: Runtime, tenant: TenantId, instance_id: EntityId) -> Loaded | None:
    entity = await runtime.reader.get(tenant, instance_id)
    if entity is None or entity.model != builtin.INSTANCE_ID:
        return None
    return Loaded(entity, instance_of(entity.document))


async def _attempt(
    runtime: Runtime,
    caller: Caller,
    loaded: Loaded,
    operation: Operation,
    *,
    kind: str,
    origin: Actor | None,
    surely: bool,
) -> Advanced:
    """Compute and commit one advance. Raises ``_Stale`` rather than say no to what is not ``surely`` up to date."""
    before = loaded.instance
    published = await runtime.steps.processes.find(caller.tenant, before.definition_id, before.definition_version)
    assert published is not None, "versions of definitions are never deleted"  # noqa: S101
    moment = runtime.steps.moments()
    outcome = operation(published.process, before, moment)
    if not surely and (isinstance(outcome, Refusal) or not outcome.effects):
        raise _Stale
    if isinstance(outcome, Refusal):
        raise refused(outcome)
    if not outcome.effects:
        return Advanced(instance=before, changed=None, transaction_id=loaded.entity.transaction_id)
    step = Advance(
        process=published.process,
        before=before,
        applied=outcome,
        at=moment.at,
        base=loaded.entity,
        child_ids=_child_ids(outcome, moment),
    )
    async with runtime.unit(caller, origin=origin) as unit:
        changed = await _commit(runtime, unit, step, kind=kind)
    return Advanced(instance=outcome.instance, changed=changed, transaction_id=unit.label)


async def _commit(runtime: Runtime, unit: UnitOfWork, step: Advance, *, kind: str) -> Changes:
    """Commit an advance and tell everybody who waits for what it made."""
    began = time.perf_counter()
    changed = await stage(unit, step)
    instance = step.applied.instance
    version = next(write.entity for id_, write in unit.staged.items() if id_ == uuid(instance.id))
    parts, tenant = runtime.steps, unit.tenant
    try:
        at = await unit.commit()
    except UniqueViolation:
        raise BusinessKeyInUse from None
    parts.tally.transactions[kind].observe(time.perf_counter() - began)
    assert at is not None  # noqa: S101 - there was something to write
    if instance.status in IN_FLIGHT and len(version.document) <= MAX_VARIABLES:
        parts.recent.put(tenant, version.id, Loaded(version, instance))
    else:
        parts.recent.drop(tenant, version.id)
    _count(runtime, step)
    _tell(runtime, tenant, step, changed)
    return changed


def _tell(runtime: Runtime, tenant: TenantId, step: Advance, changed: Changes) -> None:
    topics = {(tenant, job_type) for job_type in job_types(changed)}
    if changed.is_held is False:
        runtime.steps.wakeups.wake_all()
    if topics:
        runtime.steps.wakeups.announce(topics)
    for child_id in step.child_ids:
        runtime.steps.children.add(tenant, child_id)


def _count(runtime: Runtime, step: Advance) -> None:
    tally, instance = runtime.steps.tally, step.applied.instance
    tally.steps_executed.update(entered_types(step.process, step.applied.effects))
    if step.before is None:
        tally.instances_started += 1
    if instance.is_terminal and (step.before is None or not step.before.is_terminal):
        tally.instances_ended[instance.status.lower()] += 1


def _child_ids(applied: Applied, moment: Moment) -> list[EntityId]:
    """Ids of instances that are to be started, from the end of the moment's range, which the kernel never reaches."""
    count = len(changes(applied.effects).children)
    return [entity_of(moment.first_id + _CHILD_OFFSET - n) for n in range(count)]
