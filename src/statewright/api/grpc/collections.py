"""Many entities at once over gRPC (docs/reference/grpc.md#entitymanagecollection): every request has exactly one
answer.
"""

from typing import Final

from statewright.api.grpc.entities import WRITE_FAILED, NewEntity, NewVersion
from statewright.api.grpc.handlers import InvalidCall, RpcMethod, always_respond, build_operation
from statewright.api.grpc.idempotency import answer_with
from statewright.api.grpc.payloads import NO_MODEL, DataFormat, Instant, Int64, ModelSpec, Payload, parse_entity_id
from statewright.api.grpc.responses import EntityDeleteAllResponse, Outcome, single_response, write_response
from statewright.conditions import SearchCondition, read_search_condition
from statewright.failures import Failure
from statewright.services import collections, deletions, entities
from statewright.services.collections import NewItem
from statewright.services.runtime import Caller, Runtime
from statewright.services.writing import Saved, read_document

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
        raise InvalidCall("payloads array is empty")
    collections.require_limit(request.payloads)
    items = [_to_item(new) for new in request.payloads]
    caller = answer_with(caller, _respond_created)
    return _respond_created(await collections.create_all(runtime, caller, items, window=len(items)))


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
    keyed = caller.keyed
    results: list[Saved] = [] if keyed is None else collections.list_durable_chunks(keyed)
    for number, new in enumerate(request.payloads):
        if number < len(results):  # an earlier attempt at this request has committed it
            continue
        if keyed is not None:
            collections.open_chunk(keyed, results, is_last=number == len(request.payloads) - 1, reports_failures=False)
        try:
            results.append(await _update(runtime, caller, new))
        except Failure as failure:
            failure.message = f"item {number}: {failure.message}"
            failure.warnings = (*_collect_warnings(results), *failure.warnings)
            raise
    return _respond_updated(results)


def _respond_updated(results: list[Saved]) -> Outcome:
    return write_response(_summarize(results))


async def delete_all(runtime: Runtime, caller: Caller, request: DeleteAll) -> Outcome:
    """Delete all entities of a model; the response lists the ids if ``verbose`` (docs/reference/grpc.md#leniencies)."""
    key = (request.model or NO_MODEL).key
    caller = answer_with(caller, _respond_deleted)
    condition = EVERYTHING if request.verbose else None
    return _respond_deleted(await deletions.delete_all(runtime, caller, key, condition=condition))


def _respond_deleted(deletion: deletions.ModelDeletion) -> Outcome:
    return single_response(
        EntityDeleteAllResponse(model_id=deletion.model, num_deleted=deletion.removed, entity_ids=deletion.matched)
    )


def _to_item(new: NewEntity) -> NewItem:
    body = bytes(new.data)
    return NewItem(key=(new.model or NO_MODEL).key, document=lambda: read_document(body, "JSON"), size=len(body))


async def _update(runtime: Runtime, caller: Caller, new: NewVersion) -> Saved:
    return await entities.update(
        runtime,
        caller,
        parse_entity_id(new.entity_id),
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
            CreateAll, create_all, failing=always_respond(WRITE_FAILED), recording="commit"
        ),
        "EntityUpdateCollectionRequest": build_operation(
            UpdateAll, update_all, failing=always_respond(WRITE_FAILED), recording="commit"
        ),
        "EntityDeleteAllRequest": build_operation(
            DeleteAll, delete_all, failing=always_respond(EntityDeleteAllResponse()), recording="either"
        ),
    },
    unjoined=WRITE_FAILED,
    first_value_counts=True,
)
