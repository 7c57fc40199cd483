"""Use cases on many entities at once: create, update (docs/reference/entities.md#create-an-array,
docs/reference/entities.md#chunks, docs/reference/entities.md#update-a-collection).

Items are cut, in order, into chunks. Each chunk is one transaction; chunks follow each other. A chunk that fails ends
the request: the first with its failure, a later one with an element that reports it, since the ones before are durable.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from statewright.engine import events
from statewright.engine.engine import CreateEntity, UpdateEntity
from statewright.engine.models import may_segment_at_all, may_segment_on_create, may_segment_on_update
from statewright.entity import LOOPBACK, Entity, ModelKey
from statewright.failures import (
    BadRequest,
    Conflict,
    EntityModified,
    Failure,
    IdempotencyClaimLost,
    IdempotencyKeyTaken,
    ModelNotFound,
)
from statewright.ids import EntityId, parse_entity_id
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.pieces import estimate_size
from statewright.jsonval.values import JsonValue
from statewright.loop.background import MAX_INLINE_BYTES, TimeSlices
from statewright.loop.turns import use_once
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.services.entities import get_for_update, get_governing_definition
from statewright.services.writing import (
    Document,
    Saved,
    StaleItem,
    get_locked_definition,
    make_document,
    read_document,
    require_complete_keys,
    run_and_commit,
    to_document,
    to_saved,
    validate_and_stage,
)
from statewright.storage.commit.unit_of_work import UnitOfWork
from statewright.telemetry import logs

T = TypeVar("T")

MAX_ITEMS: Final = 10_000
"""Of one request (docs/reference/entities.md#limits): more take so long that their client gives up."""

_encode_saved: Final = msgspec.json.Encoder().encode
_decode_saved: Final = msgspec.json.Decoder(Saved).decode

log = logs.logger(__name__)


class FailedChunk(Struct, frozen=True, kw_only=True):
    """Why a later chunk was not committed; ``chunk`` counts from zero."""

    code: str
    message: str
    chunk: int


Results = list[Saved | FailedChunk]


class NewItem(Struct, frozen=True, kw_only=True):
    """An entity to create: of which model, and how to come by its document, from about ``size`` bytes."""

    key: ModelKey | None
    document: Callable[[], Document]
    size: int


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


async def create_all(core: Core, caller: Caller, items: Sequence[NewItem], *, window: int) -> Results:
    """Create entities, ``window`` of them per transaction. Raises ``BadRequest`` for too many."""
    require_limit(items)
    return await _commit_in_chunks(caller, items, window, lambda chunk: _create_chunk(core, caller, chunk))


async def update_all(core: Core, caller: Caller, items: Sequence[ChangedItem], *, window: int) -> Results:
    """Update entities, ``window`` of them per transaction; items with a stale ``ifMatch`` are left out and reported.

    Raises ``BadRequest`` for too many.
    """
    require_limit(items)
    return await _commit_in_chunks(caller, items, window, lambda chunk: _update_chunk(core, caller, chunk))


def require_limit(items: Sequence[object]) -> None:
    """Raises ``BadRequest`` for more items than a request may have."""
    if len(items) > MAX_ITEMS:
        raise BadRequest(f"the collection has {len(items)} items, {MAX_ITEMS} are allowed")


def read_array(raw: bytes, key: ModelKey) -> list[NewItem]:
    """The items of an array body, all of one model. Raises ``BadRequest``."""
    is_large = len(raw) > MAX_INLINE_BYTES
    return _read_array(
        raw, lambda values: [_make_item(key, value, estimate_size(value) if is_large else 0) for value in values]
    )


def read_new_items(raw: bytes) -> list[NewItem]:
    """The items of a collection to create (docs/reference/entities.md#create-a-collection). Raises ``BadRequest``."""
    return [
        NewItem(key=_to_model_key(item.model), document=_make_reader(item.payload), size=len(item.payload))
        for item in _read_items(raw, list[_NewItem])
    ]


def read_changed_items(raw: bytes) -> list[ChangedItem]:
    """The items of a collection to update (docs/reference/entities.md#update-a-collection). Raises ``BadRequest``."""
    items = _read_items(raw, list[_ChangedItem])
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


def _read_items(raw: bytes, kind: type[T]) -> T:
    try:
        return _read_array(raw, lambda values: msgspec.convert(values, kind))
    except msgspec.ValidationError as malformed:
        raise BadRequest(f"invalid collection: {malformed}") from malformed


def _read_array(raw: bytes, read: Callable[[list[JsonValue]], T]) -> T:
    """What is read from a JSON array, of which only the items are needed afterwards."""

    def read_value(value: JsonValue) -> T:
        if not isinstance(value, list):
            raise BadRequest("a collection is a JSON array")
        require_limit(value)
        return read(value)

    try:
        return use_once(decode(raw), read_value)
    except MalformedJson as malformed:
        raise BadRequest(f"invalid JSON: {malformed}") from malformed


def _to_model_key(model: _Key | None) -> ModelKey | None:
    return None if model is None else ModelKey(model.name, model.version)


def _make_item(key: ModelKey, value: JsonValue, size: int) -> NewItem:
    return NewItem(key=key, document=lambda: to_document(value, size), size=size)


def _make_reader(payload: str) -> Callable[[], Document]:
    return lambda: read_document(payload, "JSON")


def _split_chunks(items: Sequence[T], window: int) -> Iterator[list[T]]:
    """At least one, which may be empty."""
    left = iter(items)
    yield list(islice(left, window))
    while chunk := list(islice(left, window)):
        yield chunk


async def _commit_in_chunks(
    caller: Caller, items: Sequence[T], window: int, commit: Callable[[list[T]], Awaitable[Saved]]
) -> Results:
    results: Results = [*list_durable_chunks(caller)]
    chunks = [*_split_chunks(items, window)]
    for number, chunk in enumerate(chunks):
        if number < len(results):  # an earlier attempt at this request has committed it
            continue
        open_chunk(caller, results, is_last=number == len(chunks) - 1)
        try:
            results.append(await commit(chunk))
        except (IdempotencyKeyTaken, IdempotencyClaimLost):
            raise
        except Failure as failure:
            if caller.is_left or not results:
                raise
            results.append(_build_failed_chunk(failure, number))
            return results
        except Exception:  # chunks are durable already, and their ids must reach the client
            if not results:
                raise
            log.exception("chunk_failed", chunk=number)
            results.append(FailedChunk(code="SERVER_ERROR", message="SERVER_ERROR: internal error", chunk=number))
            return results
    return results


def list_durable_chunks(caller: Caller) -> list[Saved]:
    """What became of the chunks that an earlier attempt at the request has committed."""
    return [_decode_saved(element) for guard in caller.around for element in guard.elements]


def open_chunk(
    caller: Caller, before: Sequence[Saved | FailedChunk], *, is_last: bool, reports_failures: bool = True
) -> None:
    """The next commit of the request is that of one of several chunks; those ``before`` it are durable.
    ``reports_failures``: that it fails is told behind them, and not as a failure of the request.
    """
    results = tuple(before)

    def conclude(failure: Failure) -> Results:
        return [*results, _build_failed_chunk(failure, len(results))]

    for guard in caller.around:
        guard.open_chunk(
            results, _encode_saved, is_last=is_last, conclude=conclude if results and reports_failures else None
        )


def _build_failed_chunk(failure: Failure, number: int) -> FailedChunk:
    return FailedChunk(code=failure.code, message=failure.detail, chunk=number)


async def _create_chunk(core: Core, caller: Caller, items: Sequence[NewItem]) -> Saved:
    """Check all items, then run and store them all."""
    async with core.open_unit(caller) as unit:
        validated: list[tuple[ModelDefinition, CreateEntity]] = []
        slices = TimeSlices()
        for number, item in enumerate(items):
            with _ItemErrors(number):
                validated.append(await _validate_item(core, unit, item))
            await slices.yield_if_due()
        may_segment = any(may_segment_on_create(definition.model) for definition, _ in validated)
        ids = [request.id for _, request in validated]
        work = _create_items(core, unit, validated)
        return await run_and_commit(core, caller, unit, work, lambda _: to_saved(unit, ids), may_segment=may_segment)


async def _validate_item(core: Core, unit: UnitOfWork, item: NewItem) -> tuple[ModelDefinition, CreateEntity]:
    if item.key is None:
        raise ModelNotFound("model not found")
    definition = await get_locked_definition(core, unit.tenant, item.key)
    document = await make_document(item.size, item.document)
    definition = await validate_and_stage(core, unit, definition, document)
    require_complete_keys(definition, document.value)
    return definition, CreateEntity(id=core.ids.new_entity_id(), document=document.value, text=document.text)


async def _create_items(
    core: Core, unit: UnitOfWork, validated: Sequence[tuple[ModelDefinition, CreateEntity]]
) -> None:
    slices = TimeSlices()
    for number, (definition, request) in enumerate(validated):
        with _ItemErrors(number):
            await core.engine.create(unit, definition.model, request)
        await slices.yield_if_due()


async def _update_chunk(core: Core, caller: Caller, items: Sequence[ChangedItem]) -> Saved:
    """Read all items, then update one entity after the other; later ones see what earlier ones did."""
    updates: list[_PlannedUpdate] = []
    slices = TimeSlices()
    for number, item in enumerate(items):
        with _ItemErrors(number):
            id_ = _parse_entity_id(item.id)
            document = await make_document(len(item.payload), _make_reader(item.payload))
            updates.append(_PlannedUpdate(id_, item, document))
        await slices.yield_if_due()
    async with core.open_unit(caller) as unit:
        chunk = _Chunk(core, caller, unit)
        may_segment = await chunk.prepare(updates)

        def conclude(failed: list[StaleItem]) -> Saved:
            stale = {item.index for item in failed}
            return to_saved(unit, [update.entity_id for n, update in enumerate(updates) if n not in stale], failed)

        try:
            return await run_and_commit(core, caller, unit, chunk.update(updates), conclude, may_segment=may_segment)
        except EntityModified as error:  # by a commit that came between: repeating the request tells which item
            raise Conflict().amend(warnings=error.warnings) from error


class _PlannedUpdate(Struct, frozen=True):
    """An item that was read."""

    entity_id: EntityId
    item: ChangedItem
    document: Document


def _parse_entity_id(text: str) -> EntityId:
    if not text:
        raise BadRequest("id is required")
    found = parse_entity_id(text)
    if found is None:
        raise BadRequest(f'id "{text}" is no UUID')
    return found


class _Chunk:
    """The updates of one transaction."""

    def __init__(self, core: Core, caller: Caller, unit: UnitOfWork) -> None:
        self._core = core
        self._caller = caller
        self._unit = unit

    async def prepare(self, updates: Sequence[_PlannedUpdate]) -> bool:
        """Read all entities at once; whether the run of one may commit a segment."""
        found = await self._unit.prefetch(update.entity_id for update in updates)
        wanted: dict[EntityId, list[str | None]] = {}
        for update in updates:
            wanted.setdefault(update.entity_id, []).append(update.item.transition)
        return any([await self._may_segment(entity, wanted[entity.id]) for entity in found])

    async def _may_segment(self, entity: Entity, transitions: Sequence[str | None]) -> bool:
        model = (await get_governing_definition(self._core, self._caller, entity)).model
        if len(transitions) > 1:  # where the second begins is not known yet
            return may_segment_at_all(model)
        return may_segment_on_update(model, entity, transitions[0])

    async def update(self, updates: Sequence[_PlannedUpdate]) -> list[StaleItem]:
        """Update them all; those that were left out because their ``ifMatch`` is stale."""
        failed: list[StaleItem] = []
        slices = TimeSlices()
        for number, update in enumerate(updates):
            with _ItemErrors(number):
                if update.item.if_match is None:
                    await self._update(self._unit, await get_for_update(self._unit, update.entity_id), update)
                elif not await self._update_in_savepoint(update):
                    failed.append(StaleItem(entity_id=update.entity_id, index=number))
            await slices.yield_if_due()
        return failed

    async def _update_in_savepoint(self, update: _PlannedUpdate) -> bool:
        """Update in a savepoint; whether ``ifMatch`` held. If not, only that the attempt was made stays on record."""
        async with self._unit.open_savepoint() as savepoint:
            entity = await get_for_update(savepoint, update.entity_id)
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

    async def _update(self, unit: UnitOfWork, entity: Entity, update: _PlannedUpdate) -> None:
        item, document = update.item, update.document
        self._core.builtin.refuse_entities(entity.model)
        definition = await get_governing_definition(self._core, self._caller, entity)
        require_complete_keys(definition, document.value)
        definition = await validate_and_stage(self._core, unit, definition, document)
        request = UpdateEntity(
            entity=entity,
            document=document.value,
            text=document.text,
            transition=item.transition,
            if_match=item.if_match,
        )
        await self._core.engine.update(unit, definition.model, request)

    def _record_aborted(self, entity: Entity, item: ChangedItem, stale: EntityModified) -> None:
        started = "Loopback started" if item.transition is None else "Manual transition started"
        self._unit.record(entity.id, events.build_started_event(started, entity.state))
        aborted = events.build_aborted_event(
            item.transition or LOOPBACK, entity.state, expected=stale.expected or "", actual=stale.actual or ""
        )
        self._unit.record(entity.id, aborted)


class _ItemErrors:
    """Failures inside the block say which item of its chunk they are about."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, Failure):
            raise error.amend(message=f"item {self._number}: {error.message}")
