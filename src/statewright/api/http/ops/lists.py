"""Pages of lists: how they are asked for and what they look like (docs/reference/operations.md#lists)."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.failures import InvalidParameter
from statewright.services.ops.lists import MAX_COUNT, Page, PageRequest

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 1000

PAGING: Final = (
    Query("limit", "integer", f"1 to {MAX_LIMIT}, {DEFAULT_LIMIT} when absent", "int32"),
    Query("cursor", "string", "nextCursor of the page before, with the same filters"),
    Query("count", "boolean", f"tell the total, too; exact to {MAX_COUNT}"),
)

Item = TypeVar("Item")
Key = TypeVar("Key")

_encode = msgspec.json.Encoder().encode


def read_page_request(
    request: Request, filters: Sequence[Query], key: type[Key], *, body: bytes = b""
) -> PageRequest[Key]:
    """The page that a request asks for; ``key`` is the type of the keys of the list, a tuple of scalars. ``body`` is
    what else says which rows are wanted.

    Raises ``InvalidParameter``, also for a cursor of another tenant, of other filters, or of ours that is damaged.
    """
    size = request.query_int32("limit", DEFAULT_LIMIT)
    if not 1 <= size <= MAX_LIMIT:
        raise InvalidParameter("limit")
    cursor = request.query("cursor")
    after = None if cursor is None else _read_cursor(cursor, _digest(request, filters, body), key)
    return PageRequest(size=size, after=after, counts=request.query_flag("count"))


def build_list_response(
    request: Request, filters: Sequence[Query], page: Page[Item, Key], describe: Callable[[Item], object]
) -> Response:
    """A page as clients get it."""
    body: dict[str, object] = {"items": [describe(item) for item in page.items]}
    if page.last_key is not None:
        body["nextCursor"] = build_cursor(request, filters, page.last_key)
    if page.total is not None:
        body["total"] = min(page.total, MAX_COUNT)
        if page.total > MAX_COUNT:
            body["totalIsLowerBound"] = True
    return Response(encode_json(body))


def build_cursor(request: Request, filters: Sequence[Query], last_key: object, *, body: bytes = b"") -> str:
    """What the next page is asked for with: behind the row with this key, of the same list."""
    return urlsafe_b64encode(_encode([_digest(request, filters, body), last_key])).decode().rstrip("=")


def _read_cursor(cursor: str, digest: str, key: type[Key]) -> Key:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        given, after = msgspec.json.decode(urlsafe_b64decode(padded), type=tuple[str, msgspec.Raw])
        if given != digest:
            raise InvalidParameter("cursor")
        return msgspec.json.decode(after, type=key)
    except ValueError as damaged:
        raise InvalidParameter("cursor") from damaged


def _digest(request: Request, filters: Sequence[Query], body: bytes) -> str:
    """Of whose list it is and which of its rows are wanted: a cursor goes with these."""
    given = [[query.name, *sorted(request.query_all(query.name))] for query in filters]
    content = _encode([request.principal.tenant, request.path_params, given])
    return hashlib.sha256(content + body).hexdigest()[:16]
