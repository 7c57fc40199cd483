"""Bringing a former document of an entity back (docs/reference/operations.md#restoring-a-version).

Restoring is an update like any other: it is validated, runs the workflow, and makes a new version.
"""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from statewright.background import free_in_parts, run_by_size
from statewright.engine.engine import UpdateEntity
from statewright.engine.run import check_if_match
from statewright.engine.segments import may_segment_on_update
from statewright.entity import Actor
from statewright.failures import BadRequest, EntityNotFound, InvalidParameter, VersionNotFound
from statewright.ids import EntityId, TransactionId
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.differences import build_json_patch
from statewright.jsonval.patches import PatchFailed, take_values
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operator_acts import Act
from statewright.services.entities import get_governing_definition
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.ops.versions import VersionName, find_named
from statewright.services.runtime import Caller, Runtime
from statewright.services.writing import (
    Document,
    Saved,
    require_complete_keys,
    run_and_commit,
    to_document,
    to_saved,
    validate_and_stage,
)
from statewright.storage.ops.acts import ACTS, build_staged_act


class RestoreRequest(Struct, frozen=True, kw_only=True):
    """What is to be brought back: the document of a version, or of it only what is at ``paths``, which are JSON
    Pointers. ``transition`` is fired by it; None: a save without one.
    """

    version: VersionName
    reason: str
    if_match: str | None = None
    transition: str | None = None
    paths: Sequence[str] | None = None


class Restored(Struct, frozen=True, kw_only=True):
    """What came of it: the version that the entity has, and what led to it; without a change there is no new one."""

    transaction_id: TransactionId
    restored: bool
    patch: "list[JsonObject]"


class _Change(Struct, frozen=True):
    """The document as it is to be, and what leads to it."""

    document: JsonValue
    patch: "list[JsonObject]"


async def restore(runtime: Runtime, caller: Caller, entity_id: EntityId, request: RestoreRequest) -> Restored:
    """Write a former document as the next version.

    Raises ``EntityNotFound``, ``Forbidden`` for built-in models, ``EntityModified``, ``VersionNotFound``,
    ``HistoryPruned``, ``InvalidParameter`` for a path that leads nowhere, and what an update can fail with.
    """
    if caller.transaction is not None:
        raise BadRequest("versions are not restored inside another transaction")
    async with runtime.open_unit(caller) as unit:
        entity = await unit.get_entity(entity_id)
        if entity is None:
            raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
        runtime.builtin.refuse_entities(entity.model)
        if request.if_match is not None:
            check_if_match(entity, request.if_match)
        former = await find_named(runtime, caller, entity_id, request.version)
        if former.document is None:
            raise VersionNotFound("a deletion has no document that could be restored")
        size = len(former.document) + len(entity.document)
        change = await run_by_size(size, partial(_compute, entity.document, former.document, request.paths))
        free_in_parts(change.document, size)
        if not change.patch:
            return Restored(transaction_id=entity.transaction_id, restored=False, patch=[])

        def conclude(saved: Saved) -> Restored:
            return Restored(transaction_id=saved.transaction_id, restored=True, patch=change.patch)

        document: Document = await run_by_size(size, lambda: to_document(change.document, size))
        definition = await get_governing_definition(runtime, caller, entity)
        definition = await validate_and_stage(runtime, unit, definition, document)
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
        run = runtime.engine.update(unit, definition.model, update)
        may_segment = may_segment_on_update(definition.model, entity, request.transition)
        saved = await run_and_commit(
            runtime, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )
    runtime.extensions.get(OpsMetrics).restores += 1
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
