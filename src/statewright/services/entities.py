"""Use cases on single entities: create, read, list, update, delete
(docs/reference/entities.md#entities-and-messages).

Partial updates as all interfaces take them (docs/reference/entities.md#partial-update).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.engine.engine import CreateEntity, UpdateEntity, list_declared_transitions
from statewright.engine.models import may_segment_on_create, may_segment_on_update
from statewright.engine.run import check_if_match
from statewright.entity import Entity, EntityChange, EntityView, ModelKey, OffsetPage
from statewright.failures import BadRequest, EntityNotFound, ModelNotFound
from statewright.ids import EntityId, ModelId, TransactionId
from statewright.jsonval.codec import MalformedJson, decode, decode_stored
from statewright.jsonval.patches import PatchFailed, count_copies
from statewright.jsonval.values import JsonValue
from statewright.services import audit
from statewright.services.builtin import BuiltinChange, FireRequest
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.services.writing import (
    Saved,
    decode_by_size,
    get_locked_definition,
    make_document,
    read_document,
    require_complete_keys,
    run_and_commit,
    to_document,
    to_saved,
    validate_and_stage,
)
from statewright.storage import entities
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.storage.versions import EntityList, Entry, VersionRef

Dialect: TypeAlias = Callable[[JsonValue, JsonValue], JsonValue]
"""Document and patch to the changed document; raises ``PatchFailed``."""

MAX_DOUBLINGS: Final = 16
"""Of a document, by operations that copy: more are limited by what they copy, and take a thread in any case."""


class Patch(Struct, frozen=True, kw_only=True, eq=False):
    """A change to a part of a document."""

    dialect: Dialect
    value: JsonValue
    size: int
    """Bytes of its text."""
    copies: int = 0
    """Operations that copy a part of the document, each of which may double it."""

    def weigh(self, document: str) -> int:
        """Bytes of a text that takes as long to work on as the document of that text with its changes, at the most."""
        return (self.size + len(document)) << min(self.copies, MAX_DOUBLINGS)

    def apply(self, document: JsonValue) -> JsonValue:
        """The changed document. Raises ``BadRequest`` when the patch does not fit it."""
        try:
            return self.dialect(document, self.value)
        except PatchFailed as failed:
            raise BadRequest(f"the patch cannot be applied: {failed}") from failed


def read_patch(dialect: Dialect, raw: bytes) -> Patch:
    """The patch of a text. Raises ``BadRequest``."""
    try:
        value = decode(raw)
    except MalformedJson as malformed:
        raise BadRequest(f"invalid patch: {malformed}") from malformed
    return Patch(dialect=dialect, value=value, size=len(raw), copies=count_copies(value))


MAX_PAGE_SIZE: Final = 10_000
MAX_PAGE_NUMBER: Final = (2**31 - 1) // MAX_PAGE_SIZE


class DeletionResult(Struct, frozen=True, kw_only=True):
    """The result of a deletion."""

    entity_id: EntityId
    model: ModelKey
    transaction_id: TransactionId


async def create(
    core: Core, caller: Caller, *, key: ModelKey, media: str, body: bytes, entity_id: EntityId | None = None
) -> Saved:
    """Create one entity; ``entity_id`` is an id of the service's own choice. Checks in the order of
    docs/reference/entities.md#order-of-checks: model, lock, format, document, schema, keys. Raises ``Conflict`` for an
    id that is taken.
    """
    definition = await get_locked_definition(core, caller.tenant, key)
    document = await make_document(len(body), partial(read_document, body, media))
    async with core.open_unit(caller) as unit:
        definition = await validate_and_stage(core, unit, definition, document)
        require_complete_keys(definition, document.value)
        request = CreateEntity(id=entity_id or core.ids.new_entity_id(), document=document.value, text=document.text)
        run = core.engine.create(unit, definition.model, request)
        may_segment = may_segment_on_create(definition.model)
        return await run_and_commit(
            core, caller, unit, run, lambda _: to_saved(unit, [request.id]), may_segment=may_segment
        )


async def read(core: Core, caller: Caller, entity_id: EntityId) -> Entity:
    """The current version, in a joined transaction as that one sees it. Raises ``EntityNotFound``."""
    if caller.transaction is None:
        return _require_entity(await core.reader.get(caller.tenant, entity_id), entity_id)
    async with core.open_unit(caller) as unit:
        entity = await unit.get_entity(entity_id)
        await unit.commit()
        return _require_entity(entity, entity_id)


async def read_at(core: Core, caller: Caller, entity_id: EntityId, instant: int) -> Entity:
    """The version valid at ``instant`` (epoch microseconds). Raises ``EntityNotFound``."""
    return _require_entity(await entities.fetch_entity_at(core.pool, caller.tenant, entity_id, instant), entity_id)


async def read_by_transaction(core: Core, caller: Caller, entity_id: EntityId, transaction: TransactionId) -> Entity:
    """The version a transaction left behind. Raises ``EntityNotFound``."""
    return _require_entity(
        await entities.fetch_entity_by_transaction(core.pool, caller.tenant, entity_id, transaction), entity_id
    )


async def list_portions(
    core: Core, caller: Caller, key: ModelKey, page: OffsetPage, *, instant: int | None = None
) -> AsyncGenerator[Sequence[EntityView]]:
    """One page of a model's entities by ascending id, in portions.

    Raises ``BadRequest`` for limits, then ``ModelNotFound``, then ``HistoryPruned``.
    """
    if not 0 <= page.size <= MAX_PAGE_SIZE:
        raise BadRequest(f"pageSize must be between 0 and {MAX_PAGE_SIZE}")
    if not 0 <= page.number <= MAX_PAGE_NUMBER:
        raise BadRequest(f"pageNumber must be between 0 and {MAX_PAGE_NUMBER}")
    model = (await core.get_definition(caller.tenant, key)).stored.id
    if page.size == 0:
        return
    if caller.transaction is not None and instant is None:
        found = await _list_page_in_transaction(core, caller, model, page)
        async for portion in found.take_portions():
            yield portion
    else:
        async for entities_ in entities.fetch_entities(core.pool, caller.tenant, model, page, instant=instant):
            yield entities_


async def _list_page_in_transaction(core: Core, caller: Caller, model: ModelId, page: OffsetPage) -> EntityList:
    """A page as a joined transaction sees it: what is committed, less what it deleted, plus what it wrote. It relies on
    the versions that are returned.
    """
    async with core.open_unit(caller) as unit:
        writes = [write for write in unit.staged.values() if write.entity.model == model]
        deleted = {write.entity.id for write in writes if write.deletes}
        wanted = page.offset + page.size + len(deleted)
        committed = await entities.fetch_first_refs(core.pool, caller.tenant, model, limit=wanted, after=page.after)
        seen: dict[EntityId, Entry] = {ref.id: ref for ref in committed if ref.id not in deleted}
        seen |= {
            write.entity.id: write.entity for write in writes if not write.deletes and write.entity.id > page.after
        }
        chosen = [seen[id_] for id_ in sorted(seen)[page.offset : page.offset + page.size]]
        for entry in chosen:
            if isinstance(entry, VersionRef):
                unit.expect(entry.id, entry.transaction_id)
        await unit.commit()
        return EntityList(core.pool, caller.tenant, chosen)


async def update(
    core: Core,
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
    document = await make_document(len(body), partial(read_document, body, media))
    async with core.open_unit(caller) as unit:
        entity = await get_for_update(unit, entity_id)
        if entity.model in core.builtin.by_id:
            fire_request = FireRequest(entity=entity, transition=transition, document=document.value, if_match=if_match)
            return await _fire_builtin_transition(core, caller, fire_request)
        definition = await get_governing_definition(core, caller, entity)
        definition = await validate_and_stage(core, unit, definition, document)
        require_complete_keys(definition, document.value)
        request = UpdateEntity(
            entity=entity, document=document.value, text=document.text, transition=transition, if_match=if_match
        )
        run = core.engine.update(unit, definition.model, request)
        may_segment = may_segment_on_update(definition.model, entity, transition)
        return await run_and_commit(
            core, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )


async def patch(
    core: Core,
    caller: Caller,
    entity_id: EntityId,
    *,
    change: Patch,
    transition: str | None = None,
    if_match: str | None = None,
) -> Saved:
    """Change an entity's document in part and run its workflow (docs/reference/entities.md#partial-update).

    The changed document must fit the model strictly, whatever its change level. Checks in this order: entity, patch,
    schema, keys, workflow, ``If-Match``. Raises ``BadRequest`` for a patch that cannot be
    applied.
    """
    async with core.open_unit(caller) as unit:
        entity = await get_for_update(unit, entity_id)
        core.builtin.refuse_entities(entity.model)
        definition = await get_governing_definition(core, caller, entity)
        size = change.weigh(entity.document)
        document = await make_document(size, lambda: to_document(change.apply(decode_stored(entity.document)), size))
        definition = await validate_and_stage(core, unit, definition, document, strictly=True)
        require_complete_keys(definition, document.value)
        request = UpdateEntity(
            entity=entity, document=document.value, text=document.text, transition=transition, if_match=if_match
        )
        run = core.engine.update(unit, definition.model, request)
        may_segment = may_segment_on_update(definition.model, entity, transition)
        return await run_and_commit(
            core, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )


async def delete(core: Core, caller: Caller, entity_id: EntityId) -> DeletionResult:
    """Delete an entity softly: history and audit stay. Raises ``EntityNotFound``, ``Conflict``."""
    async with core.open_unit(caller) as unit:
        entity = _require_entity(await unit.get_entity(entity_id), entity_id)
        core.builtin.refuse_entities(entity.model)
        definition = await get_governing_definition(core, caller, entity)
        unit.delete(entity)
        deleted = DeletionResult(entity_id=entity_id, model=definition.stored.key, transaction_id=unit.id)
        await caller.commit(unit, deleted)
        return deleted


async def list_changes(
    core: Core,
    caller: Caller,
    entity_id: EntityId,
    *,
    until: int | None = None,
    transaction: TransactionId | None = None,
) -> list[EntityChange]:
    """The entity's versions up to an instant, newest first; with a ``transaction`` those of its run, also what other
    segments of that run made durable. Raises ``EntityNotFound`` when there never was one.
    """
    tenant = caller.tenant
    wanted = None if transaction is None else await audit.find_versions(core, tenant, entity_id, transaction)
    history = await entities.fetch_changes(
        core.pool, tenant, entity_id, until=entities.FOREVER if until is None else until, transactions=wanted
    )
    if not history and not await entities.has_existed(core.pool, tenant, entity_id):
        _require_entity(None, entity_id)
    return history


async def list_transitions(core: Core, caller: Caller, entity: Entity) -> tuple[str, ...]:
    """Names of all transitions declared in the entity's state, in order. A pure read (decision W9)."""
    definition = await get_governing_definition(core, caller, entity)
    return list_declared_transitions(definition.model, entity)


