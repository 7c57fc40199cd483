"""Pages of lists: how they are asked for and what they look like (docs/reference/operations.md#lists)."""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from statewright.api.http.ops.route import OpsRoute, serve
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.failures import InvalidParameter
from statewright.operations.records import DEFAULT_LIMIT, MAX_COUNT, MAX_LIMIT, Listed
from statewright.operations.table import ApiOperation
from statewright.services.core import Caller, Core
from statewright.services.ops.paging import Page, PageRequest

Item = TypeVar("Item")
Key = TypeVar("Key")
Word = TypeVar("Word", bound=str)

_encode = msgspec.json.Encoder().encode


def read_page_request(
    request: Request, operation: ApiOperation[object], key: type[Key], *, body: bytes = b""
) -> PageRequest[Key]:
    """The page that a request asks for; ``key`` is the type of the keys of the list, a tuple of scalars. ``body`` is
    what else says which rows are wanted.

    Raises ``InvalidParameter``, also for a cursor of another tenant, of other filters, or of ours that is damaged.
    """
    size = request.query_int32("limit", DEFAULT_LIMIT)
    if not 1 <= size <= MAX_LIMIT:
        raise InvalidParameter("limit")
    cursor = request.query("cursor")
    after = None if cursor is None else _read_cursor(cursor, _digest(request, operation, body), key)
    return PageRequest(size=size, after=after, counts=request.query_flag("count"))


def build_list_response(
    request: Request,
    operation: ApiOperation[object],
    page: Page[Item, Key],
    describe: Callable[[Item], object] | None = None,
) -> Response:
    """A page as clients get it."""
    total = page.total
    found = Listed(
        items=[*map(describe, page.items)] if describe else page.items,
        next_cursor=None if page.last_key is None else build_cursor(request, operation, page.last_key),
        total=None if total is None else min(total, MAX_COUNT),
        total_is_lower_bound=total is not None and total > MAX_COUNT,
    )
    return Response(encode_json(found))


def serve_list(
    operation: ApiOperation[object],
    key: type[Key],
    list_page: Callable[[Core, Caller, PageRequest[Key]], Awaitable[Page[Item, Key]]],
) -> OpsRoute:
    """The route of a list of all there is."""

    async def list_items(request: Request) -> Response:
        page = read_page_request(request, operation, key)
        return build_list_response(request, operation, await list_page(request.runtime.core, request.caller, page))

    return serve(operation)(list_items)


def read_words(request: Request, name: str, known: Sequence[Word]) -> tuple[Word, ...] | None:
    """The words of a filter that may be repeated, in the order of the request; None without any. Raises
    ``InvalidParameter``, which says which there are, for one that is not known.
    """
    given, by_word = request.query_all(name), {str(word): word for word in known}
    if not by_word.keys() >= set(given):
        raise InvalidParameter(name, ", ".join(by_word))
    return tuple(by_word[word] for word in given) or None


def build_cursor(request: Request, operation: ApiOperation[object], last_key: object, *, body: bytes = b"") -> str:
    """What the next page is asked for with: behind the row with this key, of the same list."""
    return urlsafe_b64encode(_encode([_digest(request, operation, body), last_key])).decode().rstrip("=")


def _read_cursor(cursor: str, digest: str, key: type[Key]) -> Key:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        given, after = msgspec.json.decode(urlsafe_b64decode(padded), type=tuple[str, msgspec.Raw])
        if given != digest:
            raise InvalidParameter("cursor")
        if b"\\u0000" in bytes(after).replace(b"\\\\", b""):  # which PostgreSQL stores in no text
            raise InvalidParameter("cursor")
        return msgspec.json.decode(after, type=key)
    except (ValueError, RecursionError) as damaged:
        raise InvalidParameter("cursor") from damaged


def _digest(request: Request, operation: ApiOperation[object], body: bytes) -> str:
    """Of whose list it is and which of its rows are wanted: a cursor goes with these."""
    given = [[query.name, *sorted(request.query_all(query.name))] for query in operation.filters]
    content = _encode([operation.id, request.principal.tenant, request.path_params, given])
    return hashlib.sha256(content + body).hexdigest()[:16]
