"""Use cases on single entities: create, read, list, update, delete
(docs/reference/entities.md#entities-and-messages).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from statewright.background import free_in_parts, run_by_size
from statewright.engine.engine import CreateEntity, UpdateEntity, list_declared_transitions
from statewright.engine.run import check_if_match
from statewright.engine.segments import may_segment_on_create, may_segment_on_update
from statewright.entity import Entity, EntityChange, EntityView, ModelKey, Page
from statewright.failures import BadRequest, EntityNotFound, ModelNotFound
from statewright.ids import EntityId, ModelId, TransactionId
from statewright.jsonval.codec import decode_stored
from statewright.jsonval.values import JsonValue
from statewright.services.builtin import BuiltinChange, FireRequest
from statewright.services.definitions import ModelDefinition
from statewright.services.runtime import Caller, Runtime
from statewright.services.writing import (
    Saved,
    get_locked_definition,
    read_document_by_size,
    require_complete_keys,
    run_and_commit,
    to_document,
    to_saved,
    validate_and_stage,
)
from statewright.storage import entities
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.versions import EntityList, Entry, VersionRef

Patch = Callable[[JsonValue], JsonValue]
"""What a patch makes of a document. Raises ``BadRequest`` when it cannot be applied."""

MAX_PAGE_SIZE: Final = 10_000
MAX_PAGE_NUMBER: Final = (2**31 - 1) // MAX_PAGE_SIZE


class DeletionResult(Struct, frozen=True, kw_only=True):
    """The result of a deletion."""

    entity_id: EntityId
    model: ModelKey
    transaction_id: TransactionId


async def create(
    runtime: Runtime, caller: Caller, *, key: ModelKey, media: str, body: bytes, entity_id: EntityId | None = None
) -> Saved:
    """Create one entity; ``entity_id`` is an id of the service's own choice. Checks in the order of
    docs/reference/entities.md#order-of-checks: model, lock, format, document, schema, keys. Raises ``Conflict`` for an
    id that is taken.
    """
    definition = await get_locked_definition(runtime, caller.tenant, key)
    document = await read_document_by_size(body, media)
    async with runtime.open_unit(caller) as unit:
        definition = await validate_and_stage(runtime, unit, definition, document)
        require_complete_keys(definition, document.value)
        request = CreateEntity(id=entity_id or runtime.ids.new_entity_id(), document=document.value, text=document.text)
        run = runtime.engine.create(unit, definition.model, request)
        may_segment = may_segment_on_create(definition.model)
        return await run_and_commit(
            runtime, caller, unit, run, lambda _: to_saved(unit, [request.id]), may_segment=may_segment
        )


async def read(runtime: Runtime, caller: Caller, entity_id: EntityId) -> Entity:
    """The current version, in a joined transaction as that one sees it. Raises ``EntityNotFound``."""
    if caller.transaction is None:
        return _require_entity(await runtime.reader.get(caller.tenant, entity_id), entity_id)
    async with runtime.open_unit(caller) as unit:
        entity = await unit.get_entity(entity_id)
        await unit.commit()
        return _require_entity(entity, entity_id)


async def read_at(runtime: Runtime, caller: Caller, entity_id: EntityId, instant: int) -> Entity:
    """The version valid at ``instant`` (epoch microseconds). Raises ``EntityNotFound``."""
    return _require_entity(await entities.fetch_entity_at(runtime.pool, caller.tenant, entity_id, instant), entity_id)


async def read_by_transaction(
    runtime: Runtime, caller: Caller, entity_id: EntityId, transaction: TransactionId
) -> Entity:
    """The version a transaction left behind. Raises ``EntityNotFound``."""
    return _require_entity(
        await entities.fetch_entity_by_transaction(runtime.pool, caller.tenant, entity_id, transaction), entity_id
    )


async def list_portions(
    runtime: Runtime, caller: Caller, key: ModelKey, page: Page, *, instant: int | None = None
) -> AsyncGenerator[Sequence[EntityView]]:
    """One page of a model's entities by ascending id, in portions.

    Raises ``BadRequest`` for limits, then ``ModelNotFound``, then ``HistoryPruned``.
    """
    if not 0 <= page.size <= MAX_PAGE_SIZE:
        raise BadRequest(f"pageSize must be between 0 and {MAX_PAGE_SIZE}")
    if not 0 <= page.number <= MAX_PAGE_NUMBER:
        raise BadRequest(f"pageNumber must be between 0 and {MAX_PAGE_NUMBER}")
    model = (await runtime.get_definition(caller.tenant, key)).stored.id
    if page.size == 0:
        return
    if caller.transaction is not None and instant is None:
        found = await _list_page_in_transaction(runtime, caller, model, page)
        async for portion in found.take_portions():
            yield portion
    else:
        async for entities_ in entities.fetch_entities(runtime.pool, caller.tenant, model, page, instant=instant):
            yield entities_


async def _list_page_in_transaction(runtime: Runtime, caller: Caller, model: ModelId, page: Page) -> EntityList:
    """A page as a joined transaction sees it: what is committed, less what it deleted, plus what it wrote. It relies on
    the versions that are returned.
    """
    async with runtime.open_unit(caller) as unit:
        writes = [write for write in unit.staged.values() if write.entity.model == model]
        deleted = {write.entity.id for write in writes if write.deletes}
        wanted = page.offset + page.size + len(deleted)
        committed = await entities.fetch_first_refs(runtime.pool, caller.tenant, model, limit=wanted, after=page.after)
        seen: dict[EntityId, Entry] = {ref.id: ref for ref in committed if ref.id not in deleted}
        seen |= {
            write.entity.id: write.entity for write in writes if not write.deletes and write.entity.id > page.after
        }
        chosen = [seen[id_] for id_ in sorted(seen)[page.offset : page.offset + page.size]]
        for entry in chosen:
            if isinstance(entry, VersionRef):
                unit.expect(entry.id, entry.transaction_id)
        await unit.commit()
        return EntityList(runtime.pool, caller.tenant, chosen)


async def update(
    runtime: Runtime,
    caller: Caller,
    entity_id: EntityId,
    *,
    media: str,
    body: bytes,
    transition: str | None = None,
    if_match: str | None = None,
) -> Saved:
    """Replace an entity's document and run its workflow: the named transition, or a loopback without one.

    Checks in the order of docs/reference/entities.md#order-of-checks: format, document, entity, schema, keys,
    workflow, ``If-Match``.
    """
    document = await read_document_by_size(body, media)
    async with runtime.open_unit(caller) as unit:
        entity = await get_for_update(unit, entity_id)
        if entity.model in runtime.builtin:
            fire_request = FireRequest(entity=entity, transition=transition, document=document.value, if_match=if_match)
            return await _fire_builtin_transition(runtime, caller, fire_request)
        definition = await get_governing_definition(runtime, caller, entity)
        definition = await validate_and_stage(runtime, unit, definition, document)
        require_complete_keys(definition, document.value)
        request = UpdateEntity(
            entity=entity, document=document.value, text=document.text, transition=transition, if_match=if_match
        )
        run = runtime.engine.update(unit, definition.model, request)
        may_segment = may_segment_on_update(definition.model, entity, transition)
        return await run_and_commit(
            runtime, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )


async def patch(
    runtime: Runtime,
    caller: Caller,
    entity_id: EntityId,
    *,
    change: Patch,
    size: int,
    transition: str | None = None,
    if_match: str | None = None,
) -> Saved:
    """Change an entity's document in part and run its workflow (docs/reference/entities.md#partial-update).

    The changed document must fit the model strictly, whatever its change level. Checks in this order: entity, patch,
    schema, keys, workflow, ``If-Match``. ``size``: bytes of the patch. Raises ``BadRequest`` for a patch that cannot be
    applied.
    """
    async with runtime.open_unit(caller) as unit:
        entity = await get_for_update(unit, entity_id)
        runtime.builtin.refuse_entities(entity.model)
        definition = await get_governing_definition(runtime, caller, entity)
        size += len(entity.document)
        document = await run_by_size(size, lambda: to_document(change(decode_stored(entity.document)), size))
        free_in_parts(document.value, size)
        definition = await validate_and_stage(runtime, unit, definition, document, strictly=True)
        require_complete_keys(definition, document.value)
        request = UpdateEntity(
            entity=entity, document=document.value, text=document.text, transition=transition, if_match=if_match
        )
        run = runtime.engine.update(unit, definition.model, request)
        may_segment = may_segment_on_update(definition.model, entity, transition)
        return await run_and_commit(
            runtime, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )


async def delete(runtime: Runtime, caller: Caller, entity_id: EntityId) -> DeletionResult:
    """Delete an entity softly: history and audit stay. Raises ``EntityNotFound``, ``Conflict``."""
    async with runtime.open_unit(caller) as unit:
        entity = _require_entity(await unit.get_entity(entity_id), entity_id)
        runtime.builtin.refuse_entities(entity.model)
        definition = await get_governing_definition(runtime, caller, entity)
        unit.delete(entity)
        deleted = DeletionResult(entity_id=entity_id, model=definition.stored.key, transaction_id=unit.id)
        await caller.commit(unit, deleted)
        return deleted


async def list_changes(
    runtime: Runtime, caller: Caller, entity_id: EntityId, *, until: int | None = None
) -> list[EntityChange]:
    """The entity's versions up to an instant, newest first. Raises ``EntityNotFound`` when there never was one."""
    tenant = caller.tenant
    history = await entities.fetch_changes(
        runtime.pool, tenant, entity_id, until=entities.FOREVER if until is None else until
    )
    if not history and not await entities.has_existed(runtime.pool, tenant, entity_id):
        _require_entity(None, entity_id)
    return history


