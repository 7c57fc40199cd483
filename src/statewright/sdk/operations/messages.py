"""Edge messages: any JSON under an id (docs/reference/entities.md#edge-messages)."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.sdk.operations.calls import Operation, build_call, read_nothing, to_object
from statewright.sdk.outcomes import encode_json


class Message(Struct, frozen=True, kw_only=True):
    """A message. ``header`` has ``subject``, ``contentType`` and what else was sent; ``metadata`` is the sender's."""

    content: JsonValue
    header: JsonObject
    metadata: JsonObject


def send(
    subject: str,
    payload: object,
    *,
    metadata: Mapping[str, object] | None = None,
    message_id: str = "",
    recipient: str = "",
    reply_to: str = "",
    correlation_id: str = "",
) -> Operation[str]:
    """Store a message; its id."""
    named = {
        "X-Message-ID": message_id,
        "X-Recipient": recipient,
        "X-Reply-To": reply_to,
        "X-Correlation-ID": correlation_id,
    }
    given: dict[str, object] = {"payload": payload} | ({} if metadata is None else {"metaData": dict(metadata)})
    headers = {name: value for name, value in named.items() if value}
    call = build_call("send_message", "POST", "/message/new/{}", subject, headers=headers, body=encode_json(given))
    return Operation(call, _read_id)


def get(message_id: str) -> Operation[Message]:
    """The message."""
    return Operation(build_call("get_message", "GET", "/message/{}", message_id), _read_message)


def delete(message_id: str) -> Operation[None]:
    """Delete the message."""
    return Operation(build_call("delete_message", "DELETE", "/message/{}", message_id), read_nothing)


class _Stored(Struct, frozen=True):
    ids: tuple[str, ...] = msgspec.field(name="entityIds")


class _Message(Struct, frozen=True):
    content: msgspec.Raw = msgspec.Raw(b"null")
    header: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.field(name="metaData", default=msgspec.Raw())


_decode_stored = msgspec.json.Decoder(tuple[_Stored]).decode
_decode_message = msgspec.json.Decoder(_Message).decode


def _read_id(body: bytes) -> str:
    [stored] = _decode_stored(body)
    [message_id] = stored.ids
    return message_id


def _read_message(body: bytes) -> Message:
    found = _decode_message(body)
    return Message(
        content=decode(bytes(found.content)), header=to_object(found.header), metadata=to_object(found.metadata)
    )
