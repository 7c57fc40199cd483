"""Partial updates over REST (spec/entities.md §8).

What is wrong with the request itself is told before the entity is looked up: 415 and 428 do not say whether it exists.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from statewright.api.http.bodies import saved_body
from statewright.api.http.endpoints.write_parameters import bind_write_parameters
from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import BadRequest, PreconditionRequired, UnsupportedMediaType
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.patches import PatchFailed, json_patched, merge_patched
from statewright.jsonval.values import JsonValue
from statewright.services import entities

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

_DIALECTS: Final[Mapping[str, Callable[[JsonValue, JsonValue], JsonValue]]] = {
    MERGE_PATCH: merge_patched,
    JSON_PATCH: json_patched,
}


async def patch(exchange: Exchange) -> Answer:
    """Change a part of an entity's document; with a transition in the path, fire it."""
    entity_id = exchange.entity_id()
    bind_write_parameters(exchange)
    dialect = _dialect(exchange)
    if_match = exchange.header(b"if-match")
    if if_match is None:
        raise PreconditionRequired(
            "If-Match is required: send the transactionId of your last read, or * to patch whatever version there is"
        )
    change = _patch(await exchange.body())
    saved = await entities.patch(
        exchange.runtime,
        exchange.caller,
        entity_id,
        change=partial(_applied, dialect, change),
        transition=exchange.segments.get("transition"),
        if_match=None if if_match in ("", "*") else if_match,
    )
    return Answer(saved_body(saved))


def _dialect(exchange: Exchange) -> Callable[[JsonValue, JsonValue], JsonValue]:
    media = exchange.segments["format"]
    if media != "JSON":
        raise UnsupportedMediaType(f"PATCH is for the format JSON only, not {media}")
    content_type = exchange.header(b"content-type") or ""
    dialect = _DIALECTS.get(content_type.partition(";")[0].strip().lower())
    if dialect is None:
        raise UnsupportedMediaType(f"PATCH takes {MERGE_PATCH} or {JSON_PATCH}")
    return dialect


def _patch(body: bytes) -> JsonValue:
    try:
        return decode(body)
    except MalformedJson as malformed:
        raise BadRequest(f"invalid patch: {malformed}") from malformed


def _applied(dialect: Callable[[JsonValue, JsonValue], JsonValue], patch: JsonValue, document: JsonValue) -> JsonValue:
    try:
        return dialect(document, patch)
    except PatchFailed as failed:
        raise BadRequest(f"the patch cannot be applied: {failed}") from failed
