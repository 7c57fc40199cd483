"""Use cases on many entities at once: create, update (spec/entities.md §5.3–§5.5, §7.2).

Items are cut, in order, into chunks. Each chunk is one transaction; chunks follow each other. A chunk that fails ends
the request: the first with its failure, a later one with an element that reports it, since the ones before are durable.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import Struct

from statewright import logs
from statewright.engine import events
from statewright.engine.engine import Create, Update
from statewright.engine.run import record
from statewright.entity import LOOPBACK, Entity, ModelKey
from statewright.failures import BadRequest, Conflict, EntityModified, Failure, ModelNotFound
from statewright.identity import EntityId
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue
from statewright.services.definitions import Definition
from statewright.services.documents import (
    Document,
    accepted,
    as_document,
    locked_definition,
    read_document,
    require_complete_keys,
)
from statewright.services.entities import existing, governing_definition
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps.entity_door import refuse_entities
from statewright.services.writing import Saved, StaleItem, committed, saved
from statewright.storage.unit_of_work import UnitOfWork

T = TypeVar("T")

ITEMS_IN_A_ROW = 32
"""Items worked on before others get their turn: a few milliseconds."""

log = logs.logger("services")


class Refused(Struct, frozen=True, kw_only=True):
    """Why a later chunk was not committed; ``chunk`` counts from zero."""

    code: str
    message: str
    chunk: int


Results = list[Saved | Refused]


class NewItem(Struct, frozen=True, kw_only=True):
    """An entity to create: of which model, and how to come by its document."""

    key: ModelKey | None
    document: Callable[[], Document]


class ChangedItem(Struct, frozen=True, kw_only=True):
    """An entity to update; ``id`` as it came, ``if_match`` None means any version."""

    id: str
    payload: str
    transition: str | None = None
    if_match: str | None = None


class _Key(Struct):
    name: str = ""
    version: int = 0


class _NewItem(Struct):
    model: _Key | None = None
    payload: str = ""


class _ChangedItem(Struct, rename="camel", kw_only=True):
    id: str | None = None
    payload: str
    transition: str | None = None
    if_match: str | None = None


async def create_all(runtime: Runtime, caller: Caller, items: Sequence[NewItem], *, window: int) -> Results:
    """Create entities, ``window`` of them per transaction."""
    return await _in_chunks(items, window, lambda chunk: _create_chunk(runtime, caller, chunk))


async def update_all(runtime: Runtime, caller: Caller, items: Sequence[ChangedItem], *, window: int) -> Results:
    """Update entities, ``window`` of them per transaction; items with a stale ``ifMatch`` are left out and reported."""
    return await _in_chunks(items, window, lambda chunk: _update_chunk(runtime, caller, chunk))


def read_array(raw: bytes, key: ModelKey) -> list[NewItem]:
    """The items of an array body, all of one model. Raises ``BadRequest``."""
    return [NewItem(key=key, document=_kept(value)) for value in _array(raw)]


def read_new_items(raw: bytes) -> list[NewItem]:
    """The items of a collection to create (spec/entities.md §5.4). Raises ``BadRequest``."""
    try:
        items = msgspec.convert(_array(raw), list[_NewItem])
    except msgspec.ValidationError as malformed:
        raise BadRequest(f"invalid collection: {malformed}") from malformed
    return [NewItem(key=_model_key(item.model), document=_read(item.payload)) for item in items]


def read_changed_items(raw: bytes) -> list[ChangedItem]:
    """The items of a collection to update (spec/entities.md §7.2). Raises ``BadRequest``."""
    try:
        items = msgspec.convert(_array(raw), list[_ChangedItem])
    except msgspec.ValidationError as malformed:
        raise BadRequest(f"invalid collection: {malformed}") from malformed
    if not items:
        raise BadRequest("the collection is empty")
    return [
        ChangedItem(
            id=item.id or "",
            payload=item.payload,
            transition=item.transition or None,
            if_match=item.if_match or None,
        )
        for item in items
    ]


def _array(raw: bytes) -> list[JsonValue]:
    try:
        value = decode(raw)
    except MalformedJson as malformed:
        raise BadRequest(f"invalid JSON: {malformed}") from malformed
    if not isinstance(value, list):
        raise BadRequest("a collection is a JSON array")
    return value


def _model_key(model: _Key | None) -> ModelKey | None:
    return None if model is None else ModelKey(model.name, model.version)


def _kept(value: JsonValue) -> Callable[[], Document]:
    return lambda: as_document(value)


def _read(payload: str) -> Callable[[], Document]:
    return lambda: read_document(payload, "JSON")


def _chunks(items: Sequence[T], window: int) -> Iterator[list[T]]:
    """At least one, which may be empty."""
    left = iter(items)
    yield list(islice(left, window))
    while chunk := list(islice(left, window)):
        yield chunk


async def _in_chunks(items: Sequence[T], window: int, commit: Callable[[list[T]], Awaitable[Saved]]) -> Results:
    results: Results = []
    for number, chunk in enumerate(_chunks(items, window)):
        try:
            results.append(await commit(chunk))
        except Failure as failure:
            if not results:
                raise
            results.append(Refused(code=failure.code, message=failure.detail, chunk=number))
            return results
        except Exception:  # chunks are durable already, and their ids must reach the client
            if not results:
                raise
            log.exception("chunk_failed", chunk=number)
            results.append(Refused(code="SERVER_ERROR", message="SERVER_ERROR: internal error", chunk=number))
            return results
    return results


async def _create_chunk(runtime: Runtime, caller: Caller, items: Sequence[NewItem]) -> Saved:
    """Check all items, then run and store them all."""
    async with runtime.unit(caller) as unit:
        admitted: list[tuple[Definition, Create]] = []
        for number, item in enumerate(items):
            with _at_item(number):
                admitted.append(await _admitted(runtime, unit, item))
            await _give_way(number)
        may_segment = any(definition.model.may_segment for definition, _ in admitted)
        await committed(runtime, unit, _create_admitted(runtime, unit, admitted), may_segment=may_segment)
        return saved(unit, [request.id for _, request in admitted])


async def _admitted(runtime: Runtime, unit: UnitOfWork, item: NewItem) -> tuple[Definition, Create]:
    if item.key is None:
        raise ModelNotFound("model not found")
    definition = await locked_definition(runtime, unit.tenant, item.key)
    document = item.document()
    definition = await accepted(runtime, unit, definition, document.value)
    require_complete_keys(definition, document.value)
    return definition, Create(id=runtime.ids.entity(), document=document.value, text=document.text)


async def _create_admitted(runtime: Runtime, unit: UnitOfWork, admitted: Sequence[tuple[Definition, Create]]) -> None:
    for number, (definition, request) in enumerate(admitted):
        with _at_item(number):
            await runtime.engine.create(unit, definition.model, request)
        await _give_way(number)


async def _update_chunk(runtime: Runtime, caller: Caller, items: Sequence[ChangedItem]) -> Saved:
    """Read all items, then update one entity after the other; later ones see what earlier ones did."""
    updates = [_planned(number, item) for number, item in enumerate(items)]
    async with runtime.unit(caller) as unit:
        chunk = _Chunk(runtime, caller, unit)
        may_segment = await chunk.prepare(updates)
        try:
            failed = await committed(runtime, unit, chunk.update(updates), may_segment=may_segment)
        except EntityModified as overtaken:  # by a commit that came between: repeating the request tells which item
            conflict = Conflict()
            conflict.warnings = overtaken.warnings
            raise conflict from overtaken
        stale = {item.index for item in failed}
        return saved(unit, [update.entity_id for n, update in enumerate(updates) if n not in stale], failed)


class _Planned(Struct, frozen=True):
    """An item that was read."""

    entity_id: EntityId
    item: ChangedItem
    document: Document


def _planned(number: int, item: ChangedItem) -> _Planned:
    with _at_item(number):
        return _Planned(_entity_id(item.id), item, read_document(item.payload, "JSON"))


def _entity_id(text: str) -> EntityId:
    if not text:
        raise BadRequest("id is required")
    try:
        return EntityId(str(uuid.UUID(text)))
    except ValueError as malformed:
        raise BadRequest(f'id "{text}" is no UUID') from malformed


class _Chunk:
    """The updates of one transaction."""

    def __init__(self, runtime: Runtime, caller: Caller, unit: UnitOfWork) -> None:
        self._runtime = runtime
        self._caller = caller
        self._unit = unit

    async def prepare(self, updates: Sequence[_Planned]) -> bool:
        """Read all entities at once; whether the workflow of one may commit a segment."""
        found = await self._unit.prefetch(update.entity_id for update in updates)
        definitions = [await governing_definition(self._runtime, self._caller, entity) for entity in found]
        return any(definition.model.may_segment for definition in definitions)

    async def update(self, updates: Sequence[_Planned]) -> list[StaleItem]:
        """Update them all; those that were left out because their ``ifMatch`` is stale."""
        failed: list[StaleItem] = []
        for number, update in enumerate(updates):
            with _at_item(number):
                if update.item.if_match is None:
                    await self._update(self._unit, await existing(self._unit, update.entity_id), update)
                elif not await self._update_apart(update):
                    failed.append(StaleItem(entity_id=update.entity_id, index=number))
            await _give_way(number)
        return failed

    async def _update_apart(self, update: _Planned) -> bool:
        """Update in a savepoint; whether ``ifMatch`` held. If not, only that the attempt was made stays on record."""
        async with self._unit.savepoint() as savepoint:
            entity = await existing(savepoint, update.entity_id)
            try:
                await self._update(savepoint, entity, update)
                await savepoint.commit()
            except Failure as failure:
                self._unit.warnings += savepoint.warnings
                # One without the actual version is not about this item: a segment could not be committed.
                if not isinstance(failure, EntityModified) or failure.actual is None:
                    raise
                self._record_aborted(entity, update.item, failure)
                return False
        return True

    async def _update(self, unit: UnitOfWork, entity: Entity, update: _Planned) -> None:
        item, document = update.item, update.document
        refuse_entities(entity.model)
        definition = await governing_definition(self._runtime, self._caller, entity)
        require_complete_keys(definition, document.value)
        definition = await accepted(self._runtime, unit, definition, document.value)
        request = Update(
            entity=entity,
            document=document.value,
            text=document.text,
            transition=item.transition,
            if_match=item.if_match,
        )
        await self._runtime.engine.update(unit, definition.model, request)

    def _record_aborted(self, entity: Entity, item: ChangedItem, stale: EntityModified) -> None:
        started = "Loopback started" if item.transition is None else "Manual transition started"
        record(self._unit, entity.id, events.started(started, entity.state))
        aborted = events.aborted(
            item.transition or LOOPBACK, entity.state, expected=stale.expected or "", actual=stale.actual or ""
        )
        record(self._unit, entity.id, aborted)


async def _give_way(number: int) -> None:
    """Others on the event loop get their turn now and then: an item without callouts waits for nothing by itself."""
    if number % ITEMS_IN_A_ROW == ITEMS_IN_A_ROW - 1:
        await asyncio.sleep(0)


class _at_item:  # noqa: N801 - used like a function
    """Failures inside the block say which item of its chunk they are about."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, Failure):
            error.message = f"item {self._number}: {error.message}"
