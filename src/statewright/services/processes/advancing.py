"""Advancing instances: load, decide, commit; from the beginning when another commit was faster
(docs/reference/steps.md#one-advance-one-version).

An advance holds nothing in the database while it is computed. It commits against the version it was computed from, with
everything it amounts to in one statement; so of any number of completions, signals, timers and cancellations that meet,
each is decided on what the one before it left, in this process or in another. Nothing is applied twice, since a job, a
task or a timer that had its effect is no longer part of the instance.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from functools import partial
from random import Random
from typing import Final, Generic

from msgspec import Struct

from statewright.computations import compute_in_turn
from statewright.engine.run import check_if_match
from statewright.entity import Entity
from statewright.failures import (
    BadRequest,
    BusinessKeyInUse,
    Conflict,
    InvalidMember,
    ProcessBadRequest,
    ProcessConflict,
    ProcessNotFound,
    Suspended,
    UniqueViolation,
)
from statewright.ids import EntityId, TenantId, model_id, number_to_entity_id, parse_entity_id
from statewright.jsonval.values import JsonValue
from statewright.loop.background import MAX_INLINE_BYTES, free_in_parts
from statewright.loop.turns import is_large
from statewright.net import IDS_PER_MOMENT, Marking, Moment
from statewright.operations.active_suspensions import Hold
from statewright.processes.changes import RowChanges, list_carried, list_children
from statewright.processes.language import Applied, I, InstanceOperation, NewInstance, P, ProcessInstance, Rejection
from statewright.services.builtin import BuiltinChange, create_missing_models
from statewright.services.core import Caller
from statewright.services.processes.documents import read_instance
from statewright.services.processes.hosting import MAX_DOCUMENT_CHARS, LoadedInstance, ProcessHost, PublishedDefinition
from statewright.services.processes.large_values import find_apart
from statewright.services.processes.wakeups import ANY_TYPE
from statewright.services.processes.writing import (
    Advance,
    find_failure,
    has_just_ended,
    list_entered_types,
    list_job_types,
    stage,
)
from statewright.storage.commit.statement import PASSES, Pass
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.telemetry.tracing import NO_SPAN, Span

MAX_ATTEMPTS: Final = 50
"""Attempts at an advance before its caller is told of the conflict; so many do not fail by chance."""

RETRY_TIMEOUT_S: Final = 20.0
"""After so long it is not begun again: another transaction has locked the row, and callers do not wait for ever."""

MIN_PAUSE_S, MAX_PAUSE_S = 0.001, 0.05

_CHILD_OFFSET: Final = IDS_PER_MOMENT - 1

_jitter = Random()  # noqa: S311 - spreads retries, guards nothing


class InstanceChange(Struct, Generic[P, I], frozen=True):
    """What is to be done to an instance, and what came from outside for it."""

    operation: InstanceOperation[P, I]
    given: JsonValue
    told_ends: tuple[EntityId, ...] = ()
    """Children whose end this is about."""
    ends: bool = False
    """Whether it is there to end the instance, which a suspension does not prevent."""


class AdvanceResult(BuiltinChange, Generic[I], frozen=True, kw_only=True):
    """What an operation came to: the instance afterwards, and what changed beside it; None when it had no effect."""

    instance: I
    changed: RowChanges | None
    answer: object = None
    """What the operation told beside it."""


class InstanceSuspended(ProcessConflict):
    """What is to be done moves an instance that is suspended."""

    def __init__(self, hold: Hold, message: str) -> None:
        super().__init__(f"SUSPENDED: {message}")
        self.hold = hold


class _Stale(Exception):
    """What was decided may rest on an old version of the instance."""


async def advance(
    host: ProcessHost[P, I],
    caller: Caller,
    instance_id: EntityId,
    operation: InstanceOperation[P, I],
    *,
    kind: str,
    unknown: ProcessNotFound,
    given: JsonValue = None,
    if_match: str | None = None,
    ends: bool = False,
) -> AdvanceResult[I]:
    """Do something to an instance; ``kind`` names the transaction in the metrics, ``given`` is what came from outside:
    an operation on much of it is left to another process. ``ends`` as in ``InstanceChange``.

    ``if_match`` is the version that the client demands; another one raises ``EntityModified``.

    Raises ``unknown`` when there is no such instance, the failure of a refusal, ``InstanceSuspended``,
    ``BusinessKeyInUse``, ``StorageUnavailable``, ``Conflict``, ``ComputationKilled``, ``ComputationsBusy``.
    """
    change = InstanceChange(operation, given, ends=ends)
    return await advance_in_turn(
        host, caller, instance_id, lambda: change, kind=kind, unknown=unknown, if_match=if_match
    )


async def advance_in_turn(
    host: ProcessHost[P, I],
    caller: Caller,
    instance_id: EntityId,
    get_change: Callable[[], InstanceChange[P, I]],
    *,
    kind: str,
    unknown: ProcessNotFound,
    if_match: str | None = None,
) -> AdvanceResult[I]:
    """As ``advance``, for what is known only once it is this task's turn at the instance: then it is asked for."""
    refuse_joined(caller)
    tenant, passes = caller.tenant, False
    pause = MIN_PAUSE_S
    asked = time.perf_counter()
    with _begin_span(host, caller, kind, instance_id):
        async with host.shared.locks.hold(tenant, instance_id):
            host.metrics.waits["instance.for_update"].observe(time.perf_counter() - asked)
            change = get_change()
            cached = None if if_match is not None else host.instances.get((tenant, instance_id))
            for _ in range(MAX_ATTEMPTS):
                loaded = cached or await _load_instance(host, tenant, instance_id)
                if loaded is None:
                    raise unknown
                if if_match is not None:
                    check_if_match(loaded.entity, if_match)
                passes = await _pass_hold(host, tenant, loaded, kind, change) or passes
                try:
                    is_current = cached is None
                    return await _attempt(host, caller, loaded, change, kind=kind, is_current=is_current, passes=passes)
                except Suspended:  # since a moment ago: this node does not know yet
                    if change.ends:
                        passes = True
                    else:
                        await host.core.guard.load_anew()
                except _Stale:
                    cached = None
                except Conflict:
                    host.instances.discard((tenant, instance_id))
                    if time.perf_counter() - asked > RETRY_TIMEOUT_S:
                        raise
                    if cached is None:
                        host.metrics.conflicts += 1
                        await asyncio.sleep(pause * _jitter.uniform(0.5, 1.5))
                        pause = min(2 * pause, MAX_PAUSE_S)
                    cached = None
        raise Conflict(f"too many others change this {host.noun}")


