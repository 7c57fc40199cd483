"""What the routes of the operations API have in common (docs/reference/operations.md#common-rules).

Their bodies are JSON objects without unknown members (docs/reference/operations.md#requests).
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.inspect import CollectionType, DictType, LiteralType, Metadata, StructType, Type, UnionType, type_info

from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Endpoint, Route
from statewright.failures import BadRequest, ProcessNotFound
from statewright.ids import EntityId, parse_entity_id
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, guess_name, quote
from statewright.operations.idempotency import Recording
from statewright.operations.records import name_record
from statewright.operations.table import ADMIN as ADMIN
from statewright.operations.table import OPERATOR as OPERATOR
from statewright.operations.table import ApiOperation
from statewright.services.core import Caller
from statewright.services.runtime import Runtime


class OpsRoute(Route, frozen=True, kw_only=True):
    """An operation of operators and automation. ``path`` is the whole one: it is at the root of the server.

    Unknown query parameters are refused.
    """

    tag: str = "Ops"
    is_ours: bool = True
    recording: Recording = "transaction"


def serve(operation: ApiOperation[object]) -> Callable[[Endpoint], OpsRoute]:
    """A decorator that makes an endpoint the route of an operation."""

    def build(endpoint: Endpoint) -> OpsRoute:
        return OpsRoute(
            method=operation.method,
            path=operation.path,
            endpoint=endpoint,
            id=operation.id,
            summary=operation.summary,
            allowed_roles=frozenset() if operation.role is None else frozenset({operation.role, ADMIN}),
            recording=operation.recording,
            is_read=operation.is_read,
            answers_secret=operation.answers_secret,
            query=operation.query,
            headers=operation.headers,
            body=None if operation.body is None else name_record(operation.body),
            body_required=operation.body_required,
            reply=name_record(operation.answer),
            status=operation.status,
            problems=operation.problems,
        )

    return build


MAX_BYTES: Final = 10 * 1024 * 1024

Body = TypeVar("Body", bound=Struct)
ResultT = TypeVar("ResultT")

_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_PATH: Final = re.compile(r" - at `\$([^`]*)`")
_PARAMETER: Final = re.compile(r"{(\w+)}")


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body as ``kind``, which forbids unknown members; numbers keep their digits, and texts can be stored. Raises
    ``BadRequest`` with the pointer of what is wrong.
    """
    value = await read_json_body(request)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as misfit:
        raise refuse_misfit(misfit, kind) from misfit


def decode_body(raw: bytes, kind: type[Body]) -> Body:
    """The same from what was read already, of which texts are not stored, and numbers are left to others."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as misfit:
        raise refuse_misfit(misfit, kind) from misfit
    except (ValueError, RecursionError) as malformed:
        raise BadRequest("the body is not JSON") from malformed


def refuse_member(pointer: str, wrong: str) -> BadRequest:
    """The refusal of a member of a body."""
    return BadRequest(f"invalid body: {pointer or '/'}: {wrong}", {"parameter": pointer or "/"})


def refuse_misfit(misfit: msgspec.ValidationError, kind: type[Struct]) -> BadRequest:
    """The refusal of a body that does not fit ``kind``; with what was meant, or can be chosen, where that is known."""
    text = str(misfit)
    pointer = _find_pointer(text)
    return refuse_member(pointer, _PATH.sub("", text) + _suggest(kind, pointer.split("/")[1:], text))


def _suggest(kind: type[Struct], steps: Sequence[str], text: str) -> str:
    if named := _UNKNOWN.search(text):
        parents = _list_types(kind, steps[:-1])
        names = [field.encode_name for each in parents if isinstance(each, StructType) for field in each.fields]
        return guess_name(named[1], names)
    if "Invalid enum value" in text:
        found = [value for each in _list_types(kind, steps) if isinstance(each, LiteralType) for value in each.values]
        return f"; one of {', '.join(map(str, found))}" if found else ""
    return ""


def _list_types(kind: type[Struct], steps: Iterable[str]) -> list[Type]:
    """The types that can be at a place of a body."""
    found = list(_list_alternatives(type_info(kind)))
    for step in steps:
        found = [below for each in found for inner in _list_below(each, step) for below in _list_alternatives(inner)]
    return found


def _list_alternatives(one: Type) -> Iterator[Type]:
    match one:
        case UnionType(types=types):
            for each in types:
                yield from _list_alternatives(each)
        case Metadata(type=inner):
            yield from _list_alternatives(inner)
        case _:
            yield one


def _list_below(one: Type, step: str) -> Iterator[Type]:
    match one:
        case StructType(fields=fields):
            yield from (field.type for field in fields if field.encode_name == step)
        case CollectionType(item_type=inner) | DictType(value_type=inner):
            yield inner


def _find_pointer(text: str) -> str:
    """``/model/version`` from what msgspec says."""
    path = _PATH.search(text)
    pointer = re.sub(r"\.|\[", "/", path[1].replace("]", "")) if path else ""
    named = _UNKNOWN.search(text) or _MISSING.search(text)
    return f"{pointer}/{named[1]}" if named else pointer


async def read_json_body(request: Request) -> JsonObject:
    """The body as an object whose numbers keep their digits; none is an empty one. Raises ``BadRequest``."""
    try:
        value = await request.read(lambda raw: decode(raw) if raw else {}, MAX_BYTES)
    except MalformedJson as malformed:
        raise BadRequest(f"the body is not JSON: {malformed}") from malformed
    if not isinstance(value, dict):
        raise refuse_member("", "not an object")
    return value


def read_instance_id(text: str) -> EntityId:
    """From a ULID or a UUID. Raises ``ProcessNotFound`` for what is neither."""
    found = parse_entity_id(text)
    if found is None:
        raise build_unknown_instance(text)
    return found


def build_unknown_instance(text: str) -> ProcessNotFound:
    """The failure of a request for an instance that there is not."""
    return ProcessNotFound(f"instance {quote(text)} not found")


def read_id(request: Request, operation: ApiOperation[object]) -> str:
    """What an operation is about: the parameter of its path, an id or the fingerprint of a cause. Raises
    ``InvalidParameter``.
    """
    [name] = _PARAMETER.findall(operation.path)
    return request.path_text(name) if name == "fingerprint" else uuid_text(name, request.path_params[name])


def serve_act(
    operation: ApiOperation[object],
    kind: type[Body],
    do: Callable[[Runtime, Caller, str, Body], Awaitable[ResultT]],
    show: Callable[[ResultT], object] | None = None,
) -> OpsRoute:
    """The route of an operation that changes what the parameter of its path names. ``do`` is its use case; the answer
    is what that results in, as ``show`` has it. It is recorded with what commits, where the operation says so.
    """

    async def respond(result: ResultT) -> Response:
        return Response(encode_json(result if show is None else show(result)), operation.status)

    async def carry_out(request: Request, caller: Caller, body: Body) -> Response:
        return await respond(await do(request.runtime, caller, read_id(request, operation), body))

    async def act(request: Request) -> Response:
        body = await read_body(request, kind)
        return await carry_out(request, request.caller, body)

    async def act_with_answer(request: Request) -> Response:
        body = await read_body(request, kind)
        return await carry_out(request, request.answer_with(respond), body)

    return serve(operation)(act_with_answer if operation.recording == "commit" else act)
