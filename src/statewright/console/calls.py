"""Calls of the API and their replies, as values. Replies are read as the records of ``operations``.

Of JSON that has no record, members by type: what has another type is as absent.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Literal, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.records import Record, Value

CALL_TIMEOUT_S: Final = 5.0
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
MAX_CURL_BODY_BYTES: Final = 2_000
BAD_GATEWAY: Final = 502

AnswerT = TypeVar("AnswerT")
RecordT = TypeVar("RecordT", bound=Struct)

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Parameters = Mapping[str, str | int | bool | Sequence[str] | None]


class ApiCall(Struct, frozen=True, kw_only=True):
    """One request to the API. ``path`` is encoded; that of the entity API is below the context path."""

    method: Method
    path: str
    is_below_context: bool
    query: str = ""
    body: bytes | None = None
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = CALL_TIMEOUT_S

    @property
    def fits_line(self) -> bool:
        """Whether the body is short enough to stand in a command line."""
        return self.body is None or len(self.body) <= MAX_CURL_BODY_BYTES

    def get_target(self, context_path: str) -> str:
        """Path and query as they are sent."""
        path = f"{context_path}{self.path}" if self.is_below_context else self.path
        return f"{path}?{self.query}" if self.query else path

    def format_curl(self, origin: str, context_path: str) -> str:
        """The same call as a command line, without credentials."""
        words = ["curl"]
        if self.method != "GET":
            words += ["-X", self.method]
        words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in self.headers]
        if self.body is not None:
            text = self.body.decode("utf-8", "replace")
            shown = text if self.fits_line else "@body.json"
            words += [f"-H {shlex.quote(f'Content-Type: {self.media_type}')}", f"--data-binary {shlex.quote(shown)}"]
        return " ".join([*words, shlex.quote(f"{origin}{self.get_target(context_path)}")])


def build_path(*segments: str | int) -> str:
    """A path of encoded segments: a slash within a name is ``%2F``."""
    return "".join(f"/{quote(str(segment), safe='')}" for segment in segments)


def build_entity_call(
    *segments: str | int,
    method: Method = "GET",
    query: Parameters | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    media_type: str = JSON,
    timeout_s: float = CALL_TIMEOUT_S,
    is_below_context: bool = True,
) -> ApiCall:
    """A call of the entity API; the segments are those below the context path, a last empty one gives the slash."""
    return ApiCall(
        method=method,
        path=build_path(*segments),
        is_below_context=is_below_context,
        query=_encode_query(query or {}),
        body=body,
        media_type=media_type,
        headers=tuple((headers or {}).items()),
        timeout_s=timeout_s,
    )


build_root_call: Final = partial(build_entity_call, is_below_context=False)
"""A call of an API beside the context path, such as ``/v1``; the segments are all of the path."""
build_ops_call: Final = partial(build_root_call, "ops", "v1")
"""A call of the operations API; the segments are those below ``/ops/v1``."""


def _encode_query(parameters: Parameters) -> str:
    pairs: list[tuple[str, str]] = []
    for name, value in parameters.items():
        if value is None or value is False:
            continue
        if isinstance(value, str | int):
            pairs.append((name, "true" if value is True else str(value)))
        else:
            pairs += [(name, each) for each in value]
    return urlencode(pairs, quote_via=quote)


class Reply(Struct, frozen=True, kw_only=True):
    """What the API answered. ``value`` is the document, numbers exact; of NDJSON the list of its lines."""

    call: ApiCall
    status: int
    headers: Mapping[str, str] = {}
    value: JsonValue = None
    body: bytes = b""
    seconds: float = 0.0

    @property
    def is_ok(self) -> bool:
        """Whether the call did what it was to do."""
        return self.status < 300

    def require(self) -> "Reply":
        """The same reply. Raises ``CallFailed`` unless the call succeeded."""
        if not self.is_ok:
            raise CallFailed(self)
        return self

    def read(self, kind: type[AnswerT]) -> AnswerT:
        """The answer as a record. Raises ``CallFailed`` unless the call succeeded with such an answer."""
        return self._convert(self.require().value, kind)

    def read_if_ok(self, kind: type[AnswerT]) -> AnswerT | None:
        """The answer as a record; None where the call failed."""
        return self.read(kind) if self.is_ok else None

    def read_items(self, kind: type[AnswerT]) -> tuple[AnswerT, ...]:
        """The items of a list as records; none where the call failed."""
        return tuple(self._convert(item, kind) for item in self.items) if self.is_ok else ()

    def pick(self, kind: type[RecordT]) -> RecordT:
        """What there is of an answer that has no record of its own."""
        return pick_members(self.value, kind)

    def pick_items(self, kind: type[RecordT]) -> tuple[RecordT, ...]:
        """The same of the items of a list."""
        return tuple(pick_members(item, kind) for item in self.items)

    def _convert(self, value: object, kind: type[AnswerT]) -> AnswerT:
        try:
            return convert(value, kind)
        except ValidationError as unfit:
            raise CallFailed(build_problem_reply(self.call, BAD_GATEWAY, "ANSWER_UNREADABLE", str(unfit))) from unfit

    @property
    def next_cursor(self) -> str:
        """Where a list goes on; empty at its end."""
        return self.pick(_Page).next_cursor or ""

    @property
    def total(self) -> int:
        """How many there are of what a list shows some, where that was asked for."""
        return self.pick(_Page).total or 0

    @property
    def scanned(self) -> int:
        """How many were looked at for the items of a list, where that is told."""
        return self.pick(_Page).scanned

    @property
    def document(self) -> JsonObject:
        """The document where it is an object, else an empty one."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[JsonObject]:
        """The objects of a list, or of the ``items`` of a page of the operations API."""
        return list_objects(self.pick(_Page).items if isinstance(self.value, dict) else self.value)


class _Page(Record, frozen=True, kw_only=True):
    """What a page of a list has, whatever is in it."""

    items: Value = None
    next_cursor: str | None = None
    total: int | None = None
    scanned: int = 0


class CallFailed(Exception):
    """A page can say nothing but why a call failed."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def build_problem_reply(call: ApiCall, status: int, code: str, detail: str, seconds: float = 0.0) -> Reply:
    """The reply where the API gave none."""
    problem: JsonValue = {"status": status, "detail": detail, "properties": {"errorCode": code}}
    return Reply(call=call, status=status, value=problem, seconds=seconds)


def pick_members(value: JsonValue, kind: type[RecordT]) -> RecordT:
    """A struct of which each member has a default: a member of another type is as absent, and so are all of what is no
    object.
    """
    document = value if isinstance(value, dict) else {}
    try:
        return convert(document, kind)
    except ValidationError:
        return kind(**dict(_list_fitting(document, kind)))


def pick_objects(listed: object, kind: type[RecordT]) -> list[RecordT]:
    """The objects of a list, as such structs."""
    return [pick_members(item, kind) for item in list_objects(listed)]


def list_objects(listed: object) -> list[JsonObject]:
    """The objects of a list; none of what is no list."""
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list | tuple) else []


def _list_fitting(document: JsonObject, kind: type[Struct]) -> Iterator[tuple[str, object]]:
    for member in fields(kind):
        if member.encode_name in document:
            with suppress(ValidationError):
                yield member.name, convert(document[member.encode_name], member.type)