async def create(
    host: ProcessHost[P, I],
    caller: Caller,
    published: PublishedDefinition[P],
    new: NewInstance,
    *,
    moment: Moment,
    inner: Moment,
    also_stage: Callable[[UnitOfWork], None] | None = None,
) -> I:
    """Start an instance and make it durable, together with what ``also_stage`` adds.

    ``inner`` is the part of ``moment`` whose ids the instance may use. Raises ``BusinessKeyInUse``, ``Conflict`` for an
    id that is taken.
    """
    refuse_joined(caller)
    await ensure_models(host, caller.tenant)
    with _begin_span(host, caller, "instance.start"):
        language = host.language
        applied, is_long = await compute_in_turn(
            host.core.computations,
            caller.tenant,
            "instance.start",
            lambda: language.start_instance(published.brief_process, new, inner),
            partial(host.define(published).start, new, inner),
            is_large=is_large(new.variables),
        )
        step = Advance(
            language=language,
            process=published.process,
            before=None,
            applied=applied,
            at=moment.at,
            base=None,
            child_ids=_allocate_child_ids(applied, moment),
            is_long=is_long,
        )
        async with host.core.open_unit(caller) as unit:
            if also_stage is not None:
                also_stage(unit)
            await _commit(host, caller, unit, step, kind="instance.start")
    return applied.instance


