"""Partial updates over REST (docs/reference/entities.md#partial-update).

What is wrong with the request itself is told before the entity is looked up: 415 and 428 do not say whether it exists.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from statewright.api.http.request import Request
from statewright.api.http.response import Response, respond_saved
from statewright.api.http.router import bind_write_parameters
from statewright.background import run_by_size
from statewright.failures import BadRequest, PreconditionRequired, UnsupportedMediaType
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.patches import PatchFailed, apply_json_patch, apply_merge_patch
from statewright.jsonval.values import JsonValue
from statewright.services import entities

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

_DIALECTS: Final[Mapping[str, Callable[[JsonValue, JsonValue], JsonValue]]] = {
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
    body = await request.body()
    change = await run_by_size(len(body), partial(_decode_patch, body))
    saved = await entities.patch(
        request.runtime,
        request.answer_with(respond_saved),
        entity_id,
        change=partial(_apply_patch, dialect, change),
        size=len(body),
        transition=request.path_params.get("transition"),
        if_match=None if if_match in ("", "*") else if_match,
    )
    request.written = saved
    return await respond_saved(saved)


def _choose_dialect(request: Request) -> Callable[[JsonValue, JsonValue], JsonValue]:
    media = request.path_params["format"]
    if media != "JSON":
        raise UnsupportedMediaType(f"PATCH is for the format JSON only, not {media}")
    content_type = request.header(b"content-type") or ""
    dialect = _DIALECTS.get(content_type.partition(";")[0].strip().lower())
    if dialect is None:
        raise UnsupportedMediaType(f"PATCH takes {MERGE_PATCH} or {JSON_PATCH}")
    return dialect


def _decode_patch(body: bytes) -> JsonValue:
    try:
        return decode(body)
    except MalformedJson as malformed:
        raise BadRequest(f"invalid patch: {malformed}") from malformed


def _apply_patch(
    dialect: Callable[[JsonValue, JsonValue], JsonValue], patch: JsonValue, document: JsonValue
) -> JsonValue:
    try:
        return dialect(document, patch)
    except PatchFailed as failed:
        raise BadRequest(f"the patch cannot be applied: {failed}") from failed
