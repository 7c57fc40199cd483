"""Callouts and answers as CloudEvents, seen from the node (docs/reference/grpc.md#envelope,
docs/reference/grpc.md#member-streams, docs/reference/grpc.md#callouts).
"""

from collections.abc import Mapping
from typing import Final, TypeVar
from uuid import uuid4

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.functions import Caller, Context, Kind
from statewright.sdk.outcomes import Rejected, encode_document, encode_json, to_match, to_schedule
from statewright.telemetry.tracing import TRACEPARENT, TRACESTATE, parse_trace

JOIN: Final = "CalculationMemberJoinEvent"
GREET: Final = "CalculationMemberGreetEvent"
KEEP_ALIVE: Final = "CalculationMemberKeepAliveEvent"
DRAINED: Final = "statewright-drained"
"""The trailer of a stream whose member was drained."""
MAX_MESSAGE: Final = "statewright-max-message-bytes"
"""What the stream of a member begins with: how long its messages may be."""
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The longest message of a server that does not tell: what gRPC takes unless told otherwise."""
ACK: Final = "EventAckResponse"

KINDS: Final[dict[str, Kind]] = {
    "EntityProcessorCalculationRequest": "processor",
    "EntityCriteriaCalculationRequest": "criteria",
    "EntityFunctionCalculationRequest": "function",
}
"""The kind of callout, by the type of its event."""

RESPONSES: Final[dict[Kind, str]] = {
    "processor": "EntityProcessorCalculationResponse",
    "criteria": "EntityCriteriaCalculationResponse",
    "function": "EntityFunctionCalculationResponse",
}


class CalloutRequest(Struct, frozen=True):
    """One callout. ``document`` is JSON text, None when the entity is not attached."""

    kind: Kind
    document: bytes | None
    context: Context


class Greeting(Struct, frozen=True, rename="camel"):
    """The server's answer to a join. Hosted installations may refuse with it
    (docs/reference/grpc.md#the-hosted-dialect).
    """

    member_id: str = ""
    joined_legal_entity_id: str = ""
    success: bool = True
    error: "EventError | None" = None


class EventError(Struct, frozen=True):
    """The message of an answer that is not successful."""

    message: str = ""


class UnreadableEvent(ValueError):
    """An event whose data are not of the shape that its type demands."""


def build_join(tags: tuple[str, ...]) -> CloudEvent:
    return _build_event(JOIN, {"tags": tags})


def build_acknowledgement(ping: CloudEvent) -> CloudEvent:
    """The answer to a keep-alive event. Raises :class:`UnreadableEvent`."""
    return _build_event(ACK, {"sourceEventId": _decode(_PING, ping).id, "success": True})


def read_max_message(told: str | bytes | None) -> int:
    """The longest message that the server takes, in bytes, from what its stream begins with."""
    return int(told) if isinstance(told, str) and told.isdecimal() and len(told) < 20 else MAX_MESSAGE_BYTES


def read_greeting(event: CloudEvent) -> Greeting:
    """The greeting in an event. Raises :class:`UnreadableEvent`."""
    return _decode(_GREETING, event)


def read_request(event: CloudEvent) -> CalloutRequest:
    """The callout that an event carries; its type is one of ``KINDS``. Raises :class:`UnreadableEvent`."""
    wire, kind = _decode(_REQUEST, event), KINDS[event.type]
    payload = wire.payload or _NOT_ATTACHED
    names: dict[Kind, str] = {
        "processor": wire.processor_name,
        "criteria": wire.criteria_name,
        "function": wire.function_name,
    }
    context = Context(
        name=names[kind],
        request_id=wire.request_id,
        entity_id=wire.entity_id,
        workflow=wire.workflow.name,
        transition=wire.transition.name,
        state_from=wire.transition.state_from,
        state_to=wire.transition.state_to,
        transaction_id=wire.transaction_id,
        tx_token=_get_attribute(event, "cyodatxtoken") or None,
        parameters=_to_text(wire.parameters),
        principal=_read_caller(event),
        meta=_decode_object(payload.meta),
        trace=parse_trace(_get_attribute(event, TRACEPARENT), _get_attribute(event, TRACESTATE)),
    )
    return CalloutRequest(kind, bytes(payload.data) or None, context)


def build_answer(request: CalloutRequest, outcome: object) -> CloudEvent:
    """A successful answer. Raises ``NotJson`` when the outcome cannot be written."""
    members = _build_members(request, success=True)
    match request.kind:
        case "processor":
            if outcome is not None:
                members["payload"] = {"type": "JSON", "data": msgspec.Raw(encode_document(outcome))}
        case "criteria":
            members["matches"] = to_match(outcome)
            if isinstance(outcome, Rejected):
                members["reason"] = _replace_surrogates(outcome.reason)
        case "function":
            members["resultKind"] = "Schedule"
            members["result"] = msgspec.Raw(encode_json(to_schedule(outcome)))
    return _build_event(RESPONSES[request.kind], members)


def build_failed_answer(request: CalloutRequest, *, code: str, message: str, final: bool = False) -> CloudEvent:
    """An answer that fails the callout; ``final``: a retry would be useless."""
    error: dict[str, object] = {"code": code, "message": _replace_surrogates(message)}
    if final:
        error["retryable"] = False
    return _build_event(RESPONSES[request.kind], _build_members(request, success=False) | {"error": error})


def build_too_large_answer(request: CalloutRequest, message: str) -> CloudEvent:
    """The failure in place of an answer that the server would not take; without warnings, which can be what is long."""
    silent = replace(request, context=replace(request.context, warnings=[]))
    return build_failed_answer(silent, code="ANSWER_TOO_LARGE", message=message, final=True)


class _Ping(Struct, frozen=True):
    id: str = ""


class _Named(Struct, frozen=True):
    name: str = ""


class _Transition(Struct, frozen=True, rename="camel"):
    name: str = ""
    state_from: str = ""
    state_to: str = ""


class _Payload(Struct, frozen=True):
    data: msgspec.Raw = msgspec.Raw()
    meta: msgspec.Raw = msgspec.Raw()


_NOT_ATTACHED: Final = _Payload()


class _Request(Struct, frozen=True, rename="camel"):
    request_id: str
    entity_id: str = ""
    processor_name: str = ""
    criteria_name: str = ""
    function_name: str = ""
    workflow: _Named = _Named()
    transition: _Transition = _Transition()
    transaction_id: str = ""
    parameters: object = None
    payload: _Payload | None = None  # null counts as absent


class _HostedClaims(Struct, frozen=True):
    roles: tuple[str, ...] = ()


_PING: Final = msgspec.json.Decoder(_Ping)
_GREETING: Final = msgspec.json.Decoder(Greeting)
_REQUEST: Final = msgspec.json.Decoder(_Request)
_CLAIMS: Final = msgspec.json.Decoder(_HostedClaims)

DecodedT = TypeVar("DecodedT")


def _decode(decoder: msgspec.json.Decoder[DecodedT], event: CloudEvent) -> DecodedT:
    try:
        return decoder.decode(event.text_data or event.binary_data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UnreadableEvent(f"{event.type}: {error}") from error


def _decode_object(text: msgspec.Raw) -> JsonObject:
    try:
        value = decode(bytes(text)) if text else None
    except MalformedJson as error:
        raise UnreadableEvent(f"metadata: {error}") from error
    return value if isinstance(value, dict) else {}


def _to_text(parameters: object) -> str:
    """The configured context; hosted installations may send a JSON value where the schema wants its text."""
    if isinstance(parameters, str):
        return parameters
    return "" if parameters is None else msgspec.json.encode(parameters).decode()


def _get_attribute(event: CloudEvent, name: str) -> str:
    # Asking a protobuf map for a key it lacks would add it.
    return event.attributes[name].ce_string if name in event.attributes else ""


def _read_caller(event: CloudEvent) -> Caller:
    claims = _get_attribute(event, "authclaims")
    return Caller(
        id=_get_attribute(event, "authid"), kind=_get_attribute(event, "authtype"), roles=_parse_roles(claims)
    )


def _parse_roles(claims: str) -> tuple[str, ...]:
    """Roles separated by commas, or, from hosted installations, in a JSON object
    (docs/reference/grpc.md#the-hosted-dialect).
    """
    if not claims.startswith("{"):
        return tuple(role for role in claims.split(",") if role)
    try:
        return _CLAIMS.decode(claims).roles
    except msgspec.DecodeError:
        return ()


def _build_members(request: CalloutRequest, *, success: bool) -> dict[str, object]:
    """The members that all answers have in common."""
    context = request.context
    members: dict[str, object] = {
        "requestId": context.request_id,
        "entityId": context.entity_id,
        "success": success,
    }
    if context.warnings:
        members["warnings"] = [_replace_surrogates(warning) for warning in context.warnings]
    return members


def _build_event(event_type: str, members: Mapping[str, object]) -> CloudEvent:
    text = msgspec.json.encode({"id": str(uuid4()), **members}).decode()
    return CloudEvent(id=str(uuid4()), source="statewright-node", spec_version="1.0", type=event_type, text_data=text)


def _replace_surrogates(text: str) -> str:
    """The text without lone surrogates, which file names in error messages may contain and JSON may not."""
    return text.encode(errors="replace").decode()
