"""Many entities at once over gRPC (spec/grpc.md §8): every request has exactly one answer."""

from typing import Final

from statewright.api.grpc.answers import EntityDeleteAllResponse, Outcome, one, written
from statewright.api.grpc.entities import WRITE_FAILED, NewEntity, NewVersion
from statewright.api.grpc.payloads import NO_MODEL, DataFormat, Instant, Int64, ModelSpec, Payload, existing_id
from statewright.api.grpc.rpc import CallRefused, Rpc, always, operation
from statewright.conditions import Group
from statewright.failures import Failure
from statewright.services import collections, deletions, entities
from statewright.services.collections import NewItem
from statewright.services.documents import read_document
from statewright.services.runtime import Caller, Runtime
from statewright.services.writing import Saved

EVERYTHING: Final = Group(operator="AND", conditions=())


class CreateAll(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityCreateCollectionRequest``; the format is not looked at, documents are JSON."""

    data_format: DataFormat
    payloads: tuple[NewEntity, ...] | None
    transaction_window: Int64 | None = None
    transaction_timeout_ms: Int64 | None = None


class UpdateAll(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityUpdateCollectionRequest``, likewise."""

    data_format: DataFormat
    payloads: tuple[NewVersion, ...] | None
    transaction_window: Int64 | None = None
    transaction_timeout_ms: Int64 | None = None


class DeleteAll(Payload, frozen=True, kw_only=True, rename="camel"):
    """``EntityDeleteAllRequest``; always of the present, and in one transaction."""

    model: ModelSpec | None
    page_size: Int64 | None = None
    transaction_size: Int64 | None = None
    point_in_time: Instant | None = None
    verbose: bool | None = None


async def create_all(runtime: Runtime, caller: Caller, request: CreateAll) -> Outcome:
    """Create entities of any models in one transaction."""
    if not request.payloads:
        raise CallRefused("payloads array is empty")
    items = [_new_item(new) for new in request.payloads]
    [created] = await collections.create_all(runtime, caller, items, window=len(items))
    assert isinstance(created, Saved)  # noqa: S101 - only chunks after the first are reported instead of raised
    return written(created)


async def update_all(runtime: Runtime, caller: Caller, request: UpdateAll) -> Outcome:
    """Update entities one after the other, each in a transaction of its own, up to the first that fails."""
    if not request.payloads:
        raise CallRefused("payloads array is empty")
    results: list[Saved] = []
    for number, new in enumerate(request.payloads):
        try:
            results.append(await _update(runtime, caller, new))
        except Failure as failure:
            failure.message = f"item {number}: {failure.message}"
            failure.warnings = (*_warnings(results), *failure.warnings)
            raise
    return written(_summary(results))


async def delete_all(runtime: Runtime, caller: Caller, request: DeleteAll) -> Outcome:
    """Delete all entities of a model; their ids are told to who wants them (spec/grpc.md §28.8)."""
    key = (request.model or NO_MODEL).key
    deletion = await deletions.delete_all(runtime, caller, key, condition=EVERYTHING if request.verbose else None)
    return one(
        EntityDeleteAllResponse(model_id=deletion.model, num_deleted=deletion.removed, entity_ids=deletion.matched)
    )


def _new_item(new: NewEntity) -> NewItem:
    body = bytes(new.data)
    return NewItem(key=(new.model or NO_MODEL).key, document=lambda: read_document(body, "JSON"))


async def _update(runtime: Runtime, caller: Caller, new: NewVersion) -> Saved:
    return await entities.update(
        runtime,
        caller,
        existing_id(new.entity_id),
        media="JSON",
        body=bytes(new.data),
        transition=new.transition or None,
    )


def _summary(results: list[Saved]) -> Saved:
    """What all of them did, under the transaction of the last one."""
    return Saved(
        transaction_id=results[-1].transaction_id,
        entity_ids=tuple(entity_id for saved in results for entity_id in saved.entity_ids),
        warnings=_warnings(results),
    )


def _warnings(results: list[Saved]) -> tuple[str, ...]:
    return tuple(warning for saved in results for warning in saved.warnings)


ENTITY_MANAGE_COLLECTION: Final = Rpc(
    kind="collection",
    operations={
        "EntityCreateCollectionRequest": operation(CreateAll, create_all, failing=always(WRITE_FAILED)),
        "EntityUpdateCollectionRequest": operation(UpdateAll, update_all, failing=always(WRITE_FAILED)),
        "EntityDeleteAllRequest": operation(DeleteAll, delete_all, failing=always(EntityDeleteAllResponse())),
    },
    unjoined=WRITE_FAILED,
    first_value_counts=True,
)