def _begin_span(
    host: ProcessHost[P, I], caller: Caller, kind: str, instance_id: EntityId | None = None
) -> "Span | AbstractContextManager[None]":
    tracer = host.core.tracer
    if tracer is None:
        return NO_SPAN
    attributes = {"tenant": caller.tenant, "step.operation": kind, "process.language": host.language.name}
    if instance_id is not None:
        attributes["entity.id"] = instance_id
    return tracer.begin("step.advance", attributes=attributes)


TIMER_KIND: Final = "instance.dispatch_boundary"

WAITING_KINDS: Final = frozenset(
    {"instance.complete_job", "instance.fail_job", "instance.report_progress", "instance.end_child", TIMER_KIND}
)
"""What no client asks for: it waits for the end of a suspension, and is no refusal. All else is refused, unless it ends
the instance.
"""


async def refuse_suspended(host: ProcessHost[P, I], caller: Caller, definition: str) -> None:
    """Raises ``InstanceSuspended`` while instances of a definition must not be started."""
    found = await find_definition_hold(host, caller.tenant, definition)
    if found is not None:
        raise InstanceSuspended(found, host.core.guard.refuse(found).message)


async def find_definition_hold(host: ProcessHost[P, I], tenant: TenantId, definition: str) -> Hold | None:
    """What keeps instances of a definition from being started."""
    await host.core.guard.ensure_current()
    return host.core.guard.find_definition(tenant, definition)


async def _pass_hold(
    host: ProcessHost[P, I], tenant: TenantId, loaded: LoadedInstance[I], kind: str, change: InstanceChange[P, I]
) -> bool:
    """Whether an instance is suspended, which does not keep it from being ended. Raises ``InstanceSuspended``."""
    guard = host.core.guard
    await guard.ensure_current()
    found = guard.find_process(tenant, loaded.entity.id, loaded.instance.definition_id)
    if found is not None and kind in WAITING_KINDS:
        raise InstanceSuspended(found, found.reason)
    if found is not None and not change.ends:
        raise InstanceSuspended(found, guard.refuse(found).message)
    return found is not None


def refuse_joined(caller: Caller) -> None:
    """Instances commit on their own, since others wait for their jobs. Raises ``BadRequest`` in a transaction."""
    if caller.transaction is not None:
        raise BadRequest("instances, definitions and user tasks cannot be changed inside another transaction")


async def ensure_models(host: ProcessHost[P, I], tenant: TenantId) -> None:
    """Make sure that the tenant has the built-in models."""
    if tenant in host.tenants_with_models:
        return
    core, models = host.core, host.language.models.all
    for model in models:
        if await core.definitions.find(tenant, model.key) is None:
            await create_missing_models(core.pool, tenant, models)
            for made in models:
                core.definitions.forget(tenant, model_id(made.key.name, made.key.version))
            break
    host.tenants_with_models.add(tenant)


async def find_instance(host: ProcessHost[P, I], tenant: TenantId, instance_id: str) -> I | None:
    """An instance by its ULID, as last committed."""
    id_ = parse_entity_id(instance_id)
    loaded = None if id_ is None else await _load_instance(host, tenant, id_)
    return None if loaded is None else loaded.instance


async def judge(
    host: ProcessHost[P, I],
    tenant: TenantId,
    instance_id: EntityId,
    operation: InstanceOperation[P, I],
    *,
    given: JsonValue = None,
) -> I | None:
    """Compute an operation without carrying it out; the instance as it is. Raises the failure of a refusal."""
    loaded = await _load_instance(host, tenant, instance_id)
    if loaded is None:
        return None
    published = await _find_published(host, tenant, loaded.instance)
    moment = host.shared.next_moment()
    outcome, _ = await _compute(host, loaded, InstanceChange(operation, given), published, moment, "instance.judge")
    if isinstance(outcome, Rejection):
        raise to_failure(outcome)
    return loaded.instance


def parse_instance_id(instance_id: str, unknown: ProcessNotFound) -> EntityId:
    """The entity of an instance that a client named. Raises ``unknown`` when it can be none."""
    id_ = parse_entity_id(instance_id)
    if id_ is None:
        raise unknown
    return id_


