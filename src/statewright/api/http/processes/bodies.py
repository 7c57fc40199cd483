"""Request and response bodies of process languages.

Requests are read as the public engine reads them: member names in any case, ``null`` like absent, unknown members
ignored, a wrong type refused (docs/reference/steps.md#rest). Responses keep the order of members.

The form of the errors of process languages: ``error``, ``reason``, and what a language adds
(docs/reference/steps.md#conventions).

Query and path parameters of process languages. Nothing in a query is refused but a NUL character
(docs/reference/steps.md#rest).

Answers that are made alike for several process languages: pages, uploads, summaries, lines of histories.

Routes of process languages: what a table of them says to the router and to the OpenAPI document alike.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Final, Literal, Protocol

import msgspec
from msgspec import Struct

from statewright.api.http.application import ErrorFormat
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import Operation
from statewright.failures import Failure, InvalidMember, InvalidParameter, ProcessBadRequest, ProcessNotFound
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.pieces import encode_pieces
from statewright.jsonval.values import JsonObject, JsonValue, MemberReader, WantedType, json_type
from statewright.loop.background import free_in_parts, run_by_size, run_in_thread
from statewright.loop.turns import is_large
from statewright.processes.changes import NodeExecution
from statewright.processes.language import Drawing
from statewright.services.processes.definitions import Summaries, Summary
from statewright.services.processes.dialects import DrawingOption
from statewright.services.processes.instances import AbridgedInstance
from statewright.telemetry import logs

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
    return await read_members(await request.body())


async def read_optional(request: Request) -> "RequestMembers":
    """The body of a request that may go without: no bytes are an empty object. Raises ``ProcessBadRequest``."""
    raw = await request.body()
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
            raise _build_type_error(value, "", "the body", "object")
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

    def build_refusal(self, member: str, message: str) -> InvalidMember:
        """The failure of a body that lacks a member, or has one that cannot be used."""
        return InvalidMember(member, message)

    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> InvalidMember:
        return _build_type_error(value, name, name, wanted)

    def _require_text(self, item: JsonValue, name: str) -> str:
        if not isinstance(item, str):
            raise _build_type_error(item, name, f"{name}[]", "string")
        return item


async def read_members(raw: bytes) -> RequestMembers:
    """The members of a body. Raises ``ProcessBadRequest``."""
    members = await run_by_size(len(raw), lambda: RequestMembers(_decode_body(raw)))
    members.free_in_parts(len(raw))
    return members


def decode_text(raw: bytes) -> str:
    """The text of a body. Raises ``ProcessBadRequest`` for what is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as malformed:
        raise ProcessBadRequest(f"the text is not UTF-8: {malformed.reason} at byte {malformed.start}") from None


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


def _build_type_error(value: JsonValue, member: str, name: str, wanted: WantedType) -> InvalidMember:
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    found = f"the number {value}" if is_number else NOUNS[json_type(value)]
    return InvalidMember(member, f"invalid request body: {name} must be {NOUNS[wanted]}, not {found}")


KINDS: Final = {
    400: "bad-request",
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    409: "conflict",
    413: "too-large",
    415: "unsupported-format",
    421: "misdirected-request",
    429: "too-many-requests",
    503: "unavailable",
    504: "timeout",
}
"""What ``error`` says for a status; 401, 403, 405, 408, 413, 421, 429, 503 and 504 are ours."""

INTERNAL: Final = "internal-error"
RETRY_AFTER: Final = ((b"retry-after", b"1"),)

TOOK_TOO_LONG: Final = (
    "the request took longer than 30 s, and may be carried out nonetheless: results of jobs can be sent again,"
    " since they count once; of all else look first what became of it"
)

log = logs.logger(__name__)


