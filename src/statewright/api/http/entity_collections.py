"""Many entities at once over REST (docs/reference/entities.md#create-an-array, docs/reference/entities.md#chunks,
docs/reference/entities.md#update-a-collection).

Partial updates over REST (docs/reference/entities.md#partial-update).

What is wrong with the request itself is told before the entity is looked up: 415 and 428 do not say whether it exists.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from statewright.api.http.request import Request, read_by_size
from statewright.api.http.response import Response, build_warning_headers, encode_json, encode_results, respond_saved
from statewright.api.http.router import bind_window, bind_write_parameters, check_window
from statewright.entity import ModelKey
from statewright.failures import BadRequest, PreconditionRequired, UnsupportedMediaType
from statewright.jsonval.patches import apply_json_patch, apply_merge_patch
from statewright.services import collections, deletions, entities
from statewright.services.entities import Dialect, read_patch
from statewright.services.writing import Saved


async def create_collection(request: Request) -> Response:
    """Create entities of any models; ``{format}`` is not looked at."""
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


async def update_collection(request: Request) -> Response:
    """Replace documents and fire transitions of many entities."""
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
    return Response(encode_results(results), headers=build_warning_headers(dict.fromkeys(warnings)))


# Deleting the entities of a model over REST (docs/reference/entities.md#delete-by-model).

MAX_CONDITION_BYTES: Final = 64 * 1024 * 1024
"""The dialect knows no limit for this body; this one only protects the process."""


async def delete_entities(request: Request) -> Response:
    """Delete all entities of a model, or those that satisfy the condition in the body."""
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
    result = {
        "numberOfEntitites": deletion.found,
        "numberOfEntititesRemoved": deletion.removed,
        "idToError": {},
    }
    answer: dict[str, object] = {"entityModelClassId": deletion.model, "deleteResult": result}
    return Response(encode_json(answer | {"ids": deletion.matched} if is_verbose else answer))


MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

_DIALECTS: Final[Mapping[str, Dialect]] = {
    MERGE_PATCH: apply_merge_patch,
    JSON_PATCH: apply_json_patch,
}


async def patch_entity(request: Request) -> Response:
    """Change a part of an entity's document; with a transition in the path, fire it."""
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


def _choose_dialect(request: Request) -> Dialect:
    media = request.path_params["format"]
    if media != "JSON":
        raise UnsupportedMediaType(f"PATCH is for the format JSON only, not {media}")
    content_type = request.header(b"content-type") or ""
    dialect = _DIALECTS.get(content_type.partition(";")[0].strip().lower())
    if dialect is None:
        raise UnsupportedMediaType(f"PATCH takes {MERGE_PATCH} or {JSON_PATCH}")
    return dialect
