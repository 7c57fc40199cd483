"""Use cases on single entities: create, read, list, update, delete (spec/entities.md)."""

from collections.abc import Callable

from msgspec import Struct

from statewright.engine.engine import Create, Update, listed
from statewright.entity import Entity, ModelKey
from statewright.failures import BadRequest, EntityNotFound, ModelNotFound
from statewright.identity import EntityId, ModelId, TransactionId
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.services.definitions import Definition
from statewright.services.documents import (
    accepted,
    as_document,
    locked_definition,
    read_document,
    require_complete_keys,
)
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import builtin, entity_door
from statewright.services.steps.entity_door import Fire, refuse_entities
from statewright.services.writing import Saved, committed, saved
from statewright.storage import entities
from statewright.storage.entities import Change, Cut
from statewright.storage.unit_of_work import UnitOfWork

Patch = Callable[[JsonValue], JsonValue]
"""What a patch makes of a document. Raises ``BadRequest`` when it cannot be applied."""

MAX_PAGE_SIZE = 10_000
MAX_PAGE_NUMBER = (2**31 - 1) // MAX_PAGE_SIZE


class Deleted(Struct, frozen=True, kw_only=True):
    """The result of a deletion."""

    entity_id: EntityId
    model: ModelKey
    transaction_id: TransactionId


async def create(runtime: Runtime, caller: Caller, *, key: ModelKey, media: str, body: bytes) -> Saved:
    """Create one entity. Checks in the order of spec/entities.md §19: model, lock, format, document, schema, keys."""
    definition = await locked_definition(runtime, caller.tenant, key)
    document = read_document(body, media)
    async with runtime.unit(caller) as unit:
        definition = await accepted(runtime, unit, definition, document.value)
        require_complete_keys(definition, document.value)
        request = Create(id=runtime.ids.entity(), document=document.value, text=document.text)
        run = runtime.engine.create(unit, definition.model, request)
        await committed(runtime, unit, run, may_segment=definition.model.may_segment)
        return saved(unit, [request.id])


async def read(runtime: Runtime, caller: Caller, entity_id: EntityId) -> Entity:
    """The current version, in a joined transaction as that one sees it. Raises ``EntityNotFound``."""
    if caller.transaction is None:
        return _found(await runtime.reader.get(caller.tenant, entity_id), entity_id)
    async with runtime.unit(caller) as unit:
        entity = await unit.entity(entity_id)
        await unit.commit()
        return _found(entity, entity_id)


async def read_at(runtime: Runtime, caller: Caller, entity_id: EntityId, instant: int) -> Entity:
    """The version valid at ``instant`` (epoch microseconds). Raises ``EntityNotFound``."""
    return _found(await entities.entity_at(runtime.pool, caller.tenant, entity_id, instant), entity_id)


async def read_by_transaction(
    runtime: Runtime, caller: Caller, entity_id: EntityId, transaction: TransactionId
) -> Entity:
    """The version a transaction left behind. Raises ``EntityNotFound``."""
    return _found(await entities.entity_by_transaction(runtime.pool, caller.tenant, entity_id, transaction), entity_id)


async def page(
    runtime: Runtime, caller: Caller, key: ModelKey, cut: Cut, *, instant: int | None = None
) -> list[Entity]:
    """One page of a model's entities by ascending id.

    Raises ``BadRequest`` for limits, then ``ModelNotFound``, then ``HistoryPruned``.
    """
    if not 0 <= cut.size <= MAX_PAGE_SIZE:
        raise BadRequest(f"pageSize must be between 0 and {MAX_PAGE_SIZE}")
    if not 0 <= cut.number <= MAX_PAGE_NUMBER:
        raise BadRequest(f"pageNumber must be between 0 and {MAX_PAGE_NUMBER}")
    model = (await runtime.definition(caller.tenant, key)).stored.id
    if cut.size == 0:
        return []
    if caller.transaction is not None and instant is None:
        return await _page_inside(runtime, caller, model, cut)
    return await entities.page(runtime.pool, caller.tenant, model, cut, instant=instant)