def build_error(status: int, reason: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """An error with the reason as its clients know it."""
    answer = reply({"error": KINDS.get(status, INTERNAL), "reason": reason}, status)
    return Response(answer.body, status, answer.media_type, headers)


def build_internal_error(cause: BaseException, path: str, verbose: bool) -> Response:
    """The error of a defect: a ticket to the client, the cause to the log."""
    ticket = log.error_with_ticket("internal_error", path=path, exc_info=cause)
    return build_error(500, repr(cause) if verbose else f"internal error [ticket: {ticket}]")


def _build_reason(failure: Failure, path: str) -> Response:
    """The error of an expected failure, of two members and never a third."""
    if failure.status not in KINDS:
        return build_internal_error(failure, path, False)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=path)
    headers = RETRY_AFTER if failure.retryable else ()
    return build_error(failure.status, failure.detail if failure.names_its_code else failure.message, headers)


def _build_properties(failure: Failure, path: str) -> Response:
    """The error of an expected failure, with what else is known of it."""
    if failure.status not in KINDS:
        return build_internal_error(failure, path, False)
    log.info("request_refused", status=failure.status, code=failure.code, message=failure.message, path=path)
    known: JsonObject = {
        name: value if isinstance(value, str | int) else list(value) for name, value in failure.properties.items()
    }
    answer = reply({"error": KINDS[failure.status], "reason": failure.message, **known}, failure.status)
    return Response(answer.body, failure.status, answer.media_type, RETRY_AFTER if failure.retryable else ())


def _build_format(build_failure: Callable[[Failure, str], Response]) -> ErrorFormat:
    return ErrorFormat(
        failure=build_failure,
        unauthenticated=lambda _failure, _path: build_error(401, "authentication required"),
        timeout=lambda: build_error(504, TOOK_TOO_LONG),
        defect=build_internal_error,
    )


BARE_ERRORS: Final = _build_format(_build_reason)
"""As the public step engine writes them."""
KNOWING_ERRORS: Final = _build_format(_build_properties)
"""With what is known of a failure, such as the place of a defect in a text."""


_MAX_INT32: Final = 2**31 - 1
_MAX_DIGITS: Final = 18


def read_text(request: Request, name: str) -> str:
    """The first value of a query parameter, empty when absent."""
    values = request.query_all(name)
    return values[0] if values else ""


def read_number(request: Request, name: str) -> int:
    """A query parameter as an integer; 0 when absent or none."""
    given = read_text(request, name)
    return _clamp(int(given)) if _is_integer(given) else 0


def read_flag(request: Request, name: str) -> bool:
    """Whether a query parameter says ``true`` or ``1``."""
    return read_text(request, name).lower() in {"true", "1"}


def read_drawing(request: Request, options: frozenset[DrawingOption]) -> Drawing:
    """How a diagram is wanted, as far as there is a choice. Raises ``InvalidParameter`` for what is none."""
    return Drawing(
        is_vertical="direction" in options and _read_choice(request, "direction", "LR", "TB"),
        with_docs="docs" in options and request.query_flag("docs"),
        as_graph="format" in options and _read_choice(request, "format", "mermaid", "graph"),
    )


def _read_choice(request: Request, name: str, default: str, other: str) -> bool:
    """Whether the other of two is wanted."""
    given = read_text(request, name) or default
    if given not in (default, other):
        raise InvalidParameter(name)
    return given == other


def read_version(request: Request) -> int:
    """The version in the path. Raises ``ProcessBadRequest``, and ``ProcessNotFound`` for what no version can be."""
    given = request.path_params["version"]
    if not _is_integer(given):
        raise ProcessBadRequest("invalid version parameter")
    if not 0 < int(given) <= _MAX_INT32:
        raise ProcessNotFound("definition not found")
    return int(given)


def _is_integer(given: str) -> bool:
    digits = given[1:] if given[:1] in {"+", "-"} else given
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS


def _clamp(value: int) -> int:
    return min(max(value, -_MAX_INT32), _MAX_INT32)


