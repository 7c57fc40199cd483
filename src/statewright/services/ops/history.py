"""What has become of entities, and waiting until it has.

What changed between versions of an entity (docs/reference/operations.md#versions), and bringing a former document back
(docs/reference/operations.md#restoring-a-version): an update like any other, which is validated, runs the workflow, and
makes a new version.

Changes of the entities of a tenant (docs/reference/operations.md#changes), events of the runs of an entity
(docs/reference/operations.md#events-of-runs), what a transaction has written
(docs/reference/operations.md#transactions).

What can be waited for: states of entities, the end of instances (docs/reference/operations.md#wait); ``waiting.py``
does the waiting.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final, Literal, TypeAlias
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from statewright.engine.engine import UpdateEntity, list_declared_transitions
from statewright.engine.models import may_segment_on_update
from statewright.engine.run import check_if_match
from statewright.entity import Entity
from statewright.failures import (
    BadRequest,
    EntityNotFound,
    HistoryPruned,
    InvalidParameter,
    ProcessNotFound,
    VersionNotFound,
)
from statewright.ids import EntityId, TransactionId, find_time
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.patches import PatchFailed, build_json_patch, take_values
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import free_in_parts, run_by_size
from statewright.operations.history import Difference, Restored, RunEvent, StatesOfVersions, VersionView, WrittenEntity
from statewright.operations.service import Act
from statewright.services.core import Caller, Core
from statewright.services.entities import get_governing_definition
from statewright.services.ops.paging import Page, PageRequest, build_page
from statewright.services.ops.service import Operations
from statewright.services.ops.waiting import WaitResult
from statewright.services.writing import (
    Saved,
    make_document,
    require_complete_keys,
    run_and_commit,
    to_document,
    to_saved,
    validate_and_stage,
)
from statewright.storage import entities
from statewright.storage.ops import history as stored
from statewright.storage.ops.explanations import Position, SeenVersion, find_instant
from statewright.storage.ops.history import ACTS, build_staged_act
from statewright.storage.ops.history import ChangeFilter as ChangeFilter
from statewright.storage.ops.history import ChangeKey as ChangeKey
from statewright.storage.ops.history import EventKey as EventKey
from statewright.storage.ops.history import FoundChanges as FoundChanges
from statewright.storage.ops.history import TransactionKey as TransactionKey
from statewright.storage.ops.history import Version as Version
from statewright.storage.ops.history import VersionDocument as VersionDocument
from statewright.storage.ops.history import VersionFilter as VersionFilter
from statewright.storage.ops.history import VersionKey as VersionKey

VersionName: TypeAlias = TransactionId | int | Literal["current", "previous"]
"""A version by the transaction that wrote it, or by an instant in epoch microseconds at which it was valid; the last
one, or the one before the other of a pair.
"""


class ComparedVersions(Struct, frozen=True):
    """What leads from one version to another, and the characters of both documents."""

    difference: Difference
    size: int


def show_version(version: Version) -> VersionView:
    """As clients are told of it."""
    entity = version.entity
    return VersionView(
        transaction_id=entity.transaction_id,
        at=to_rfc3339(version.at),
        until=None if version.until is None else to_rfc3339(version.until),
        state=entity.state,
        transition=entity.transition,
        change_type=version.change,
        attributed_to=entity.attributed,
        executed_by=entity.executor,
        workflow=entity.workflow,
        workflow_revision=entity.workflow_revision,
        bytes=version.stored_bytes,
        current=version.is_current,
    )


async def list_versions(
    core: Core, caller: Caller, entity_id: EntityId, wanted: VersionFilter, page: PageRequest[VersionKey]
) -> Page[Version, VersionKey]:
    """The versions of an entity that are kept, newest first, also of a deleted one. Raises ``EntityNotFound``."""
    found = await stored.fetch_versions(
        core.pool, caller.tenant, entity_id, wanted, limit=page.size + 1, after=page.after
    )
    if not found:
        await _require_existed(core, caller, entity_id)
    return build_page(page, found, lambda version: VersionKey(version.at))


async def get_version(core: Core, caller: Caller, entity_id: EntityId, name: VersionName) -> VersionDocument:
    """A version by its transaction or an instant, or the current one. Raises ``EntityNotFound``, ``VersionNotFound``,
    ``HistoryPruned``.
    """
    tenant = caller.tenant
    if isinstance(name, int):
        found = await stored.find_version(core.pool, tenant, entity_id, at=name)
        until = None if found is None else found.version.until
        if until is not None and until <= name:
            raise HistoryPruned(name)
        if found is None and await _has_existed_at(core, caller, entity_id, name):
            raise HistoryPruned(name)
    elif name == "current":
        found = await stored.find_version(core.pool, tenant, entity_id)
    else:
        found = await stored.find_version(core.pool, tenant, entity_id, transaction=TransactionId(name))
    if found is None:
        await _require_existed(core, caller, entity_id)
        raise VersionNotFound(f"entity id={entity_id} has no such version, or keeps it no longer")
    return found


async def find_named(core: Core, caller: Caller, entity_id: EntityId, name: VersionName) -> VersionDocument:
    """A version; ``previous`` is the one before the last. Raises ``EntityNotFound``, ``VersionNotFound``,
    ``HistoryPruned``.
    """
    if name != "previous":
        return await get_version(core, caller, entity_id, name)
    current = await get_version(core, caller, entity_id, "current")
    found = await _find_before(core, caller, entity_id, current.version)
    if found is None:
        raise VersionNotFound("the entity has one version only")
    return found


async def compare(
    core: Core, caller: Caller, entity_id: EntityId, *, older: VersionName, newer: VersionName
) -> ComparedVersions:
    """What changed between two versions. The first version is compared with an empty document, and so is a deletion.

    Raises ``EntityNotFound``, ``VersionNotFound``, ``HistoryPruned``.
    """
    last = await find_named(core, caller, entity_id, newer)
    if older == "previous":
        first = await _find_before(core, caller, entity_id, last.version)
    else:
        first = await get_version(core, caller, entity_id, older)
    before, after = _read(first), _read(last)
    size = len(last.document or "") + (len(first.document or "") if first else 0)
    patch = await run_by_size(size, lambda: build_json_patch(before(), after()))
    former, newest = first.version.entity if first else None, last.version.entity
    difference = Difference(
        older=None if former is None else former.transaction_id,
        newer=newest.transaction_id,
        state=StatesOfVersions(older=None if former is None else former.state, newer=newest.state),
        patch=tuple(patch),
    )
    return ComparedVersions(difference, size)


def _read(version: VersionDocument | None) -> "_Decode":
    return _Decode(None if version is None else version.document)


class _Decode(Struct, frozen=True):
    """Decodes a document where it is needed, which may be a thread."""

    text: str | None

    def __call__(self) -> JsonValue:
        return {} if self.text is None else decode_stored(self.text)


async def _has_existed_at(core: Core, caller: Caller, entity_id: EntityId, instant: int) -> bool:
    """Whether the entity had been created by then, as its last version knows."""
    last = await stored.find_version(core.pool, caller.tenant, entity_id)
    return last is not None and last.version.entity.created_at <= instant


async def _find_before(core: Core, caller: Caller, entity_id: EntityId, version: Version) -> VersionDocument | None:
    """The version that this one superseded; None for the first one. Raises ``HistoryPruned``."""
    if version.change == "CREATE":
        return None
    found = await stored.find_version(core.pool, caller.tenant, entity_id, at=version.at - 1)
    if found is None or found.version.until != version.at:
        raise HistoryPruned(version.at - 1)
    return found


async def _require_existed(core: Core, caller: Caller, entity_id: EntityId) -> None:
    if not await entities.has_existed(core.pool, caller.tenant, entity_id):
        raise EntityNotFound.of(entity_id)


class RestoreRequest(Struct, frozen=True, kw_only=True):
    """What is to be brought back: the document of a version, or of it only what is at ``paths``, which are JSON
    Pointers. ``transition`` is fired by it; None: a save without one.
    """

    version: VersionName
    reason: str
    if_match: str | None = None
    transition: str | None = None
    paths: Sequence[str] | None = None


class _Change(Struct, frozen=True):
    """The document as it is to be, and what leads to it."""

    document: JsonValue
    patch: "list[JsonObject]"


async def restore(operations: Operations, caller: Caller, entity_id: EntityId, request: RestoreRequest) -> Restored:
    """Write a former document as the next version.

    Raises ``EntityNotFound``, ``Forbidden`` for built-in models, ``EntityModified``, ``VersionNotFound``,
    ``HistoryPruned``, ``InvalidParameter`` for a path that leads nowhere, and what an update can fail with.
    """
    if caller.transaction is not None:
        raise BadRequest("versions are not restored inside another transaction")
    async with operations.core.open_unit(caller) as unit:
        entity = await unit.get_entity(entity_id)
        if entity is None:
            raise EntityNotFound.of(entity_id)
        operations.core.builtin.refuse_entities(entity.model)
        if request.if_match is not None:
            check_if_match(entity, request.if_match)
        former = await find_named(operations.core, caller, entity_id, request.version)
        if former.document is None:
            raise VersionNotFound("a deletion has no document that could be restored")
        size = len(former.document) + len(entity.document)
        change = await run_by_size(size, partial(_compute, entity.document, former.document, request.paths))
        free_in_parts(change.document, size)
        if not change.patch:
            return Restored(transaction_id=entity.transaction_id, restored=False, patch=())

        def conclude(saved: Saved) -> Restored:
            return Restored(transaction_id=saved.transaction_id, restored=True, patch=tuple(change.patch))

        document = await make_document(size, lambda: to_document(change.document, size))
        definition = await get_governing_definition(operations.core, caller, entity)
        definition = await validate_and_stage(operations.core, unit, definition, document)
        require_complete_keys(definition, document.value)
        act = _build_act(entity_id, former.version.entity.transaction_id, request)
        unit.parts[ACTS.name] = build_staged_act(caller.tenant, caller.principal.actor, act)
        caller.convert_result(conclude)
        update = UpdateEntity(
            entity=entity,
            document=document.value,
            text=document.text,
            transition=request.transition,
            if_match=request.if_match,
        )
        run = operations.core.engine.update(unit, definition.model, update)
        may_segment = may_segment_on_update(definition.model, entity, request.transition)
        saved = await run_and_commit(
            operations.core, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )
    operations.metrics.restores += 1
    return conclude(saved)


def _compute(current: str, former: str, paths: Sequence[str] | None) -> _Change:
    before, wanted = decode_stored(current), decode_stored(former)
    if paths is not None:
        try:
            wanted = take_values(before, wanted, paths)
        except PatchFailed as misfit:
            raise InvalidParameter("/paths", str(misfit)) from misfit
    return _Change(wanted, build_json_patch(before, wanted))


def _build_act(entity_id: EntityId, version: TransactionId, request: RestoreRequest) -> Act:
    details = {"version": version, "transition": request.transition, "paths": request.paths}
    return Act(
        action="entity.restore", target_kind="ENTITY", target_id=entity_id, reason=request.reason, details=details
    )


async def find_changes(core: Core, caller: Caller, wanted: ChangeFilter, page: PageRequest[ChangeKey]) -> FoundChanges:
    """Changes, the newest first, as far as one request comes. Raises ``SearchTimeout``."""
    return await stored.find_changes(
        core.search, caller.tenant, wanted, now=core.clock(), limit=page.size, after=page.after
    )


async def list_events(
    core: Core,
    caller: Caller,
    entity_id: EntityId,
    page: PageRequest[EventKey],
    *,
    transaction: TransactionId | None,
) -> Page[RunEvent, EventKey]:
    """The events of an entity, those of the newest run first, also of a deleted one; ``transaction``: of one run alone.

    Raises ``EntityNotFound``.
    """
    found = await stored.fetch_events(
        core.pool, caller.tenant, entity_id, limit=page.size + 1, after=page.after, transaction=transaction
    )
    if not found and not await entities.has_existed(core.pool, caller.tenant, entity_id):
        raise EntityNotFound.of(entity_id)
    shown = build_page(page, found, lambda filed: filed.key)
    return Page(items=[filed.event for filed in shown.items], last_key=shown.last_key)


async def list_written(
    core: Core, caller: Caller, transaction: TransactionId, page: PageRequest[TransactionKey]
) -> Page[WrittenEntity, TransactionKey]:
    """The entities that a transaction has written, by id; none when it is unknown. Raises ``SearchTimeout``."""
    made_at = find_time(transaction)
    if made_at is None:
        return Page(items=(), last_key=None)
    found = await stored.list_written(
        core.search, caller.tenant, transaction, made_at=made_at, limit=page.size + 1, after=page.after
    )
    return build_page(page, found, lambda each: TransactionKey(UUID(each.entity_id)))


InstanceTarget = Literal["FINISHED", "WAITING"]


IN_FLIGHT: Final = frozenset({"ACTIVE", "RUNNING", "WAITING", "TERMINATING", "SUSPENDED"})
"""Statuses of instances that are not finished, whatever their language."""


async def wait_for_entity(
    operations: Operations,
    caller: Caller,
    entity_id: EntityId,
    *,
    states: Sequence[str] = (),
    after: TransactionId | None = None,
    within: timedelta,
) -> WaitResult:
    """Wait until an entity is in one of the states; without states until it has a version newer than ``after``; without
    either until no transition leads out of its state. Raises ``EntityNotFound``, ``VersionNotFound``,
    ``TooManyRequests``.
    """
    entity = await operations.core.reader.get(caller.tenant, entity_id)
    if entity is None:
        raise EntityNotFound.of(entity_id)
    since = entity.updated_at - 1
    if after is not None:
        written = await find_instant(operations.core.pool, caller.tenant, entity_id, after)
        if written is None:
            raise VersionNotFound(f"entity {entity_id} has no version of transaction {after}")
        since = written
    is_reached = await _build_target(operations.core, caller, entity, states, any_version=after is not None)
    position = Position(caller.tenant, entity_id, since)
    return await operations.waits.wait(position, is_reached, within=within)


async def wait_after_write(
    operations: Operations,
    caller: Caller,
    entity_id: EntityId,
    transaction: TransactionId,
    *,
    states: Sequence[str],
    within: timedelta,
) -> WaitResult | None:
    """The same, from the version on that a transaction wrote; None when there is no such entity any more."""
    entity = await operations.core.reader.get(caller.tenant, entity_id)
    if entity is None:
        return None
    written = await find_instant(operations.core.pool, caller.tenant, entity_id, transaction)
    since = (written if written is not None else entity.updated_at) - 1
    is_reached = await _build_target(operations.core, caller, entity, states, any_version=False)
    position = Position(caller.tenant, entity_id, since)
    return await operations.waits.wait(position, is_reached, within=within)


async def wait_for_instance(
    operations: Operations,
    caller: Caller,
    entity_id: EntityId,
    *,
    until: InstanceTarget,
    within: timedelta,
    unknown: ProcessNotFound,
) -> tuple[WaitResult, Entity]:
    """Wait until an instance of whatever language has ended, or, for ``WAITING``, waits for a person or a signal; and
    the instance as it is then. Raises ``unknown``, ``TooManyRequests``.
    """
    models = operations.processes.hosts.instance_models
    entity = await operations.core.reader.get(caller.tenant, entity_id)
    if entity is None or entity.model not in models:
        raise unknown

    def is_reached(version: SeenVersion) -> bool:
        return version.state not in IN_FLIGHT or (until == "WAITING" and version.state == "WAITING")

    position = Position(caller.tenant, entity_id, entity.updated_at - 1)
    result = await operations.waits.wait(position, is_reached, within=within)
    return result, await operations.core.reader.get(caller.tenant, entity_id) or entity


async def _build_target(
    core: Core, caller: Caller, entity: Entity, states: Sequence[str], *, any_version: bool
) -> Callable[[SeenVersion], bool]:
    if states:
        wanted = frozenset(states)
        return lambda version: version.state in wanted
    if any_version:
        return lambda _version: True
    model = (await get_governing_definition(core, caller, entity)).model
    return lambda version: not list_declared_transitions(model, replace(entity, state=version.state))