async def list_transitions(runtime: Runtime, caller: Caller, entity: Entity) -> tuple[str, ...]:
    """Names of all transitions declared in the entity's state, in order. A pure read (decision W9)."""
    definition = await get_governing_definition(runtime, caller, entity)
    return list_declared_transitions(definition.model, entity)


async def get_governing_definition(runtime: Runtime, caller: Caller, entity: Entity) -> ModelDefinition:
    """The definition of an entity's model.

    Raises ``ModelNotFound`` for the history of entities whose model was deleted after them.
    """
    definition = await runtime.definitions.find_by_id(caller.tenant, entity.model)
    if definition is None:
        raise ModelNotFound("the model of this entity has been deleted")
    return definition


async def get_for_update(unit: UnitOfWork, entity_id: EntityId) -> Entity:
    """The entity that is to be updated. Raises ``EntityNotFound``, here without properties."""
    entity = await unit.get_entity(entity_id)
    if entity is None:
        raise EntityNotFound(f"entity {entity_id} not found")
    return entity


def _require_entity(entity: Entity | None, entity_id: EntityId) -> Entity:
    if entity is None:
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
    return entity


# Firing a transition by its name on an entity whose document stays as it is
# (docs/reference/grpc.md#entitytransitionrequest).


async def fire_transition(runtime: Runtime, caller: Caller, entity_id: EntityId, *, transition: str | None) -> Saved:
    """Fire the transition, or look for automated ones without a name. Raises ``EntityNotFound`` and what a run can
    fail with.

    The document is read and written in one transaction, so no other change is lost. It is not held against its model
    again: what a processor made of it need not fit (decision W13), and must not stop the entity for ever.
    """
    async with runtime.open_unit(caller) as unit:
        entity = await get_for_update(unit, entity_id)
        if entity.model in runtime.builtin:
            return await _fire_builtin_transition(
                runtime, caller, FireRequest(entity=entity, transition=transition, document={})
            )
        definition = await get_governing_definition(runtime, caller, entity)
        text = entity.document
        document = await run_by_size(len(text), partial(decode_stored, text))
        free_in_parts(document, len(text))
        request = UpdateEntity(entity=entity, document=document, text=text, transition=transition)
        run = runtime.engine.update(unit, definition.model, request)
        may_segment = may_segment_on_update(definition.model, entity, transition)
        return await run_and_commit(
            runtime, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )


async def _fire_builtin_transition(runtime: Runtime, caller: Caller, request: FireRequest) -> Saved:
    """Fire a transition of a built-in model that is open to clients, by the use case behind it.

    Raises the failures of ``check_transition``, ``EntityModified`` and what the use case can fail with.
    """
    entity = request.entity
    runtime.builtin.check_transition(request)
    if request.if_match is not None:
        check_if_match(entity, request.if_match)

    def conclude(change: BuiltinChange) -> Saved:
        return Saved(transaction_id=change.transaction_id, entity_ids=(entity.id,))

    caller.convert_result(conclude)
    transaction = await runtime.builtin_transitions[entity.model](runtime, caller, request)
    return Saved(transaction_id=transaction, entity_ids=(entity.id,))