async def _page_inside(runtime: Runtime, caller: Caller, model: ModelId, cut: Cut) -> list[Entity]:
    """A page as a joined transaction sees it: committed ids, less what it deleted, plus what it created."""
    async with runtime.unit(caller) as unit:
        writes = [write for write in unit.staged.values() if write.entity.model == model]
        deleted = {write.entity.id for write in writes if write.deletes}
        wanted = cut.offset + cut.size + len(deleted)
        found_ids = await entities.first_ids(runtime.pool, caller.tenant, model, limit=wanted, after=cut.after)
        ids = set(found_ids) - deleted
        ids |= {write.entity.id for write in writes if not write.deletes and write.entity.id > cut.after}
        chosen = sorted(ids)[cut.offset : cut.offset + cut.size]
        found = [await unit.entity(entity_id) for entity_id in chosen]
        await unit.commit()
        return [entity for entity in found if entity is not None]


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

    Checks in the order of spec/entities.md §19: format, document, entity, schema, keys, workflow, ``If-Match``.
    """
    document = read_document(body, media)
    async with runtime.unit(caller) as unit:
        entity = await existing(unit, entity_id)
        if entity.model in builtin.KEYS:
            fire = Fire(entity=entity, transition=transition, document=document.value, if_match=if_match)
            return await entity_door.fire(runtime, caller, fire)
        definition = await governing_definition(runtime, caller, entity)
        definition = await accepted(runtime, unit, definition, document.value)
        require_complete_keys(definition, document.value)
        request = Update(
            entity=entity, document=document.value, text=document.text, transition=transition, if_match=if_match
        )
        run = runtime.engine.update(unit, definition.model, request)
        await committed(runtime, unit, run, may_segment=definition.model.may_segment)
        return saved(unit, [entity_id])


async def patch(
    runtime: Runtime,
    caller: Caller,
    entity_id: EntityId,
    *,
    change: Patch,
    transition: str | None = None,
    if_match: str | None = None,
) -> Saved:
    """Change an entity's document in part and run its workflow (spec/entities.md §8).

    The changed document must fit the model strictly, whatever its change level. Checks in this order: entity, patch,
    schema, keys, workflow, ``If-Match``. Raises ``BadRequest`` for a patch that cannot be applied.
    """
    async with runtime.unit(caller) as unit:
        entity = await existing(unit, entity_id)
        refuse_entities(entity.model)
        definition = await governing_definition(runtime, caller, entity)
        document = as_document(change(decode(entity.document)))
        definition = await accepted(runtime, unit, definition, document.value, strictly=True)
        require_complete_keys(definition, document.value)
        request = Update(
            entity=entity, document=document.value, text=document.text, transition=transition, if_match=if_match
        )
        run = runtime.engine.update(unit, definition.model, request)
        await committed(runtime, unit, run, may_segment=definition.model.may_segment)
        return saved(unit, [entity_id])


async def delete(runtime: Runtime, caller: Caller, entity_id: EntityId) -> Deleted:
    """Delete an entity softly: history and audit stay. Raises ``EntityNotFound``, ``Conflict``."""
    async with runtime.unit(caller) as unit:
        entity = _found(await unit.entity(entity_id), entity_id)
        refuse_entities(entity.model)
        definition = await governing_definition(runtime, caller, entity)
        unit.delete(entity)
        await unit.commit()
        return Deleted(entity_id=entity_id, model=definition.stored.key, transaction_id=unit.id)


async def changes(runtime: Runtime, caller: Caller, entity_id: EntityId, *, until: int | None = None) -> list[Change]:
    """The entity's versions up to an instant, newest first. Raises ``EntityNotFound`` when there never was one."""
    tenant = caller.tenant
    history = await entities.changes(
        runtime.pool, tenant, entity_id, until=entities.FOREVER if until is None else until
    )
    if not history and not await entities.existed(runtime.pool, tenant, entity_id):
        _found(None, entity_id)
    return history


async def transitions(runtime: Runtime, caller: Caller, entity: Entity) -> tuple[str, ...]:
    """Names of all transitions declared in the entity's state, in order. A pure read (decision W9)."""
    definition = await governing_definition(runtime, caller, entity)
    return listed(definition.model, entity)


async def governing_definition(runtime: Runtime, caller: Caller, entity: Entity) -> Definition:
    """The definition of an entity's model.

    Raises ``ModelNotFound`` for the history of entities whose model was deleted after them.
    """
    definition = await runtime.definitions.by_id(caller.tenant, entity.model)
    if definition is None:
        raise ModelNotFound("the model of this entity has been deleted")
    return definition


async def existing(unit: UnitOfWork, entity_id: EntityId) -> Entity:
    """The entity that is to be updated. Raises ``EntityNotFound``, here without properties."""
    entity = await unit.entity(entity_id)
    if entity is None:
        raise EntityNotFound(f"entity {entity_id} not found")
    return entity


def _found(entity: Entity | None, entity_id: EntityId) -> Entity:
    if entity is None:
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
    return entity
