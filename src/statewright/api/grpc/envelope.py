"""CloudEvents to values and back (docs/reference/grpc.md#envelope, docs/reference/grpc.md#member-streams,
docs/reference/grpc.md#callouts).
"""

import json
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct

from statewright.compute.callout import Callout, CalloutKind, CalloutResult
from statewright.compute.members import Greeting, Message, PendingCallout, Ping
from statewright.jsonval.codec import MalformedJson, decode, find_text_behind
from statewright.jsonval.pieces import NotSplittable, RepeatedName, decode_pieces
from statewright.jsonval.values import JsonValue
from statewright.loop.background import MAX_INLINE_BYTES, run_by_size
from statewright.loop.turns import take_apart
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.telemetry.tracing import list_trace_headers

T = TypeVar("T")
Text = TypeVar("Text", bound=str | bytes)

JOIN: Final = "CalculationMemberJoinEvent"
GREET: Final = "CalculationMemberGreetEvent"
KEEP_ALIVE: Final = "CalculationMemberKeepAliveEvent"
ACK: Final = "EventAckResponse"

REQUEST_TYPES: Final[dict[CalloutKind, str]] = {
    "processor": "EntityProcessorCalculationRequest",
    "criteria": "EntityCriteriaCalculationRequest",
    "function": "EntityFunctionCalculationRequest",
}
RESPONSE_TYPES: Final = frozenset(
    {
        "EntityProcessorCalculationResponse",
        "EntityCriteriaCalculationResponse",
        "EntityFunctionCalculationResponse",
    }
)


class UnusableEvent(ValueError):
    """An event whose data cannot be read: no JSON in it, or not the JSON its type calls for."""


MAX_TAGS: Final = 1_000
"""Of a member."""
Tag = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00]*$")]
"""What other nodes and operators are told of a member goes through the database: one that it does not take would keep
this node from saying that it lives.
"""


class Join(Struct, frozen=True, rename="camel"):
    """The data of a join event. Its ``id`` is not read (docs/reference/grpc.md#leniencies)."""

    tags: Annotated[tuple[Tag, ...], Meta(max_length=MAX_TAGS)] | None = None
    joined_legal_entity_id: str | None = None


class MemberResponse(Struct, frozen=True):
    """The result of a callout, and the id of its request."""

    request_id: str
    result: CalloutResult


def new_event(event_type: str, data: bytes) -> CloudEvent:
    """An event of the server's; ``data`` is JSON."""
    return CloudEvent(id=_new_event_id(), source="cyoda", spec_version="1.0", type=event_type, text_data=data.decode())


def get_data(event: CloudEvent) -> str | bytes:
    """The JSON text that an event carries. Raises :class:`UnusableEvent` when it carries none."""
    match event.WhichOneof("data"):
        case "text_data":
            return event.text_data
        case "binary_data":
            return event.binary_data
        case _:
            raise UnusableEvent("invalid CloudEvent: unsupported CloudEvent data variant")


async def read_by_size(data: Text, read: Callable[[Text], T]) -> T:
    """What ``read`` makes of the text of an event, in a thread if that is large. Raises what ``read`` does."""
    return await run_by_size(len(data), lambda: read(data))


def encode_message(message: Message) -> CloudEvent:
    """The event that brings a message to its member. Raises ``ValueError`` when its texts are not Unicode."""
    match message:
        case PendingCallout():
            return _encode_request(message.callout)
        case Greeting(member_id, tenant):
            return _build_member_event(GREET, {"id": member_id, "memberId": member_id, "joinedLegalEntityId": tenant})
        case Ping(member_id):
            return _build_member_event(KEEP_ALIVE, {"id": member_id, "memberId": member_id})


def read_join(data: str | bytes) -> Join:
    """The data of the first event of a stream. Raises :class:`UnusableEvent`."""
    try:
        return _JOIN.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UnusableEvent(str(error)) from error


