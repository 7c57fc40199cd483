"""Callouts as the server makes them, and what functions answer."""

import uuid
from typing import Final, TypedDict

import msgspec
from msgspec import Struct

from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.sdk.context import Caller
from statewright.sdk.functions import Kind
from statewright.sdk.operations import Entity
from statewright.sdk.outcomes import encode_json
from statewright.sdk.testing.handlers import build_meta
from statewright.sdk.testing.store import Request
from statewright.sdk.wire import KINDS


class Place(Struct, frozen=True, kw_only=True):
    """What a callout says besides the entity.

    ``joins``: whether it carries a transaction token. Without one, as under a plain ``COMMIT_BEFORE_DISPATCH``, what
    the function writes stays even if it fails.
    """

    workflow: str = ""
    transition: str = ""
    state_to: str = ""
    parameters: str = ""
    principal: Caller = Caller(id="tester", kind="user")
    joins: bool = True
    attached: bool = True


class _Error(Struct):
    code: str = ""
    message: str = ""
    retryable: bool = True


class _Payload(Struct):
    data: msgspec.Raw


class CalloutAnswer(Struct, rename="camel"):
    """The answer of a function, of whatever kind."""

    success: bool
    error: _Error = msgspec.field(default_factory=_Error)
    warnings: tuple[str, ...] = ()
    payload: _Payload | None = None
    matches: bool = False
    reason: str = ""
    result: msgspec.Raw = msgspec.Raw()


decode_response = msgspec.json.Decoder(CalloutAnswer).decode


class Common(TypedDict):
    """What the outcomes of all kinds have."""

    success: bool
    error: str
    error_code: str
    warnings: tuple[str, ...]
    requests: tuple[Request, ...]
    exception: Exception | None
    retryable: bool


class Invocation(Struct, frozen=True):
    """The answer of a function, its requests, and what it raised."""

    response: CalloutAnswer
    requests: tuple[Request, ...]
    exception: Exception | None

    @property
    def common(self) -> Common:
        """What the outcome of every kind tells."""
        response = self.response
        return Common(
            success=response.success,
            error=response.error.message,
            error_code=response.error.code,
            warnings=response.warnings,
            requests=self.requests,
            exception=self.exception,
            retryable=response.error.retryable,
        )


def build_request(kind: Kind, name: str, entity: Entity, at: Place, transaction_id: str) -> CloudEvent:
    """The callout as the server sends it (docs/reference/grpc.md#callouts)."""
    request_id = str(uuid.uuid1())
    members: dict[str, object] = {
        "id": request_id,
        "requestId": request_id,
        "entityId": entity.id,
        NAME_MEMBERS[kind]: name,
        "workflow": {"id": at.workflow, "name": at.workflow},
        "transition": {"name": at.transition, "stateFrom": entity.state, "stateTo": at.state_to},
        "transactionId": transaction_id if at.joins else "",
        "parameters": at.parameters,
    }
    if at.attached:
        members["payload"] = {"type": "JSON", "data": entity.data, "meta": build_meta(entity)}
    event = CloudEvent(id=request_id, source="cyoda", spec_version="1.0", type=EVENT_TYPES[kind])
    event.text_data = encode_json(members).decode()
    attributes = {"authid": at.principal.id, "authtype": at.principal.kind, "authclaims": ",".join(at.principal.roles)}
    for attribute, text in attributes.items():
        event.attributes[attribute].ce_string = text
    if at.joins:
        event.attributes["cyodatxtoken"].ce_string = transaction_id
    return event


NAME_MEMBERS: Final[dict[Kind, str]] = {
    "processor": "processorName",
    "criteria": "criteriaName",
    "function": "functionName",
}
EVENT_TYPES: Final = {kind: event_type for event_type, kind in KINDS.items()}