def to_failure(refusal: Rejection) -> ProcessBadRequest | ProcessNotFound | ProcessConflict:
    """The failure that a refusal of the language is to its caller."""
    match refusal.kind:
        case "bad-request":
            if refusal.member:
                return InvalidMember(refusal.member, refusal.reason)
            return ProcessBadRequest(refusal.reason)
        case "not-found":
            return ProcessNotFound(refusal.reason)
        case "conflict":
            return ProcessConflict(refusal.reason)


async def _load_instance(host: ProcessHost[P, I], tenant: TenantId, instance_id: EntityId) -> LoadedInstance[I] | None:
    entity = await host.core.reader.get(tenant, instance_id)
    if entity is None or entity.model != host.instance_model:
        return None
    remembered = host.instances.peek((tenant, instance_id))
    if remembered is not None and remembered.entity.transaction_id == entity.transaction_id:
        return remembered
    language, known = host.language, () if remembered is None else remembered.apart.values()
    instance, places = await read_instance(
        host.core.pool, tenant, entity.id, entity.document or "", language.instance_from_document, known
    )
    apart = find_apart(language.instance_to_document(instance), places) if places else {}
    return LoadedInstance(entity, instance, apart)


async def _find_published(host: ProcessHost[P, I], tenant: TenantId, instance: I) -> PublishedDefinition[P]:
    published = await host.processes.find(tenant, instance.definition_id, instance.definition_version)
    assert published is not None, "versions of definitions are never deleted"  # noqa: S101
    return published


async def _compute(
    host: ProcessHost[P, I],
    loaded: LoadedInstance[I],
    change: InstanceChange[P, I],
    published: PublishedDefinition[P],
    moment: Moment,
    kind: str,
) -> tuple[Applied[I] | Rejection, bool]:
    """What a change comes to, and whether that took another process."""
    before, operation = loaded.instance, change.operation
    return await compute_in_turn(
        host.core.computations,
        loaded.entity.tenant,
        kind,
        lambda: operation(published.brief_process, before, moment=moment),
        partial(host.define(published).apply, operation, before, moment),
        is_large=is_large(change.given) or len(loaded.entity.document or "") > MAX_INLINE_BYTES,
    )


async def _attempt(
    host: ProcessHost[P, I],
    caller: Caller,
    loaded: LoadedInstance[I],
    change: InstanceChange[P, I],
    *,
    kind: str,
    is_current: bool,
    passes: bool,
) -> AdvanceResult[I]:
    """Compute and commit one advance, which ``passes`` a suspension of its instance. Raises ``_Stale`` rather than say
    no to what is not ``is_current`` up to date, and ``Suspended``.
    """
    before = loaded.instance
    published = await _find_published(host, caller.tenant, before)
    moment = host.shared.next_moment()
    outcome, is_long = await _compute(host, loaded, change, published, moment, kind)
    if not is_current and (isinstance(outcome, Rejection) or not outcome.effects):
        raise _Stale
    if isinstance(outcome, Rejection):
        raise to_failure(outcome)
    if not outcome.effects:
        unchanged = loaded.entity.transaction_id
        return AdvanceResult(instance=before, changed=None, transaction_id=unchanged, answer=outcome.answer)
    is_long = is_long or (bool(loaded.apart) and is_large(list_carried(outcome.effects)))
    step = Advance(
        language=host.language,
        process=published.process,
        before=before,
        applied=outcome,
        at=moment.at,
        base=loaded.entity,
        child_ids=_allocate_child_ids(outcome, moment),
        told_ends=change.told_ends,
        is_long=is_long,
        apart=loaded.apart,
    )
    async with host.core.open_unit(caller) as unit:
        if passes:
            unit.parts[PASSES.name] = Pass()
        return await _commit(host, caller, unit, step, kind=kind)


