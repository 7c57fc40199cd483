"""Single entities over gRPC (docs/reference/grpc.md#entitymanage).

Many entities at once over gRPC (docs/reference/grpc.md#entitymanagecollection): every request has exactly one
answer.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Raw, Struct

from statewright.api.grpc.envelope import read_by_size
from statewright.api.grpc.handlers import InvalidCall, RpcMethod, build_operation
from statewright.api.grpc.idempotency import answer_with
from statewright.api.grpc.payloads import (
    NO_MODEL,
    NULL,
    DataFormat,
    EntityDeleteAllResponse,
    EntityDeleteResponse,
    EntityTransactionResponse,
    EntityTransitionResponse,
    Instant,
    Int64,
    ModelRequest,
    ModelSpec,
    Outcome,
    Payload,
    Text,
    document_bytes,
    read_entity_id,
    single_response,
    write_response,
)
from statewright.conditions import SearchCondition, read_search_condition
from statewright.failures import Failure, PreconditionRequired
from statewright.jsonval.patches import apply_json_patch, apply_merge_patch
from statewright.services import collections, deletions, entities
from statewright.services.collections import NewItem
from statewright.services.core import Caller
from statewright.services.entities import DeletionResult, Dialect, read_patch
from statewright.services.runtime import Runtime
from statewright.services.writing import Saved, read_document

PatchFormat = Literal["MERGE_PATCH", "JSON_PATCH"]

DIALECTS: Final[Mapping[PatchFormat, Dialect]] = {
    "MERGE_PATCH": apply_merge_patch,
    "JSON_PATCH": apply_json_patch,
}
"""RFC 7396 and, which other servers lack, RFC 6902."""


class NewEntity(Struct, frozen=True, kw_only=True):
    """A document of a model."""

    model: ModelSpec | None
    data: Raw


class NewVersion(Struct, frozen=True, kw_only=True, rename="camel"):
    """A document for an entity, and the transition to fire with it; none when its name is null or empty."""

    entity_id: Text | None
    data: Raw
    transition: Text | None = None


class Create(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityCreateRequest``"""

    data_format: DataFormat
    payload: NewEntity | None
    transaction_timeout_ms: Int64 | None = None


