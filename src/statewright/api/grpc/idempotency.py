"""Requests with idempotency keys over gRPC (docs/reference/grpc.md#idempotent-requests): where the key stands, what
makes two requests the same, and how stored answers are given.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final, TypeVar

import msgspec
from google.protobuf.message import Message
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from statewright.api.grpc.envelope import new_event, read_by_size
from statewright.api.grpc.payloads import Outcome, Response
from statewright.failures import InvalidParameter
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.operations.idempotency import StoredAnswer, read_key
from statewright.proto.cloudevents_pb2 import CloudEvent
from statewright.services.core import Caller

KEY_ATTRIBUTE: Final = "idempotencykey"
REPLAYED_ATTRIBUTE: Final = "idempotencyreplayed"
KEY_METADATA: Final = "idempotency-key"
REPLAYED_METADATA: Final = "idempotency-replayed"

MEDIA_TYPE: Final = "application/cloudevents-batch+json"
"""Of stored answers; an answer given over HTTP is never the answer to an event."""

T = TypeVar("T")


class _StoredResponse(Struct, frozen=True):
    """A response without the ids that it repeats."""

    type: str
    data: dict[str, Raw]


_decode = msgspec.json.Decoder(list[_StoredResponse]).decode


def find_key(event: CloudEvent) -> str | None:
    """The key of a request; None when it has none. Raises ``InvalidParameter``."""
    if KEY_ATTRIBUTE not in event.attributes:
        return None
    return require_key(event.attributes[KEY_ATTRIBUTE].ce_string, KEY_ATTRIBUTE)


def require_key(text: str, name: str) -> str:
    """A key as it was given under a name. Raises ``InvalidParameter``."""
    key = read_key(text)
    if key is None:
        raise InvalidParameter(name, "1 to 255 visible ASCII characters")
    return key


async def hash_event(method: str, event: CloudEvent, data: str | bytes) -> bytes:
    """What makes two events the same request: method, type, and the payload but for its own id."""

    def compute(text: str | bytes) -> bytes:
        raw = text.encode() if isinstance(text, str) else text
        try:
            value = decode(raw)
        except MalformedJson:  # something follows the payload
            return _hash(method, event.type, raw)
        if isinstance(value, dict):
            value.pop("id", None)
        return _hash(method, event.type, encode(value))

    return await read_by_size(data, compute)


def hash_message(method: str, request: Message) -> bytes:
    """What makes two requests with a message the same."""
    return _hash("workflow.v1", method, request.SerializeToString(deterministic=True))


def _hash(method: str, kind: str, payload: bytes) -> bytes:
    return sha256(b"%s\n%s\n%s" % (method.encode(), kind.encode(), payload)).digest()


def answer_with(caller: Caller, respond: Callable[[T], Outcome]) -> Caller:
    """The caller, for a use case whose result ``respond`` makes the responses of: where the request has an idempotency
    key, they are stored with the effect, and so have to be known before.
    """

    async def compose(result: T) -> StoredAnswer:
        return await encode_outcome(respond(result))

    caller.respond_with(compose)
    return caller


async def encode_outcome(outcome: Outcome) -> StoredAnswer:
    """The responses of an operation as they are stored."""
    return encode_answer([response async for response in outcome.iterate()], outcome.warnings)


def encode_answer(responses: Iterable[Response], warnings: tuple[str, ...] = (), *, status: int = 200) -> StoredAnswer:
    """Responses as they are stored."""
    parts = [
        b'{"type":"%b","data":%b}'
        % (type(each).__name__.encode(), msgspec.json.encode(replace(each, warnings=warnings or UNSET)))
        for each in responses
    ]
    return StoredAnswer(status, MEDIA_TYPE, f"[{b','.join(parts).decode()}]")


def decode_answer(answer: StoredAnswer, correlation: str, *, is_replay: bool) -> list[CloudEvent]:
    """The events of a stored answer, for a request with this id."""
    events = []
    known = Raw(msgspec.json.encode(correlation))
    for stored in _decode(answer.body):
        ids = {name: known for name in ("id", "requestId") if name in stored.data}
        event = new_event(stored.type, msgspec.json.encode({**stored.data, **ids}))
        if is_replay:
            event.attributes[REPLAYED_ATTRIBUTE].ce_string = "true"
        events.append(event)
    return events