async def get_governing_definition(core: Core, caller: Caller, entity: Entity) -> ModelDefinition:
    """The definition of an entity's model.

    Raises ``ModelNotFound`` for the history of entities whose model was deleted after them.
    """
    definition = await core.definitions.find_by_id(caller.tenant, entity.model)
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
        raise EntityNotFound.of(entity_id)
    return entity


# Firing a transition by its name on an entity whose document stays as it is
# (docs/reference/grpc.md#entitytransitionrequest).


async def fire_transition(core: Core, caller: Caller, entity_id: EntityId, *, transition: str | None) -> Saved:
    """Fire the transition, or look for automated ones without a name. Raises ``EntityNotFound`` and what a run can
    fail with.

    The document is read and written in one transaction, so no other change is lost. It is not held against its model
    again: what a processor made of it need not fit (decision W13), and must not stop the entity for ever.
    """
    async with core.open_unit(caller) as unit:
        entity = await get_for_update(unit, entity_id)
        if entity.model in core.builtin.by_id:
            return await _fire_builtin_transition(
                core, caller, FireRequest(entity=entity, transition=transition, document={})
            )
        definition = await get_governing_definition(core, caller, entity)
        document = await decode_by_size(entity.document)
        request = UpdateEntity(entity=entity, document=document, text=entity.document, transition=transition)
        run = core.engine.update(unit, definition.model, request)
        may_segment = may_segment_on_update(definition.model, entity, transition)
        return await run_and_commit(
            core, caller, unit, run, lambda _: to_saved(unit, [entity_id]), may_segment=may_segment
        )


async def _fire_builtin_transition(core: Core, caller: Caller, request: FireRequest) -> Saved:
    """Fire a transition of a built-in model that is open to clients, by the use case behind it.

    Raises the failures of ``check_transition``, ``EntityModified`` and what the use case can fail with.
    """
    entity = request.entity
    core.builtin.check_transition(request)
    if request.if_match is not None:
        check_if_match(entity, request.if_match)

    def conclude(change: BuiltinChange) -> Saved:
        return Saved(transaction_id=change.transaction_id, entity_ids=(entity.id,))

    caller.convert_result(conclude)
    transaction = await core.builtin_transitions[entity.model](caller, request)
    return Saved(transaction_id=transaction, entity_ids=(entity.id,))
