"""Edge messages over REST (spec/entities.md §18)."""

from collections.abc import AsyncIterator

from msgspec import ValidationError as WrongType
from msgspec import convert

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import MAX_BODY_BYTES, Answer, Exchange, uuid_text
from statewright.failures import BadRequest, BodyTooLarge, InvalidParameter
from statewright.jsonval.codec import MalformedJson, decode
from statewright.services import messages
from statewright.services.messages import Header, Reading
from statewright.services.spool import NotUtf8, Spool

_INT64 = 2**63
_CALLERS_OWN = {
    "message_id": b"x-message-id",
    "user_id": b"x-user-id",
    "recipient": b"x-recipient",
    "reply_to": b"x-reply-to",
    "correlation_id": b"x-correlation-id",
}


async def create(exchange: Exchange) -> Answer:
    """Store a message."""
    exchange.query_int64("transactionTimeoutMillis")
    header = _header(exchange)
    if header.content_length > MAX_BODY_BYTES:
        raise BodyTooLarge(f"request body exceeds {MAX_BODY_BYTES} bytes")
    with Spool() as spool:
        await _spooled(exchange, spool)
        receipt = await messages.create(exchange.runtime, exchange.principal, header, spool)
    return Answer(json_body([{"entityIds": [receipt.message], "transactionId": receipt.transaction}]))


async def read(exchange: Exchange) -> Answer:
    """A message; one with a long payload is sent as it is read."""
    reading = await messages.read(exchange.runtime, exchange.principal, _message_id(exchange))
    parts = _parts(reading)
    return Answer(b"".join([part async for part in parts]) if reading.pieces == 1 else parts)


async def delete(exchange: Exchange) -> Answer:
    """Delete one message."""
    message_id = _message_id(exchange)
    await messages.delete(exchange.runtime, exchange.principal, message_id)
    return Answer(json_body({"entityIds": [message_id]}))


async def delete_all(exchange: Exchange) -> Answer:
    """Delete messages by their ids, which are echoed as they were sent."""
    exchange.query_int32("transactionSize", 1000)
    sent = _ids(await exchange.body(excess=BodyTooLarge))
    await messages.delete_all(exchange.runtime, exchange.principal, [_canonical(text) for text in sent])
    return Answer(json_body([{"entityIds": sent, "success": True}]))


def _header(exchange: Exchange) -> Header:
    return Header(
        subject=exchange.segments["subject"],
        content_type=_required(exchange, b"content-type"),
        content_length=_length(_required(exchange, b"content-length")),
        content_encoding=_text(exchange, b"content-encoding") or "UTF-8",
        **{name: _text(exchange, header) or "" for name, header in _CALLERS_OWN.items()},
    )


def _required(exchange: Exchange, name: bytes) -> str:
    value = _text(exchange, name)
    if value is None:
        raise BadRequest(f"header {name.decode()} is required")
    return value


def _text(exchange: Exchange, name: bytes) -> str | None:
    """A header as its sender wrote it: UTF-8 where it can be, else Latin-1 (RFC 9110 §5.5)."""
    value = exchange.header(name)
    try:
        return None if value is None else value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _length(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) >= _INT64:
        raise BadRequest("header content-length is no length")
    return int(text)


async def _spooled(exchange: Exchange, spool: Spool) -> None:
    try:
        async for part in exchange.parts(excess=BodyTooLarge):
            spool.write(part)
    except NotUtf8 as malformed:
        raise BadRequest(f"invalid JSON: {malformed}") from malformed


async def _parts(reading: Reading) -> AsyncIterator[bytes]:
    yield b'{"content":'
    async for piece in reading.content:
        yield piece
    yield b',"header":%b,"metaData":%b}\n' % (reading.header, reading.metadata)


def _message_id(exchange: Exchange) -> str:
    return uuid_text("messageId", exchange.segments["messageId"])


def _ids(body: bytes) -> list[str]:
    try:
        return convert(decode(body), list[str])
    except (MalformedJson, WrongType) as malformed:
        raise BadRequest(f"the body must be an array of message ids: {malformed}") from malformed


def _canonical(text: str) -> str:
    try:
        return uuid_text("", text)
    except InvalidParameter as malformed:
        raise BadRequest(f"{text!r} is no message id") from malformed
