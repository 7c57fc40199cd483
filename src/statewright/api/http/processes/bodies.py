"""Request and response bodies of process languages.

Requests are read as the public engine reads them: member names in any case, ``null`` like absent, unknown members
ignored, a wrong type refused (docs/reference/steps.md#rest). Responses keep the order of members.
"""

from decimal import Decimal
from typing import Final

import msgspec

from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.background import free_in_parts, run_by_size, run_in_thread
from statewright.failures import BodyTooLarge, ProcessBadRequest
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.members import MemberReader, WantedType
from statewright.jsonval.pieces import encode_pieces
from statewright.jsonval.quoting import json_type
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.turns import is_large

_INT32_MAX: Final = 2**31 - 1
_encode = msgspec.json.Encoder(decimal_format="number").encode

NO_CONTENT: Final = Response(b"", 204, "")


async def respond_empty(_result: object) -> Response:
    """The response that says no more than that it was done."""
    return NO_CONTENT


def reply(value: JsonValue, status: int = 200) -> Response:
    """An answer with a JSON body."""
    return Response(_encode(value) + b"\n", status)


async def reply_by_size(value: JsonValue, status: int = 200) -> Response:
    """An answer with a JSON body that may be large; a thread encodes it then."""
    if not is_large(value):
        return reply(value, status)
    pieces = await run_in_thread(lambda: b"".join(encode_pieces(value, _encode, iter)))
    return Response(pieces + b"\n", status)


async def encode_items(items: JsonValue) -> bytes:
    """The items of a list, between commas; a thread encodes them when they are large."""
    if not is_large(items):
        return _encode(items)[1:-1]
    return (await run_in_thread(lambda: b"".join(encode_pieces(items, _encode, iter))))[1:-1]


async def read(request: Request) -> "RequestMembers":
    """The body of a request that needs one. Raises ``ProcessBadRequest``."""
    return await read_members(await request.body(excess=BodyTooLarge))


async def read_optional(request: Request) -> "RequestMembers":
    """The body of a request that may go without: no bytes are an empty object. Raises ``ProcessBadRequest``."""
    raw = await request.body(excess=BodyTooLarge)
    return await read_members(raw) if raw else RequestMembers(None)


async def read_lenient(request: Request) -> "RequestMembers":
    """The same, but what cannot be read counts as an empty object, too (docs/reference/steps.md#cancelling)."""
    try:
        return await read_optional(request)
    except ProcessBadRequest:
        return RequestMembers(None)


class RequestMembers(MemberReader):
    """The members of a request's object."""

    def __init__(self, value: JsonValue) -> None:
        """Raises ``ProcessBadRequest`` for anything but an object or ``null``."""
        if value is not None and not isinstance(value, dict):
            raise _build_type_error(value, "the body", "object")
        self.document: JsonObject = value or {}
        self._folded = {name.lower(): member for name, member in self.document.items()}

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of strings, empty when absent."""
        return tuple(self._require_text(item, name) for item in self.array(name))

    def number(self, name: str) -> int:
        """An integer, 0 when absent; beyond 32 bits the nearest one within."""
        return min(max(self.integer(name) or 0, -_INT32_MAX), _INT32_MAX)

    def get(self, name: str) -> JsonValue:
        exact = self.document.get(name)
        return self._folded.get(name.lower()) if exact is None else exact

    def free_in_parts(self, size: int) -> None:
        """Have the members of a body of so many bytes freed by a thread when they are not used any more."""
        free_in_parts(self.document, size)
        free_in_parts(self._folded, size)

    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> ProcessBadRequest:
        return _build_type_error(value, name, wanted)

    def _require_text(self, item: JsonValue, name: str) -> str:
        if not isinstance(item, str):
            raise _build_type_error(item, f"{name}[]", "string")
        return item


async def read_members(raw: bytes) -> RequestMembers:
    """The members of a body. Raises ``ProcessBadRequest``."""
    members = await run_by_size(len(raw), lambda: RequestMembers(_decode_body(raw)))
    members.free_in_parts(len(raw))
    return members


def _decode_body(raw: bytes) -> JsonValue:
    if not raw.strip():
        raise ProcessBadRequest("invalid request body: EOF")
    try:
        return decode(raw)
    except MalformedJson as malformed:
        raise ProcessBadRequest(f"invalid request body: {malformed}") from None


NOUNS: Final = {
    "object": "an object",
    "array": "an array",
    "string": "a text",
    "number": "a number",
    "int": "an integer",
    "bool": "true or false",
    "null": "null",
}
"""What the types of JSON, and those that members want, are called in a sentence."""


def _build_type_error(value: JsonValue, name: str, wanted: WantedType) -> ProcessBadRequest:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    found = f"the number {value}" if is_number else NOUNS[json_type(value)]
    return ProcessBadRequest(f"invalid request body: {name} must be {NOUNS[wanted]}, not {found}")
