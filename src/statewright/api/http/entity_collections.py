"""Many entities at once over REST (docs/reference/entities.md#create-an-array, docs/reference/entities.md#chunks,
docs/reference/entities.md#update-a-collection).

Partial updates over REST (docs/reference/entities.md#partial-update).

What is wrong with the request itself is told before the entity is looked up: 415 and 428 do not say whether it exists.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from statewright.api.http.declaration import Subject
from statewright.api.http.request import Request, hold_entity, read_by_size
from statewright.api.http.response import Response, build_warning_headers, encode_json, respond_saved
from statewright.api.http.router import TIMEOUT, bind_window, bind_write_parameters, check_window
from statewright.entity import ModelKey
from statewright.failures import BadRequest, PreconditionRequired, UnsupportedMediaType
from statewright.jsonval.patches import apply_json_patch, apply_merge_patch
from statewright.operations.entity_answers import (
    ChunkError,
    DeletedEntities,
    DeletionCounts,
    FailedItem,
    ItemError,
    WrittenChunk,
)
from statewright.operations.records import POINT_IN_TIME, QueryParameter
from statewright.services import collections, deletions, entities
from statewright.services.collections import FailedChunk
from statewright.services.entities import Dialect, read_patch
from statewright.services.writing import Saved

WAIT: Final = QueryParameter(
    "waitForConsistencyAfter", "boolean", "accepted for compatibility; writes are always readable at once"
)
WINDOW: Final = QueryParameter("transactionWindow", "integer", "items per transaction, 1 to 1000", "int32")
WRITE_PROBLEMS: Final = (
    "BAD_REQUEST",
    "INCOMPATIBLE_TYPE",
    "POLYMORPHIC_SLOT",
    "WORKFLOW_FAILED",
    "CONFLICT",
    "UNIQUE_VIOLATION",
    "INVALID_UNIQUE_KEY",
    "INVALID_UNIQUE_KEY_DEFINITION",
    "NO_COMPUTE_MEMBER_FOR_TAG",
    "COMPUTE_MEMBER_DISCONNECTED",
    "DISPATCH_FORWARD_FAILED",
    "DISPATCH_TIMEOUT",
    "STORAGE_UNAVAILABLE",
)

PATCH_PROBLEMS: Final = (
    "ENTITY_NOT_FOUND",
    "ENTITY_MODIFIED",
    "UNSUPPORTED_MEDIA_TYPE",
    "PRECONDITION_REQUIRED",
    *(code for code in WRITE_PROBLEMS if code not in {"POLYMORPHIC_SLOT", "INVALID_UNIQUE_KEY_DEFINITION"}),
)

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

ENTITIES: Final = Subject(tag="Entities")
WRITES: Final = Subject(tag="Entities", recording="only commit")


@ENTITIES.declare(
    "POST /entity/{format}",
    "createCollection",
    query=(WINDOW, WAIT, TIMEOUT),
    body="NewItems",
    reply="TransactionResults",
    problems=("MODEL_NOT_FOUND", "MODEL_NOT_LOCKED", *WRITE_PROBLEMS),
)
async def create_collection(request: Request) -> Response:
    """Create entities of any models, a transaction for every transactionWindow of them."""
    bind_write_parameters(request)
    window = check_window(bind_window(request))
    items = await request.read(collections.read_new_items)
    return await _respond(
        await collections.create_all(request.runtime.core, request.answer_with(_respond), items, window=window)
    )


async def create_array(request: Request, key: ModelKey, body: bytes, window: int) -> Response:
    """Create the items of an array body, all of one model."""
    items = await read_by_size(body, partial(collections.read_array, key=key))
    return await _respond(
        await collections.create_all(request.runtime.core, request.answer_with(_respond), items, window=window)
    )


@ENTITIES.declare(
    "PUT /entity/{format}",
    "updateCollection",
    query=(WINDOW, WAIT, TIMEOUT),
    body="ChangedItems",
    reply="TransactionResults",
    problems=("ENTITY_NOT_FOUND", "TRANSITION_NOT_FOUND", *WRITE_PROBLEMS),
)
async def update_collection(request: Request) -> Response:
    """Update entities of any models, a transaction for every transactionWindow of them."""
    media = request.path_params["format"]
    bind_write_parameters(request)
    window = bind_window(request)
    if media != "JSON":
        raise BadRequest(f"unsupported format: {media}")
    check_window(window)
    items = await request.read(collections.read_changed_items)
    return await _respond(
        await collections.update_all(request.runtime.core, request.answer_with(_respond), items, window=window)
    )


async def _respond(results: collections.Results) -> Response:
    warnings = (warning for each in results if isinstance(each, Saved) for warning in each.warnings)
    return Response(encode_json([*map(_show_chunk, results)]), headers=build_warning_headers(dict.fromkeys(warnings)))


def _show_chunk(chunk: Saved | FailedChunk) -> WrittenChunk:
    if isinstance(chunk, FailedChunk):
        error = ChunkError(code=chunk.code, message=chunk.message, chunk_index=chunk.chunk)
        return WrittenChunk(entity_ids=(), error=error)
    failed = [
        FailedItem(
            entity_id=item.entity_id,
            error=ItemError(
                code="ENTITY_MODIFIED", message="entity changed since the given transaction", item_index=item.index
            ),
        )
        for item in chunk.failed
    ]
    return WrittenChunk(transaction_id=chunk.transaction_id, entity_ids=chunk.entity_ids, failed=failed or None)


# Deleting the entities of a model over REST (docs/reference/entities.md#delete-by-model).

MAX_CONDITION_BYTES: Final = 64 * 1024 * 1024
"""The dialect knows no limit for this body; this one only protects the process."""


@ENTITIES.declare(
    "DELETE /entity/{entityName}/{modelVersion}",
    "deleteEntities",
    recording="either",
    query=(
        QueryParameter("verbose", "boolean", "list the ids that the condition found"),
        QueryParameter("transactionSize", "integer", "accepted for compatibility", "int32"),
        POINT_IN_TIME,
    ),
    body="Condition",
    body_required=False,
    reply="ModelDeletion",
    problems=(
        "HISTORY_PRUNED",
        "BAD_REQUEST",
        "INVALID_CONDITION",
        "INVALID_FIELD_PATH",
        "CONDITION_TYPE_MISMATCH",
        "SCAN_BUDGET_EXHAUSTED",
        "MODEL_NOT_FOUND",
        "CONFLICT",
    ),
)
async def delete_entities(request: Request) -> Response:
    """Delete the entities of a model: all without a body, else those that satisfy the condition."""
    key = request.model_key()
    request.query_int32("transactionSize", 1000)
    verbose, instant = request.query_flag("verbose"), request.query_instant("pointInTime")
    condition = await request.read(deletions.read_optional_condition, MAX_CONDITION_BYTES)

    async def respond(deletion: deletions.ModelDeletion) -> Response:
        return _respond_deleted(deletion, is_verbose=verbose)

    caller = request.answer_with(respond)
    return await respond(
        await deletions.delete_all(request.runtime.core, caller, key, condition=condition, instant=instant)
    )


def _respond_deleted(deletion: deletions.ModelDeletion, *, is_verbose: bool) -> Response:
    counts = DeletionCounts(
        number_of_entitites=deletion.found, number_of_entitites_removed=deletion.removed, id_to_error={}
    )
    ids = deletion.matched if is_verbose else None
    return Response(encode_json(DeletedEntities(entity_model_class_id=deletion.model, delete_result=counts, ids=ids)))


_DIALECTS: Final[Mapping[str, Dialect]] = {
    MERGE_PATCH: apply_merge_patch,
    JSON_PATCH: apply_json_patch,
}


@WRITES.declare(
    "PATCH /entity/{format}/{entityId}",
    "patchSingleWithLoopback",
    hold=hold_entity,
    query=(WAIT, TIMEOUT),
    if_match=True,
    body="Patch",
    body_types=(MERGE_PATCH, JSON_PATCH),
    reply="TransactionResult",
    problems=PATCH_PROBLEMS,
)
async def patch_entity(request: Request) -> Response:
    """Change a part of an entity's document and let automated transitions run."""
    entity_id = request.entity_id()
    bind_write_parameters(request)
    dialect = _choose_dialect(request)
    if_match = request.header(b"if-match")
    if if_match is None:
        raise PreconditionRequired(
            "If-Match is required: send the transactionId of your last read, or * to patch whatever version there is"
        )
    saved = await entities.patch(
        request.runtime.core,
        request.answer_with(respond_saved),
        entity_id,
        change=await request.read(partial(read_patch, dialect)),
        transition=request.path_params.get("transition"),
        if_match=None if if_match in ("", "*") else if_match,
    )
    request.written = saved
    return await respond_saved(saved)


patch_and_fire = replace(
    patch_entity,
    path="/entity/{format}/{entityId}/{transition}",
    id="patchSingle",
    summary="Change a part of an entity's document and fire a transition",
    problems=("TRANSITION_NOT_FOUND", *PATCH_PROBLEMS),
)


def _choose_dialect(request: Request) -> Dialect:
    media = request.path_params["format"]
    if media != "JSON":
        raise UnsupportedMediaType(f"PATCH is for the format JSON only, not {media}")
    content_type = request.header(b"content-type") or ""
    dialect = _DIALECTS.get(content_type.partition(";")[0].strip().lower())
    if dialect is None:
        raise UnsupportedMediaType(f"PATCH takes {MERGE_PATCH} or {JSON_PATCH}")
    return dialect
