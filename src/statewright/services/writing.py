"""What all writes of entities have in common: how their documents are read and accepted by their model
(docs/reference/entities.md#documents), how their transaction ends, and what its client is told.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.failures import BadRequest, Failure, ModelNotLocked, RunCutOff
from statewright.ids import EntityId, TenantId, TransactionId
from statewright.jsonval.codec import (
    EXPANDS_TOO_FAR,
    MalformedJson,
    canonicalise,
    decode,
    decode_stored,
    encode,
    encode_large,
    expands_too_far,
)
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import MAX_INLINE_BYTES, free_in_parts, run_by_size, run_in_thread
from statewright.loop.turns import is_large
from statewright.schema import INCOMPLETE, MalformedXml, xml_to_json
from statewright.schema.validation import kind_of
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.storage.commit.unit_of_work import UnitOfWork


class Document(Struct, frozen=True):
    """A decoded document beside its encoded text."""

    value: JsonObject
    text: str


def read_document(raw: bytes | str, media: str) -> Document:
    """The document of a request body; ``media`` is the ``{format}`` of its path. Raises ``BadRequest``."""
    if media not in {"JSON", "XML"}:
        raise BadRequest(f"unsupported format: {media}")
    try:
        if media == "XML":
            return to_document(xml_to_json(raw if isinstance(raw, bytes) else raw.encode()), len(raw))
        value, text = canonicalise(raw)
    except (MalformedJson, MalformedXml) as malformed:
        raise BadRequest(f"invalid {media}: {malformed}") from malformed
    return Document(_require_object(value), text.decode())


async def make_document(size: int, make: Callable[[], Document]) -> Document:
    """The document that ``make`` makes of so many bytes, in a thread if these are many. Raises what it does."""
    if size <= MAX_INLINE_BYTES:
        return make()
    document = await run_by_size(size, make)
    free_in_parts(document.value, size)
    return document


async def decode_by_size(text: str) -> JsonValue:
    """A stored document, decoded by a thread if it is large."""
    document = await run_by_size(len(text), partial(decode_stored, text))
    free_in_parts(document, len(text))
    return document


async def read_by_size(data: bytes) -> JsonValue:
    """What a member has sent as JSON, decoded by a thread if it is large. Raises ``MalformedJson``."""
    value = await run_by_size(len(data), partial(decode, data))
    free_in_parts(value, len(data))
    return value


async def encode_by_size(value: JsonValue) -> bytes:
    """A value as JSON, encoded by a thread if it is large."""
    return await run_in_thread(partial(encode_large, value)) if is_large(value) else encode(value)


def to_document(value: JsonValue, size: int = 0) -> Document:
    """A value that must be a document. Raises ``BadRequest`` for what is no object (decision S6), or would be too long
    when its numbers are written out. ``size`` is about that of its text.
    """
    document = _require_object(value)
    text = encode_large(value) if size > MAX_INLINE_BYTES else encode(value)
    if expands_too_far(document, text):
        raise BadRequest(f"validation failed: {EXPANDS_TOO_FAR}")
    return Document(document, text.decode())


def _require_object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise BadRequest(f"validation failed: expected object, got {kind_of(value)}")
    return value


async def get_locked_definition(core: Core, tenant: TenantId, key: ModelKey) -> ModelDefinition:
    """The definition of a model that takes entities. Raises ``Forbidden``, ``ModelNotFound``, ``ModelNotLocked``."""
    if key in core.builtin.by_key:
        core.builtin.refuse_model(key)
    definition = await core.get_definition(tenant, key)
    if not definition.is_locked:
        definition = await core.definitions.refresh(definition) or definition
        if not definition.is_locked:
            raise ModelNotLocked(key.name, key.version)
    return definition


async def validate_and_stage(
    core: Core, unit: UnitOfWork, definition: ModelDefinition, document: Document, *, strictly: bool = False
) -> ModelDefinition:
    """Accept a document, and stage what it teaches its model unless ``strictly``; the definition it was held against.

    A refusal is certain only when it comes from the model as it is now. Raises what ``DocumentRules.accept`` raises.
    """
    try:
        await definition.model.documents.accept_by_size(unit, document.value, len(document.text), strictly=strictly)
    except Failure:
        refreshed = await core.definitions.refresh(definition)
        if refreshed is None:
            raise
        await refreshed.model.documents.accept_by_size(unit, document.value, len(document.text), strictly=strictly)
        return refreshed
    return definition


def require_complete_keys(definition: ModelDefinition, document: JsonValue) -> None:
    """Refuse a document that has a unique key in part only (docs/reference/models.md#claims). Raises
    ``InvalidUniqueKey``.
    """
    rules = definition.model.documents
    if rules.unique_keys:
        rules.compute_claims(document, refusal=INCOMPLETE)


T = TypeVar("T")


class StaleItem(Struct, frozen=True, kw_only=True):
    """An item of a collection update that was left out because its ``ifMatch`` is stale; ``index`` is its position in
    its chunk.
    """

    entity_id: EntityId
    index: int


class Saved(Struct, frozen=True, kw_only=True):
    """The result of a write: the transaction its client may quote, the entities, what members warned of."""

    transaction_id: TransactionId
    entity_ids: tuple[EntityId, ...]
    warnings: tuple[str, ...] = ()
    failed: tuple[StaleItem, ...] = ()


def to_saved(unit: UnitOfWork, entity_ids: Sequence[EntityId], failed: Sequence[StaleItem] = ()) -> Saved:
    """What to tell the client of a unit that was committed."""
    # A joined request reports the transaction it is part of; a run of several segments the one it entered with.
    transaction = unit.label if unit.parent is None else unit.id
    return Saved(
        transaction_id=transaction,
        entity_ids=tuple(entity_ids),
        warnings=tuple(unit.warnings),
        failed=tuple(failed),
    )


async def run_and_commit(
    core: Core,
    caller: Caller,
    unit: UnitOfWork,
    work: Coroutine[object, object, T],
    conclude: Callable[[T], Saved],
    *,
    may_segment: bool,
) -> Saved:
    """Do the work and commit; what ``conclude`` makes of its result. What may commit segments goes on when its client
    leaves; all else is dropped then.

    A failure takes along what members warned of (docs/reference/workflows.md#results-of-processors), and the id of the
    run when some of it is durable (docs/reference/errors.md).
    """

    async def finish_and_commit() -> Saved:
        try:
            saved = conclude(await work)
            await caller.commit(unit, saved)
        except Failure as failure:
            told = failure.amend(warnings=tuple(unit.warnings))
            if unit.parent is None:
                if unit.id != unit.label:  # a segment is durable: repeating it is no repetition
                    told = told.amend(properties={"transactionId": unit.label, **told.properties})
                for guard in caller.around:
                    told = await guard.settle_failure(unit, told)
                core.failures.report_run(caller.principal, told)
            raise told from failure.__cause__
        return saved

    if not may_segment or not unit.may_segment:
        return await finish_and_commit()
    unit.describe_failures(partial(core.failures.build_run_parts, caller.principal))
    whole = unit.run_detached(finish_and_commit())
    try:
        for guard in caller.around:
            whole = guard.follow(whole)
        return await core.run_to_completion(whole)
    except asyncio.CancelledError as cut:
        for guard in caller.around:
            guard.leave()
        raise RunCutOff(unit.label) from cut
