"""Requests as values, and the few things that all operations build them from.

Any request, for what has no operation of its own.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.outcomes import encode_json

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")

Instant: TypeAlias = str | datetime
"""An RFC 3339 text, or a datetime; one without an offset is UTC."""

KEY_HEADER: Final = "Idempotency-Key"

Query: TypeAlias = tuple[tuple[str, str], ...]


class Call(Struct, frozen=True, kw_only=True):
    """A request. ``path`` starts below the context path, or below the host when ``at_root``; ``name`` is the operation,
    ``target`` what it is about (model and version, or entity and transition).

    ``only_asks``: it changes nothing, so it may be repeated when it is not known what became of it. ``creates``: sent
    twice it makes two things of one. ``timeout_s`` is
    the longest wait for the answer, in seconds, where it is not the usual one.
    """

    name: str
    method: str
    path: str
    target: tuple[str, ...] = ()
    query: Query = ()
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    at_root: bool = False
    only_asks: bool = False
    creates: bool = False
    timeout_s: float | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice is the same as sending it once."""
        return self.only_asks or self.method == "GET" or self.has_key

    @property
    def has_key(self) -> bool:
        """Whether the service knows it again, and carries it out once (docs/reference/operations.md)."""
        return KEY_HEADER in self.headers


def build_call(
    name: str,
    method: str,
    path: str,
    *target: str | int,
    query: Query = (),
    headers: Mapping[str, str] = {},
    body: bytes | None = None,
    at_root: bool = False,
    only_asks: bool = False,
    creates: bool = False,
) -> Call:
    """A request; each ``{}`` of the path stands for a part of the target."""
    parts = tuple(map(str, target))
    return Call(
        name=name,
        target=parts,
        method=method,
        path=path.format(*map(quote_segment, parts)),
        query=query,
        headers=headers,
        body=body,
        at_root=at_root,
        only_asks=only_asks,
        creates=creates,
    )


class HttpResponse(Struct, frozen=True):
    """Status, body and headers of an HTTP response; names of headers in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


def read_warnings(response: HttpResponse) -> tuple[str, ...]:
    """The texts of the ``Warning`` headers (docs/reference/entities.md#warnings)."""
    texts = WARNING.findall(response.headers.get("warning", ""))
    return tuple(text.encode("ascii", "backslashreplace").decode("unicode_escape", "replace") for text in texts)


WARNING: Final = re.compile(r'299 - "([^"]*)"')


class Operation(Struct, Generic[ResultT], frozen=True):
    """A request, and how the body of a successful answer is read."""

    call: Call
    read: Callable[[bytes], ResultT]

    def interpret(self, response: HttpResponse) -> ResultT:
        """The result. Raises what ``read`` raises."""
        return self.read(response.body)


class Pause(Struct, frozen=True):
    """A wait between two requests, in seconds."""

    seconds: float


Step: TypeAlias = Operation[Any] | Pause  # Any: a script asks for results of different types
Script: TypeAlias = Generator[Step, Any, ResultT]
"""Several requests that follow from one another; what it returns is the result."""


class Page(Struct, Generic[ItemT], frozen=True):
    """A part of a long list; ``next`` gives the part after it, None at the end."""

    items: Sequence[ItemT]
    next: "Callable[[], Script[Page[ItemT]]] | None" = None


def build_key_header(key: str | None) -> dict[str, str]:
    """The header that lets a write be repeated."""
    return {KEY_HEADER: key} if key else {}


def ask(operation: Operation[ResultT]) -> Script[ResultT]:
    """The script of one request."""
    return cast("ResultT", (yield operation))  # the clients send back what the operation reads


FIRST_PAUSE_S: Final = 0.05
MAX_PAUSE_S: Final = 2.0
"""Seconds between two looks at what is not done."""


def wait_for(look: Operation[ResultT], is_done: Callable[[ResultT], bool]) -> Script[ResultT]:
    """Look at something again and again until it is done."""
    pause = FIRST_PAUSE_S
    while not is_done(found := (yield from ask(look))):
        yield Pause(pause)
        pause = min(2 * pause, MAX_PAUSE_S)
    return found


def quote_segment(segment: str) -> str:
    """A text as one segment of a path, also where it would lead to another one. Raises ``ValueError`` for an empty one:
    the path without it is another operation's.
    """
    if not segment:
        raise ValueError("an empty text is no id and no name")
    return quote(segment, safe="") if segment.strip(".") else segment.replace(".", "%2E")


def build_query(**parameters: "str | int | bool | datetime | None") -> Query:
    """The parameters that have a value, as the service writes them."""
    return tuple((name, _to_text(value)) for name, value in parameters.items() if value is not None)


def _to_text(value: "str | int | bool | datetime") -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return str(value)


def read_nothing(body: bytes) -> None:
    """For answers without content."""
    del body


def read_value(body: bytes) -> JsonValue:
    """Any JSON, with exact numbers."""
    return decode(body) if body.strip() else None


def read_object(body: bytes) -> JsonObject:
    """A JSON object. Raises ``msgspec.ValidationError`` for anything else."""
    value = decode(body)
    if not isinstance(value, dict):
        raise msgspec.ValidationError("expected an object")
    return value


def to_object(text: msgspec.Raw) -> JsonObject:
    """A part of an answer that is an object; empty when it is absent or null."""
    value = decode(bytes(text)) if text else None
    return value if isinstance(value, dict) else {}


MAX_PAGE_SIZE: Final = 1000
"""Items of a page when a whole list is read."""


def request(
    method: str,
    path: str,
    body: object = None,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    at_root: bool = False,
    only_asks: bool = False,
) -> Operation[JsonValue]:
    """Send any request, and read its answer as JSON. ``path`` begins below the context path, or below the host when
    ``at_root``; ``only_asks`` says that it changes nothing, so that it may be repeated.
    """
    content = None if body is None else encode_json(body)
    call = _build_call(method, path, content, query=query, headers=headers, at_root=at_root, only_asks=only_asks)
    return Operation(call, read_value)


def fetch(
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    at_root: bool = False,
    only_asks: bool = False,
) -> Operation[HttpResponse]:
    """The same with bytes: the body is sent as it is, and the answer comes back with its headers."""
    call = _build_call(method, path, body, query=query, headers=headers, at_root=at_root, only_asks=only_asks)
    return _Fetch(call, lambda content: HttpResponse(HTTPStatus.OK, content))


class _Fetch(Operation[HttpResponse], frozen=True):
    """An operation whose result is the whole answer."""

    def interpret(self, response: HttpResponse) -> HttpResponse:
        return response


def _build_call(
    method: str,
    path: str,
    body: bytes | None,
    *,
    query: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
    at_root: bool,
    only_asks: bool,
) -> Call:
    return Call(
        name="request",
        target=(method, path),
        method=method,
        path=path,
        query=tuple((query or {}).items()),
        headers=headers or {},
        body=body,
        at_root=at_root,
        only_asks=only_asks,
    )
