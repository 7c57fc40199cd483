"""Bodies of the operations API: JSON objects without unknown members (docs/reference/operations.md#requests)."""

import re
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from statewright.api.http.request import Request
from statewright.background import run_by_size
from statewright.failures import BadRequest
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject

MAX_BYTES: Final = 10 * 1024 * 1024

Body = TypeVar("Body", bound=Struct)

_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_PATH: Final = re.compile(r" - at `\$([^`]*)`")


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body as ``kind``, which forbids unknown members. Raises ``BadRequest`` with the pointer of what is wrong."""
    return decode_body(await request.body(MAX_BYTES), kind)


def decode_body(raw: bytes, kind: type[Body]) -> Body:
    """The same from what was read already."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as misfit:
        raise refuse_member(_find_pointer(str(misfit)), _PATH.sub("", str(misfit))) from misfit
    except (ValueError, RecursionError) as malformed:
        raise BadRequest("the body is not JSON") from malformed


def refuse_member(pointer: str, wrong: str) -> BadRequest:
    """The refusal of a member of a body."""
    return BadRequest(f"invalid body: {pointer or '/'}: {wrong}", {"parameter": pointer or "/"})


def _find_pointer(text: str) -> str:
    """``/model/version`` from what msgspec says."""
    path = _PATH.search(text)
    pointer = re.sub(r"\.|\[", "/", path[1].replace("]", "")) if path else ""
    named = _UNKNOWN.search(text) or _MISSING.search(text)
    return f"{pointer}/{named[1]}" if named else pointer


async def read_json_body(request: Request) -> JsonObject:
    """The body as an object whose numbers keep their digits; none is an empty one. Raises ``BadRequest``."""
    raw = await request.body(MAX_BYTES)
    try:
        value = await run_by_size(len(raw), lambda: decode(raw)) if raw else {}
    except MalformedJson as malformed:
        raise BadRequest(f"the body is not JSON: {malformed}") from malformed
    if not isinstance(value, dict):
        raise refuse_member("", "not an object")
    return value
