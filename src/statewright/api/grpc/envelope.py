"""CloudEvents to values and back (spec/grpc.md §2, §13, §14)."""

from random import Random
from typing import Final, cast

import msgspec
from msgspec import UNSET, Struct

from statewright.compute.callout import Callout, CalloutKind, Reply
from statewright.compute.members import Greeting, Message, PendingCallout, Probe
from statewright.entity import Principal
from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonValue
from statewright.proto.cloudevents_pb2 import CloudEvent

JOIN: Final = "CalculationMemberJoinEvent"
GREET: Final = "CalculationMemberGreetEvent"
KEEP_ALIVE: Final = "CalculationMemberKeepAliveEvent"
ACK: Final = "EventAckResponse"

REQUESTS: Final[dict[CalloutKind, str]] = {
    "processor": "EntityProcessorCalculationRequest",
    "criteria": "EntityCriteriaCalculationRequest",
    "function": "EntityFunctionCalculationRequest",
}
ANSWERS: Final = frozenset(
    {
        "EntityProcessorCalculationResponse",
        "EntityCriteriaCalculationResponse",
        "EntityFunctionCalculationResponse",
    }
)


class UnusableEvent(ValueError):
    """An event whose data cannot be read: no JSON in it, or not the JSON its type calls for."""


class Join(Struct, frozen=True, rename="camel"):
    """What a member says of itself. Its ``id`` is not asked for (spec/grpc.md §28.1)."""

    tags: tuple[str, ...] | None = None
    joined_legal_entity_id: str | None = None


class Answer(Struct, frozen=True):
    """A reply and the request it answers."""

    request_id: str
    reply: Reply


def new_event(event_type: str, data: bytes) -> CloudEvent:
    """An event of the server's; ``data`` is JSON."""
    return CloudEvent(id=_event_id(), source="cyoda", spec_version="1.0", type=event_type, text_data=data.decode())


def data_of(event: CloudEvent) -> str | bytes:
    """The JSON text that an event carries. Raises :class:`UnusableEvent` when it carries none."""
    match event.WhichOneof("data"):
        case "text_data":
            return event.text_data
        case "binary_data":
            return event.binary_data
        case _:
            raise UnusableEvent("invalid CloudEvent: unsupported CloudEvent data variant")


def event_of(message: Message) -> CloudEvent:
    """The event that brings a message to its member. Raises ``ValueError`` when its texts are not Unicode."""
    match message:
        case PendingCallout():
            return _request(message.callout)
        case Greeting(member_id, tenant):
            return _member_event(GREET, {"id": member_id, "memberId": member_id, "joinedLegalEntityId": tenant})
        case Probe(member_id):
            return _member_event(KEEP_ALIVE, {"id": member_id, "memberId": member_id})


def read_join(data: str | bytes) -> Join:
    """What the first event of a stream says. Raises :class:`UnusableEvent`."""
    try:
        return _JOIN.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UnusableEvent(str(error)) from error


def read_answer(data: str | bytes) -> Answer:
    """A member's answer, of whichever kind; numbers keep their digits. Raises :class:`UnusableEvent`.

    What a careless member leaves out or sends as null counts as false, no change or no reason (spec/grpc.md §14,
    §28.2).
    """
    try:
        wire = msgspec.convert(decode(data), _WireAnswer)
    except (MalformedJson, msgspec.ValidationError) as error:
        raise UnusableEvent(str(error)) from error
    return Answer(wire.request_id, wire.reply())


class _WireError(Struct, frozen=True):
    message: str | None = None


class _WirePayload(Struct, frozen=True):
    data: object = None


class _WireAnswer(Struct, frozen=True, rename="camel"):
    """The members that are read of the three response types; all others are ignored."""

    request_id: str
    success: bool | None = None
    error: _WireError | None = None
    warnings: tuple[str, ...] | None = None
    payload: _WirePayload | None = None
    matches: bool | None = None
    reason: str | None = None
    result: object = None
    result_kind: str | None = None

    def reply(self) -> Reply:
        data = self.payload.data if self.payload else None
        return Reply(
            success=self.success is True,
            error=self.error.message if self.error else None,
            warnings=self.warnings or (),
            data=UNSET if data is None else cast("JsonValue", data),  # as the codec made it
            matches=self.matches is True,
            reason=self.reason,
            result=cast("JsonValue", self.result),  # likewise
            result_kind=self.result_kind,
        )


_JOIN = msgspec.json.Decoder(Join)
_random = Random()  # noqa: S311  # event ids are no secrets, and asking the system for each costs as much as the whole event


def _event_id() -> str:
    """A version 4 UUID (RFC 9562 §5.4)."""
    digits = f"{_random.getrandbits(128):032x}"
    return (
        f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
    )


def _request(callout: Callout) -> CloudEvent:
    event = new_event(REQUESTS[callout.kind], msgspec.json.encode(_request_members(callout)))
    for name, text in _attributes(callout.principal, callout.tx_token):
        event.attributes[name].ce_string = text
    return event


def _request_members(callout: Callout) -> dict[str, object]:
    """The request as spec/grpc.md §14 lays it out; the payload is JSON already and goes in as it is."""
    members: dict[str, object] = {
        "id": callout.request_id,
        "success": True,
        "requestId": callout.request_id,
        "entityId": callout.entity_id,
        f"{callout.kind}Id": callout.name,
        f"{callout.kind}Name": callout.name,
        "workflow": {"id": callout.workflow, "name": callout.workflow},
        "transition": {
            "id": callout.transition,
            "name": callout.transition,
            "stateFrom": callout.state_from,
            "stateTo": callout.state_to,
        },
        "transactionId": callout.transaction_id,
    }
    if callout.target:
        members["target"] = callout.target
    if callout.parameters:
        members["parameters"] = callout.parameters
    if callout.payload is not None:
        members["payload"] = msgspec.Raw(callout.payload)
    return members


def _attributes(principal: Principal, tx_token: str | None) -> list[tuple[str, str]]:
    """On whose behalf the callout runs, and the token that lets callbacks join its transaction (spec/grpc.md §2)."""
    attributes = [("authtype", principal.kind), ("authid", principal.id)]
    if principal.roles:
        attributes.append(("authclaims", ",".join(principal.roles)))
    if tx_token is not None:
        attributes.append(("cyodatxtoken", tx_token))
    return attributes


def _member_event(event_type: str, members: dict[str, str]) -> CloudEvent:
    return new_event(event_type, msgspec.json.encode({**members, "success": True}))