class Update(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityUpdateRequest``"""

    data_format: DataFormat
    payload: NewVersion | None
    transaction_timeout_ms: Int64 | None = None


class Change(Struct, frozen=True, kw_only=True, rename="camel"):
    """A patch for an entity at a version."""

    entity_id: Text | None
    patch: Raw
    if_match: Text | None = None
    transition: Text | None = None


class EntityPatch(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityPatchRequest``"""

    patch_format: PatchFormat
    payload: Change | None
    transaction_timeout_ms: Int64 | None = None


class Delete(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityDeleteRequest``"""

    entity_id: Text | None


class EntityTransition(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityTransitionRequest``"""

    entity_id: Text | None
    transition: Text | None


NO_ENTITY: Final = NewEntity(model=NO_MODEL, data=NULL)
NO_VERSION: Final = NewVersion(entity_id="", data=NULL)
NO_CHANGE: Final = Change(entity_id="", patch=NULL)

ANY_VERSION: Final = "*"


async def create(runtime: Runtime, caller: Caller, request: Create) -> Outcome:
    """Create one entity."""
    new = request.payload or NO_ENTITY
    body = document_bytes(new.data, request.data_format)
    key = (new.model or NO_MODEL).key
    caller = answer_with(caller, write_response)
    return write_response(await entities.create(runtime.core, caller, key=key, media=request.data_format, body=body))


async def update(runtime: Runtime, caller: Caller, request: Update) -> Outcome:
    """Replace an entity's document."""
    new = request.payload or NO_VERSION
    saved = await entities.update(
        runtime.core,
        answer_with(caller, write_response),
        read_entity_id(new.entity_id),
        media=request.data_format,
        body=document_bytes(new.data, request.data_format),
        transition=new.transition or None,
    )
    return write_response(saved)


async def patch(runtime: Runtime, caller: Caller, request: EntityPatch) -> Outcome:
    """Change an entity's document in part."""
    change = request.payload or NO_CHANGE
    if not change.if_match:
        raise PreconditionRequired("ifMatch must be the transactionId of the last read, or * for any version")
    saved = await entities.patch(
        runtime.core,
        answer_with(caller, write_response),
        read_entity_id(change.entity_id),
        change=await read_by_size(bytes(change.patch), lambda raw: read_patch(DIALECTS[request.patch_format], raw)),
        transition=change.transition or None,
        if_match=None if change.if_match == ANY_VERSION else change.if_match,
    )
    return write_response(saved)


async def delete(runtime: Runtime, caller: Caller, request: Delete) -> Outcome:
    """Delete an entity; its history stays."""
    caller = answer_with(caller, _delete_response)
    return _delete_response(await entities.delete(runtime.core, caller, read_entity_id(request.entity_id)))


def _delete_response(deleted: DeletionResult) -> Outcome:
    return single_response(
        EntityDeleteResponse(
            entity_id=deleted.entity_id,
            model=deleted.model,
            transaction_id=deleted.transaction_id,
        )
    )


async def fire(runtime: Runtime, caller: Caller, request: EntityTransition) -> Outcome:
    """Fire a transition, or look for automated ones when none is named."""
    caller = answer_with(caller, _transition_response)
    saved = await entities.fire_transition(
        runtime.core, caller, read_entity_id(request.entity_id), transition=request.transition or None
    )
    return _transition_response(saved)


def _transition_response(saved: Saved) -> Outcome:
    return single_response(EntityTransitionResponse(), saved.warnings)


WRITE_FAILED: Final = EntityTransactionResponse()

ENTITY_MANAGE: Final = RpcMethod(
    kind="entity",
    operations={
        "EntityCreateRequest": build_operation(Create, create, failing=WRITE_FAILED, recording="only commit"),
        "EntityUpdateRequest": build_operation(Update, update, failing=WRITE_FAILED, recording="only commit"),
        "EntityPatchRequest": build_operation(EntityPatch, patch, failing=WRITE_FAILED, recording="only commit"),
        "EntityDeleteRequest": build_operation(
            Delete,
            delete,
            failing=lambda request: EntityDeleteResponse(entity_id=request.entity_id or ""),
            recording="only commit",
        ),
        "EntityTransitionRequest": build_operation(
            EntityTransition, fire, failing=EntityTransitionResponse(), recording="only commit"
        ),
    },
    unjoined=WRITE_FAILED,
    first_value_counts=True,
)


EVERYTHING: Final[SearchCondition] = read_search_condition({"type": "group", "operator": "AND", "conditions": []})


class CreateAll(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityCreateCollectionRequest``; the format is not looked at, documents are JSON."""

    data_format: DataFormat
    payloads: tuple[NewEntity, ...] | None
    transaction_window: Int64 | None = None
    transaction_timeout_ms: Int64 | None = None


class UpdateAll(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityUpdateCollectionRequest``; the format is not looked at, documents are JSON."""

    data_format: DataFormat
    payloads: tuple[NewVersion, ...] | None
    transaction_window: Int64 | None = None
    transaction_timeout_ms: Int64 | None = None


class DeleteAll(ModelRequest, frozen=True, kw_only=True, rename="camel"):
    """``EntityDeleteAllRequest``; always of the present, and in one transaction."""

    page_size: Int64 | None = None
    transaction_size: Int64 | None = None
    point_in_time: Instant | None = None
    verbose: bool | None = None


async def create_all(runtime: Runtime, caller: Caller, request: CreateAll) -> Outcome:
    """Create entities of any models in one transaction."""
    if not request.payloads:
        raise InvalidCall("payloads array is empty")
    collections.require_limit(request.payloads)
    items = [_to_item(new) for new in request.payloads]
    caller = answer_with(caller, _respond_created)
    return _respond_created(await collections.create_all(runtime.core, caller, items, window=len(items)))


def _respond_created(results: collections.Results) -> Outcome:
    [created] = results
    assert isinstance(created, Saved)  # noqa: S101 - only chunks after the first are reported instead of raised
    return write_response(created)


async def update_all(runtime: Runtime, caller: Caller, request: UpdateAll) -> Outcome:
    """Update entities one after the other, each in a transaction of its own, up to the first that fails."""
    if not request.payloads:
        raise InvalidCall("payloads array is empty")
    collections.require_limit(request.payloads)
    caller = answer_with(caller, _respond_updated)
    results = collections.list_durable_chunks(caller)
    for number, new in enumerate(request.payloads):
        if number < len(results):  # an earlier attempt at this request has committed it
            continue
        collections.open_chunk(caller, results, is_last=number == len(request.payloads) - 1, reports_failures=False)
        try:
            results.append(await _update(runtime, caller, new))
        except Failure as failure:
            raise failure.amend(
                message=f"item {number}: {failure.message}",
                warnings=(*_collect_warnings(results), *failure.warnings),
            ) from failure.__cause__
    return _respond_updated(results)


def _respond_updated(results: list[Saved]) -> Outcome:
    return write_response(_summarize(results))


async def delete_all(runtime: Runtime, caller: Caller, request: DeleteAll) -> Outcome:
    """Delete all entities of a model; the response lists the ids if ``verbose`` (docs/reference/grpc.md#leniencies)."""
    caller = answer_with(caller, _respond_deleted)
    condition = EVERYTHING if request.verbose else None
    return _respond_deleted(await deletions.delete_all(runtime.core, caller, request.key, condition=condition))


def _respond_deleted(deletion: deletions.ModelDeletion) -> Outcome:
    return single_response(
        EntityDeleteAllResponse(model_id=deletion.model, num_deleted=deletion.removed, entity_ids=deletion.matched)
    )


def _to_item(new: NewEntity) -> NewItem:
    body = bytes(new.data)
    return NewItem(key=(new.model or NO_MODEL).key, document=lambda: read_document(body, "JSON"), size=len(body))


async def _update(runtime: Runtime, caller: Caller, new: NewVersion) -> Saved:
    return await entities.update(
        runtime.core,
        caller,
        read_entity_id(new.entity_id),
        media="JSON",
        body=bytes(new.data),
        transition=new.transition or None,
    )


def _summarize(results: list[Saved]) -> Saved:
    """One result for all of them, with the transaction of the last one."""
    return Saved(
        transaction_id=results[-1].transaction_id,
        entity_ids=tuple(entity_id for saved in results for entity_id in saved.entity_ids),
        warnings=_collect_warnings(results),
    )


def _collect_warnings(results: list[Saved]) -> tuple[str, ...]:
    return tuple(warning for saved in results for warning in saved.warnings)


ENTITY_MANAGE_COLLECTION: Final = RpcMethod(
    kind="collection",
    operations={
        "EntityCreateCollectionRequest": build_operation(
            CreateAll, create_all, failing=WRITE_FAILED, recording="commit"
        ),
        "EntityUpdateCollectionRequest": build_operation(
            UpdateAll, update_all, failing=WRITE_FAILED, recording="commit"
        ),
        "EntityDeleteAllRequest": build_operation(
            DeleteAll, delete_all, failing=EntityDeleteAllResponse(), recording="either"
        ),
    },
    unjoined=WRITE_FAILED,
    first_value_counts=True,
)