def read_response(data: str | bytes) -> MemberResponse:
    """A member's answer to a callout of any kind. A processor's document is passed on unread.

    Members of it that are missing or null count as false, no change or no reason (docs/reference/grpc.md#callouts,
    docs/reference/grpc.md#leniencies). An answer that cannot be used fails its callout, if it says which: better than
    letting it run into its time limit (docs/reference/grpc.md#unusable-events). Raises :class:`UnusableEvent`
    otherwise.
    """
    try:
        wire = _RESPONSE.decode(data)
        result = None if _is_null(wire.result) else decode(bytes(wire.result))
        _refuse_nul(wire)
    except (MalformedJson, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return MemberResponse(
            _read_request_id(data, error), CalloutResult(success=False, error=f"unusable answer: {error}")
        )
    return MemberResponse(wire.request_id, wire.to_result(result))


class _WireError(Struct, frozen=True):
    message: str | None = None
    retryable: object = None


class _WirePayload(Struct, frozen=True):
    data: msgspec.Raw = msgspec.Raw()


class _WireResponse(Struct, frozen=True, rename="camel"):
    """The members that are read of the three response types; all others are ignored."""

    request_id: str
    success: bool | None = None
    error: _WireError | None = None
    warnings: tuple[str, ...] | None = None
    payload: _WirePayload | None = None
    matches: bool | None = None
    reason: str | None = None
    result: msgspec.Raw = msgspec.Raw()
    result_kind: str | None = None

    def to_result(self, result: JsonValue) -> CalloutResult:
        data = self.payload.data if self.payload else None
        return CalloutResult(
            success=self.success is True,
            error=self.error.message if self.error else None,
            retryable=self.error is None or self.error.retryable is not False,
            warnings=self.warnings or (),
            data=UNSET if data is None or _is_null(data) else bytes(data),
            matches=self.matches is True,
            reason=self.reason,
            result=result,
            result_kind=self.result_kind,
        )


class _WireRequestId(Struct, frozen=True, rename="camel"):
    request_id: str


def _is_null(raw: msgspec.Raw) -> bool:
    """Whether a member is absent or null."""
    return len(raw) < 5 and bytes(raw) in {b"", b"null"}


def _refuse_nul(wire: _WireResponse) -> None:
    """Raises ``MalformedJson`` for a NUL character in the texts of an answer, since PostgreSQL cannot store it."""
    texts = (wire.error.message if wire.error else None, wire.reason, wire.result_kind, *(wire.warnings or ()))
    if any(text and "\0" in text for text in texts):
        raise MalformedJson("string contains a NUL character")


def _read_request_id(data: str | bytes, defect: Exception) -> str:
    """The request that an unusable answer belongs to. Raises :class:`UnusableEvent` when it does not even say that."""
    text = (data if isinstance(data, str) else data.decode(errors="replace")).lstrip("\ufeff \t\r\n").encode()
    try:
        return _REQUEST_ID.decode(text).request_id
    except msgspec.DecodeError as error:  # what is wrong was found before; the id may be readable all the same
        end = find_text_behind(error)
    except RecursionError:
        end = None
    try:
        return _REQUEST_ID.decode(text[:end]).request_id if end is not None else _search_request_id(text)
    except (ValueError, msgspec.ValidationError, RecursionError, NotSplittable, RepeatedName):
        raise UnusableEvent(str(defect)) from defect


def _search_request_id(text: bytes) -> str:
    """From what only Python's decoder reads, such as NaN. It takes a large text piece by piece, so that others have
    their turn, and then nothing behind the value.
    """
    if len(text) <= MAX_INLINE_BYTES:
        readable, _ = json.JSONDecoder().raw_decode(text.decode())
        return msgspec.convert(readable, _WireRequestId).request_id
    value = decode_pieces(text, lambda piece: json.loads(piece.text))
    try:
        return msgspec.convert(value, _WireRequestId).request_id
    finally:
        take_apart([value] if isinstance(value, list | dict) else [])


_JOIN: Final = msgspec.json.Decoder(Join)
_RESPONSE: Final = msgspec.json.Decoder(_WireResponse)
_REQUEST_ID: Final = msgspec.json.Decoder(_WireRequestId)
_random = Random()  # noqa: S311  # event ids are no secrets, and asking the system for each costs as much as the whole event


def _new_event_id() -> str:
    """A version 4 UUID (RFC 9562 §5.4)."""
    digits = f"{_random.getrandbits(128):032x}"
    return (
        f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
    )


def _encode_request(callout: Callout) -> CloudEvent:
    """The event of a callout (docs/reference/grpc.md#callouts). Parts that many callouts have in common are cached."""
    principal = callout.principal
    event = CloudEvent.FromString(_encode_common_event(callout.kind, principal.kind, principal.id, principal.roles))
    event.id = _new_event_id()
    if callout.tx_token is not None:
        event.attributes["cyodatxtoken"].ce_string = callout.tx_token
    if callout.trace is not None:
        for name, value in list_trace_headers(callout.trace):
            event.attributes[name].ce_string = value
    request_id = callout.request_id
    common = _encode_common_members(
        callout.kind,
        callout.name,
        callout.workflow,
        callout.transition,
        callout.state_from,
        callout.state_to,
        callout.target,
        callout.parameters,
    )
    payload = "" if callout.payload is None else f',"payload":{callout.payload.decode()}'
    event.text_data = (
        f'{{"id":"{request_id}","requestId":"{request_id}","entityId":"{callout.entity_id}",'
        f'"transactionId":"{callout.transaction_id}",{common}{payload}}}'
    )
    return event


@lru_cache(maxsize=4096)
def _encode_common_members(
    kind: CalloutKind,
    name: str,
    workflow: str,
    transition: str,
    state_from: str,
    state_to: str,
    target: str,
    parameters: str,
) -> str:
    """The members of a request that its definition decides, as JSON without braces."""
    members: dict[str, object] = {
        "success": True,
        f"{kind}Id": name,
        f"{kind}Name": name,
        "workflow": {"id": workflow, "name": workflow},
        "transition": {"id": transition, "name": transition, "stateFrom": state_from, "stateTo": state_to},
    }
    if target:
        members["target"] = target
    if parameters:
        members["parameters"] = parameters
    return msgspec.json.encode(members).decode()[1:-1]


@lru_cache(maxsize=1024)
def _encode_common_event(kind: CalloutKind, authtype: str, authid: str, roles: tuple[str, ...]) -> bytes:
    """An encoded event with the principal for whom a callout runs, but without id and data
    (docs/reference/grpc.md#envelope).
    """
    event = CloudEvent(source="cyoda", spec_version="1.0", type=REQUEST_TYPES[kind])
    event.attributes["authtype"].ce_string = authtype
    event.attributes["authid"].ce_string = authid
    if roles:
        event.attributes["authclaims"].ce_string = ",".join(roles)
    return event.SerializeToString()


def _build_member_event(event_type: str, members: dict[str, str]) -> CloudEvent:
    return new_event(event_type, msgspec.json.encode({**members, "success": True}))