class CountedPage(Protocol):
    """A page of a list, and how long the list is."""

    @property
    def page(self) -> int: ...

    @property
    def page_size(self) -> int: ...

    @property
    def total(self) -> int: ...


async def reply_page(items: Sequence[JsonValue], page: CountedPage) -> Response:
    """A page of instances, runs or tasks, which may be large."""
    listed = list(items)
    return await reply_by_size({"items": listed, "total": page.total, "page": page.page, "pageSize": page.page_size})


def reply_summaries(found: Summaries, id_member: str) -> Response:
    """A page of definitions; ``id_member`` is what the language calls their ids."""
    items: list[JsonValue] = [_describe_summary(summary, id_member) for summary in found.items]
    return reply({"items": items, "page": found.page, "pageSize": found.page_size, "total": found.total})


def reply_versions(found: Sequence[tuple[int, int]]) -> Response:
    """All versions of a definition, each with the instant of its upload."""
    items: list[JsonValue] = [{"version": version, "uploadedAt": to_rfc3339(at)} for version, at in found]
    return reply({"items": items})


def reply_uploaded(summary: JsonObject, *, version: JsonValue, uploaded_at: int, is_new: bool) -> Response:
    """What an upload came to."""
    known: JsonObject = {"version": version, "uploadedAt": to_rfc3339(uploaded_at), "isNew": is_new}
    return reply({**summary, **known}, 201)


def describe_abridged(instance: AbridgedInstance, *, definition_member: str, status_member: str) -> JsonObject:
    """An instance in a list of which others were large."""
    optional: JsonObject = {
        "completedAt": None if instance.completed_at is None else to_rfc3339(instance.completed_at),
        "businessKey": instance.business_key,
    }
    return {
        "id": instance.id,
        definition_member: instance.definition_id,
        status_member: instance.status,
        "startedAt": to_rfc3339(instance.started_at),
        "abridged": True,
        **{name: value for name, value in optional.items() if value is not None},
    }


def describe_line(line: NodeExecution, place: JsonObject) -> JsonObject:
    """A line of a history; ``place`` says at which node it was."""
    optional: JsonObject = {
        "element": line.element,
        "endedAt": None if line.ended_at is None else to_rfc3339(line.ended_at),
        "failureReason": line.failure_reason,
        "valuesOmitted": line.are_values_omitted or None,
        "input": line.input_snapshot,
        "output": line.output_snapshot,
    }
    return {
        "id": line.id,
        **place,
        "attempt": line.attempt_number,
        "status": line.status,
        "startedAt": to_rfc3339(line.started_at),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _describe_summary(summary: Summary, id_member: str) -> JsonObject:
    return {
        id_member: summary.id,
        "version": summary.version,
        "name": summary.name,
        "description": summary.description,
        "uploadedAt": to_rfc3339(summary.uploaded_at),
        "versions": list(summary.versions),
    }


DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
"""How long the work of a request may take (docs/reference/steps.md#conventions)."""


class Parameter(Struct, frozen=True):
    """A documented query parameter, in the words of OpenAPI."""

    name: str
    type: Literal["string", "integer", "boolean"]
    description: str


class ProcessRoute(Operation, frozen=True, kw_only=True):
    """An operation of a process language. ``reply`` names a schema of the OpenAPI document, ``errors`` are the statuses
    of its own.
    """

    query: tuple[Parameter, ...] = ()
    status: int = 200
    reply: str | None = None
    other_replies: tuple[tuple[str, str], ...] = ()
    """Media types and schemas of answers that a query parameter asks for."""
    errors: tuple[int, ...] = ()
    timeout: timedelta | None = DEFAULT_TIMEOUT
    is_extension: bool = False
    body_types: tuple[str, ...] = ("application/json",)

    @property
    def parameter_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.query)


PAGE: Final = (
    Parameter("page", "integer", "from 0"),
    Parameter("pageSize", "integer", "20 when absent or not positive, at most 1000"),
)
