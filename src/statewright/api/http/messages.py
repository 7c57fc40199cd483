"""Edge messages over REST (docs/reference/entities.md#edge-messages)."""

import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

from msgspec import ValidationError as WrongType
from msgspec import convert

from statewright.api.http.declaration import Subject
from statewright.api.http.request import MAX_BODY_BYTES, Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import TIMEOUT
from statewright.failures import BadRequest, BodyTooLarge, InvalidParameter
from statewright.jsonval.codec import MalformedJson, decode
from statewright.loop.turns import use_once
from statewright.operations.entity_answers import DeletedMessage, DeletedMessages, WrittenTransaction
from statewright.operations.records import QueryParameter
from statewright.services import messages
from statewright.services.messages import Header, MessageReading, NotUtf8, TempFile

_MESSAGES: Final = Subject(tag="Messages", recording="transaction", problems=("BAD_REQUEST",))

MAX_IDS: Final = 10_000
"""Messages that one request deletes."""

_INT64: Final = 2**63
_INT64_DIGITS: Final = len(str(_INT64))
_OPTIONAL_HEADERS: Final = {
    "message_id": b"x-message-id",
    "user_id": b"x-user-id",
    "recipient": b"x-recipient",
    "reply_to": b"x-reply-to",
    "correlation_id": b"x-correlation-id",
}

_TO_ESCAPE: Final = re.compile(rb'["\\\x00-\x1f]')
_ESCAPED: Final = {bytes([code]): b"\\u%04x" % code for code in range(0x20)} | {b'"': b'\\"', b"\\": b"\\\\"}
"""What JSON does not let stand in a string, and how it is written there."""


@_MESSAGES.declare(
    "POST /message/new/{subject}",
    "newMessage",
    query=(TIMEOUT,),
    headers=(
        "Content-Type",
        "Content-Length",
        "Content-Encoding",
        "X-Message-ID",
        "X-User-ID",
        "X-Recipient",
        "X-Reply-To",
        "X-Correlation-ID",
    ),
    body="NewMessage",
    body_limited=True,
    reply="TransactionResults",
)
async def create_message(request: Request) -> Response:
    """Store an edge message; its headers are kept with it."""
    request.query_int64("transactionTimeoutMillis")
    header = _read_header(request)
    if header.content_length > MAX_BODY_BYTES:
        raise BodyTooLarge(f"request body exceeds {MAX_BODY_BYTES} bytes")
    with TempFile() as spool:
        await _write_to_file(request, spool)
        receipt = await messages.create(request.runtime.core, request.principal, header, spool)
    return Response(encode_json([WrittenTransaction(entity_ids=[receipt.message], transaction_id=receipt.transaction)]))


@_MESSAGES.declare("GET /message/{messageId}", "getMessage", reply="Message", problems=("ENTITY_NOT_FOUND",))
async def read_message(request: Request) -> Response:
    """Read an edge message."""
    reading = await messages.read(request.runtime.core, request.principal, _read_message_id(request))
    parts = _stream_parts(reading, reading.content)
    return Response(b"".join([part async for part in parts]) if reading.pieces == 1 else parts)


@_MESSAGES.declare(
    "GET /message/get/{messageId}", "getMessageAsBefore", reply="MessageWithText", problems=("ENTITY_NOT_FOUND",)
)
async def read_message_as_text(request: Request) -> Response:
    """The same with its content as a text that holds JSON, for older libraries."""
    reading = await messages.read(request.runtime.core, request.principal, _read_message_id(request))
    parts = _stream_parts(reading, _quote(reading.content))
    return Response(b"".join([part async for part in parts]) if reading.pieces == 1 else parts)


@_MESSAGES.declare(
    "DELETE /message/{messageId}", "deleteMessage", reply="DeletedMessage", problems=("ENTITY_NOT_FOUND",)
)
async def delete_message(request: Request) -> Response:
    """Delete an edge message."""
    message_id = _read_message_id(request)
    await messages.delete(request.runtime.core, request.principal, message_id)
    return Response(encode_json(DeletedMessage(entity_ids=[message_id])))


@_MESSAGES.declare(
    "DELETE /message",
    "deleteMessages",
    query=(QueryParameter("transactionSize", "integer", "accepted for compatibility", "int32"),),
    body="Ids",
    body_limited=True,
    reply="DeletedMessages",
)
async def delete_messages(request: Request) -> Response:
    """Delete edge messages by their ids; unknown ones are ignored."""
    request.query_int32("transactionSize", 1000)
    sent = await request.read(_parse_ids)
    await messages.delete_all(request.runtime.core, request.principal, [_parse_message_id(text) for text in sent])
    return Response(encode_json([DeletedMessages(entity_ids=sent, success=True)]))


def _read_header(request: Request) -> Header:
    return Header(
        subject=request.path_params["subject"],
        content_type=_require_header(request, b"content-type"),
        content_length=_parse_length(_require_header(request, b"content-length")),
        content_encoding=_decode_header(request, b"content-encoding") or "UTF-8",
        **{name: _decode_header(request, header) or "" for name, header in _OPTIONAL_HEADERS.items()},
    )


def _require_header(request: Request, name: bytes) -> str:
    value = _decode_header(request, name)
    if value is None:
        raise BadRequest(f"header {name.decode()} is required")
    return value


def _decode_header(request: Request, name: bytes) -> str | None:
    """A header as its sender wrote it: UTF-8 where it can be, else Latin-1 (RFC 9110 §5.5)."""
    value = request.header(name)
    try:
        return None if value is None else value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _parse_length(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > _INT64_DIGITS or int(text) >= _INT64:
        raise BadRequest("header content-length is no length")
    return int(text)


async def _write_to_file(request: Request, spool: TempFile) -> None:
    try:
        async for part in request.parts():
            spool.write(part)
    except NotUtf8 as malformed:
        raise BadRequest(f"invalid JSON: {malformed}") from malformed


async def _stream_parts(reading: MessageReading, content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    yield b'{"content":'
    async for piece in content:
        yield piece
    yield b',"header":%b,"metaData":%b}\n' % (reading.header, reading.metadata)


async def _quote(content: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """JSON as a string of JSON. Pieces may end in the middle of a character, none of whose bytes is escaped then."""
    yield b'"'
    async for piece in content:
        yield _TO_ESCAPE.sub(lambda found: _ESCAPED[found[0]], piece)
    yield b'"'


def _read_message_id(request: Request) -> str:
    return uuid_text("messageId", request.path_params["messageId"])


def _parse_ids(body: bytes) -> list[str]:
    try:
        ids = use_once(decode(body), lambda value: convert(value, list[str]))
    except (MalformedJson, WrongType) as malformed:
        raise BadRequest(f"the body must be an array of message ids: {malformed}") from malformed
    if len(ids) > MAX_IDS:
        raise BadRequest(f"the body has {len(ids)} message ids, {MAX_IDS} are allowed")
    return ids


def _parse_message_id(text: str) -> str:
    try:
        return uuid_text("", text)
    except InvalidParameter as malformed:
        raise BadRequest(f"{text!r} is no message id") from malformed