async def _commit(
    host: ProcessHost[P, I], caller: Caller, unit: UnitOfWork, step: Advance[P, I], *, kind: str
) -> AdvanceResult[I]:
    """Commit an advance and wake the tasks that wait for what it made."""
    began = time.perf_counter()
    staged = await stage(unit, step)
    version, changed = staged.version, staged.changed
    instance, tenant = step.applied.instance, unit.tenant
    result = AdvanceResult(instance=instance, changed=changed, transaction_id=unit.label, answer=step.applied.answer)
    try:
        with NO_SPAN if find_failure(step) is None else host.core.failures.watch_commit(unit.parts):
            at = await caller.commit(unit, result)
    except UniqueViolation:
        raise BusinessKeyInUse from None
    host.metrics.transactions[kind].observe(time.perf_counter() - began)
    assert at is not None  # noqa: S101 - there was something to write
    if not instance.is_terminal and len(version.document or "") <= MAX_DOCUMENT_CHARS:
        host.instances.put((tenant, version.id), LoadedInstance(version, instance, staged.apart))
    else:
        host.instances.discard((tenant, version.id))
    if step.is_long:
        for value in _list_large_values(instance, *([] if step.before is None else [step.before])):
            free_in_parts(value, len(version.document or ""))
    _count(host, step)
    if step.logged:
        host.metrics.events.update(step.logged)
        _observe_pending(host, step)
    _notify(host, version, step, changed)
    return result


def _list_large_values(*instances: ProcessInstance) -> Collection[JsonValue]:
    """What instances have of large values, each once: their data, and what their tokens carry."""
    carried = [payload for one in instances for token in one.marking.tokens for payload in token.payloads]
    large = [value for value in carried if is_large(value)] if is_large(carried) else []
    return {id(value): value for value in (*(one.marking.data for one in instances), *large)}.values()


def _notify(host: ProcessHost[P, I], version: Entity, step: Advance[P, I], changed: RowChanges) -> None:
    tenant = version.tenant
    job_types = set(list_job_types(changed))
    topics = {(tenant, host.language.name, job_type) for job_type in job_types}
    has_tagged = any(host.language.find_member_tags(step.process, job_type) is not None for job_type in job_types)
    if changed.is_held is False:  # jobs of whatever types are free again
        topics.add((tenant, host.language.name, ANY_TYPE))
    if topics:
        host.shared.wakeups.announce(topics, has_tagged=has_tagged)
    if changed.counters or any(timer.counter is not None for timer in changed.armed_timers):
        host.shared.counters_changed.set()
    for child_id in step.child_ids:
        host.shared.due_children.add(tenant, child_id)
    if changed.cancelled_children:
        host.shared.children_cancelled.set()
    instance = step.applied.instance
    if host.language.log is not None:
        host.shared.log_followers.wake(tenant, version.id)
    if instance.awaited_by is not None and has_just_ended(step):
        host.shared.due_ends.add(tenant, version.id)


def _count(host: ProcessHost[P, I], step: Advance[P, I]) -> None:
    metrics, instance = host.metrics, step.applied.instance
    metrics.nodes_executed.update(list_entered_types(step))
    if step.before is None:
        metrics.instances_started += 1
    if has_just_ended(step):
        metrics.instances_ended[instance.status.lower()] += 1


def _observe_pending(host: ProcessHost[P, I], step: Advance[P, I]) -> None:
    """Of languages that keep logs: others have no admission."""
    before = 0 if step.before is None else _count_pending_tokens(step.before.marking)
    change = _count_pending_tokens(step.applied.instance.marking) - before
    if change:
        host.metrics.pending_tokens["added" if change > 0 else "removed"] += abs(change)


def _count_pending_tokens(marking: Marking) -> int:
    return sum(token.stage == "PENDING" for token in marking.tokens)


def _allocate_child_ids(applied: Applied[I], moment: Moment) -> list[EntityId]:
    """Ids of instances that are to be started, from the end of the moment's range, which the kernel never reaches."""
    count = len(list_children(applied.effects))
    return [number_to_entity_id(moment.first_id + _CHILD_OFFSET - n) for n in range(count)]
