"""What changed between versions of an entity (docs/reference/operations.md#versions).

Bringing a former document of an entity back (docs/reference/operations.md#restoring-a-version).

Restoring is an update like any other: it is validated, runs the workflow, and makes a new version.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.engine.engine import UpdateEntity
from statewright.engine.models import may_segment_on_update
from statewright.engine.run import check_if_match
from statewright.entity import Actor
from statewright.failures import BadRequest, EntityNotFound, HistoryPruned, InvalidParameter, VersionNotFound
from statewright.ids import EntityId, TransactionId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.patches import PatchFailed, build_json_patch, take_values
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import free_in_parts, run_by_size
from statewright.operations.history import Difference, Restored, StatesOfVersions, VersionView
from statewright.operations.service import Act
from statewright.services.core import Caller, Core
from statewright.services.entities import get_governing_definition
from statewright.services.ops.lists import Page, PageRequest, build_page
from statewright.services.ops.operations import Operations
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
from statewright.storage.ops import versions
from statewright.storage.ops.versions import ACTS, build_staged_act
from statewright.storage.ops.versions import Version as Version
from statewright.storage.ops.versions import VersionDocument as VersionDocument
from statewright.storage.ops.versions import VersionFilter as VersionFilter
from statewright.storage.ops.versions import VersionKey as VersionKey

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
    found = await versions.fetch_versions(
        core.pool, caller.tenant, entity_id, wanted, limit=page.size + 1, after=page.after
    )
    if not found:
        await _require_existed(core, caller, entity_id)
    return build_page(page, found, lambda version: VersionKey(version.at))


async def get_version(core: Core, caller: Caller, entity_id: EntityId, transaction: TransactionId) -> VersionDocument:
    """The version that a transaction wrote. Raises ``EntityNotFound``, ``VersionNotFound``."""
    return await _find(core, caller, entity_id, transaction)


async def find_named(core: Core, caller: Caller, entity_id: EntityId, name: VersionName) -> VersionDocument:
    """A version; ``previous`` is the one before the last. Raises ``EntityNotFound``, ``VersionNotFound``,
    ``HistoryPruned``.
    """
    if name != "previous":
        return await _find(core, caller, entity_id, name)
    current = await _find(core, caller, entity_id, "current")
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
        first = await _find(core, caller, entity_id, older)
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


async def _find(core: Core, caller: Caller, entity_id: EntityId, name: VersionName) -> VersionDocument:
    tenant = caller.tenant
    if isinstance(name, int):
        found = await versions.find_version(core.pool, tenant, entity_id, at=name)
        until = None if found is None else found.version.until
        if until is not None and until <= name:
            raise HistoryPruned(name)
        if found is None and await _has_existed_at(core, caller, entity_id, name):
            raise HistoryPruned(name)
    elif name == "current":
        found = await versions.find_version(core.pool, tenant, entity_id)
    else:
        found = await versions.find_version(core.pool, tenant, entity_id, transaction=TransactionId(name))
    if found is None:
        await _require_existed(core, caller, entity_id)
        raise VersionNotFound(f"entity id={entity_id} has no such version, or keeps it no longer")
    return found


async def _has_existed_at(core: Core, caller: Caller, entity_id: EntityId, instant: int) -> bool:
    """Whether the entity had been created by then, as its last version knows."""
    last = await versions.find_version(core.pool, caller.tenant, entity_id)
    return last is not None and last.version.entity.created_at <= instant


async def _find_before(core: Core, caller: Caller, entity_id: EntityId, version: Version) -> VersionDocument | None:
    """The version that this one superseded; None for the first one. Raises ``HistoryPruned``."""
    if version.change == "CREATE":
        return None
    found = await versions.find_version(core.pool, caller.tenant, entity_id, at=version.at - 1)
    if found is None or found.version.until != version.at:
        raise HistoryPruned(version.at - 1)
    return found


async def _require_existed(core: Core, caller: Caller, entity_id: EntityId) -> None:
    if not await entities.has_existed(core.pool, caller.tenant, entity_id):
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})


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
            raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
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
        unit.parts[ACTS.name] = build_staged_act(caller.tenant, _to_actor(caller), act)
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


def _to_actor(caller: Caller) -> Actor:
    return Actor(caller.principal.id, caller.principal.kind)
