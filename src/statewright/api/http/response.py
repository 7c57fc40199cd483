"""Responses: how they are sent, and what the bodies of the entity API are, byte by byte.

Nothing of a response in parts is sent before the first part is there, so that a failure can still become an error
document. After that the status is out: a failure then tears the response, or the client would take half of it for the
whole. Either way the source of the parts is closed, also when the client goes away in the middle.

Bodies are compact JSON with ascending keys and one trailing newline (docs/reference/entities.md#media-types).

What an answer says beside its body, in ``Warning`` headers (docs/reference/entities.md#warnings).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import lru_cache, partial
from typing import Final, Self

import msgspec
from msgspec import Struct

from statewright.api.http.asgi import (
    ClientGone,
    Message,
    Receive,
    ResponseTorn,
    Scope,
    Send,
    cancel_on_disconnect,
)
from statewright.api.http.security import Headers
from statewright.entity import EntityView, ModelKey
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import decode_stored, encode, encode_large, escape_line_ends
from statewright.loop.background import MAX_INLINE_BYTES, TimeSlices, run_by_size
from statewright.loop.turns import take_apart
from statewright.services.writing import Saved
from statewright.telemetry import logs

MAX_WARNING_BYTES: Final = 1000
"""Bytes of the text of one."""

MAX_TOTAL_BYTES: Final = 3000
"""Bytes of all texts together: proxies have limits for a head. What is beyond is left out."""


def build_warning_headers(texts: Iterable[str]) -> Headers:
    """A header for each of the texts, as far as they find room."""
    return tuple(_build_headers(texts))


def _build_headers(texts: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
    size = 0
    for text in texts:
        header = _build_header(text[:MAX_WARNING_BYTES])
        size += len(header[1])
        if size > MAX_TOTAL_BYTES:
            return
        yield header


@lru_cache(maxsize=64)
def _build_header(text: str) -> tuple[bytes, bytes]:
    # A header is ASCII on one line, and the text a quoted string in it.
    told = text.encode("unicode_escape")[:MAX_WARNING_BYTES].replace(b'"', b"'")
    return b"warning", b'299 - "%b"' % told


JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

_WITHOUT_LENGTH: Final = frozenset({204, 304})

log = logs.logger(__name__)


class Response(Struct, frozen=True):
    """What goes back to the client: a body, or the parts of one that is too long to be held."""

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    media_type: str = JSON
    headers: Headers = ()
    limit: "SendLimit | None" = None
    """On a client that does not take what is sent in parts."""


CLIENT_GONE: Final = Response(b"", 499, TEXT)
"""Never sent; the status is what access logs of proxies say for it."""


class PrimedStream:
    """Parts of a body, of which the first is there already."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self._first: bytes | None = first
        self._rest = rest

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        first, self._first = self._first, None
        return await anext(self._rest) if first is None else first

    async def aclose(self) -> None:
        """Let go of what the source holds; a source that holds nothing need not have anything to close."""
        close = getattr(self._rest, "aclose", None)
        if close is not None:
            await close()


async def prime_stream(parts: AsyncIterator[bytes]) -> PrimedStream:
    """Waits for the first part. Raises what making it raises; the source is closed then."""
    try:
        return PrimedStream(await anext(parts, b""), parts)
    except BaseException:
        await PrimedStream(b"", parts).aclose()
        raise


async def send_response(response: Response, extra: Headers, scope: Scope, receive: Receive, send: Send) -> int:
    """Send a response with additional headers; its status. Raises ``ResponseTorn``."""
    if response is CLIENT_GONE:
        return response.status
    headers = [*extra, *response.headers]
    if response.media_type:
        headers.append((b"content-type", response.media_type.encode()))
    is_head = scope["method"] == "HEAD"
    if isinstance(response.body, bytes):
        if response.status not in _WITHOUT_LENGTH:
            headers.append((b"content-length", b"%d" % len(response.body)))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else response.body})
    elif is_head:
        await PrimedStream(b"", response.body).aclose()
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
    else:
        if response.limit is not None:
            send = response.limit.wrap(send)
        await stream_response(response.body, response.status, headers, scope, receive, send)
    return response.status


class StreamNotRead(Exception):
    """The client does not take the response."""


class SendLimit:
    """How many ``seconds`` a client may take nothing of a response in parts; who makes the parts may end it before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._sending: asyncio.Timeout | None = None

    def wrap(self, send: Send) -> Send:
        """``send``, which raises ``StreamNotRead`` in time."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._seconds) as self._sending:
                    await send(message)
            except TimeoutError:
                raise StreamNotRead from None
            finally:
                self._sending = None

        return send_in_time

    def expire(self) -> None:
        """End what is being sent now, if anything is."""
        if self._sending is not None:
            self._sending.reschedule(asyncio.get_running_loop().time())


async def stream_response(
    body: AsyncIterator[bytes],
    status: int,
    headers: Sequence[tuple[bytes, bytes]],
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Send a response in parts. A failure in the middle is logged; raises ``ResponseTorn`` then."""
    async with aclosing(body if isinstance(body, PrimedStream) else PrimedStream(b"", body)) as parts:
        try:
            with cancel_on_disconnect(receive):
                await send({"type": "http.response.start", "status": status, "headers": headers})
                async for part in parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except ClientGone:
            return
        except StreamNotRead:
            log.info("stream_not_read", path=scope["path"])
            raise ResponseTorn from None
        except Exception as error:
            log.error("answer_cut_off", method=scope["method"], path=scope["path"], error=repr(error))  # noqa: TRY400
            raise ResponseTorn from error


class HeaderAdder:
    """``send`` with headers added to the response, whose ``status`` it remembers."""

    def __init__(self, extra: Headers, send: Send) -> None:
        self.status = 500
        self._extra = extra
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._extra]}
        await self._send(message)


_encode_sorted = msgspec.json.Encoder(order="sorted", decimal_format="number").encode
_encode_in_order = msgspec.json.Encoder(decimal_format="number").encode
_encode_text = msgspec.json.Encoder().encode


def encode_json(value: object) -> bytes:
    """Any value of structs, dicts and scalars."""
    return _encode_sorted(value) + b"\n"


def encode_json_in_order(value: object) -> bytes:
    """Any value, with the members of its objects in the order they are in."""
    return _encode_in_order(value) + b"\n"


def encode_envelope(entity: EntityView, model: ModelKey, *, instant: int | None = None) -> bytes:
    """An entity with its metadata (docs/reference/entities.md#the-envelope); ``instant`` only on a list of the past.

    No trailing newline.
    """
    moment = f'"pointInTime":"{to_rfc3339(instant)}",' if instant is not None else ""
    transition = f',"transitionForLatestSave":{_encode_text(entity.transition).decode()}' if entity.transition else ""
    created = to_rfc3339(entity.created_at)
    updated = created if entity.updated_at == entity.created_at else to_rfc3339(entity.updated_at)
    meta = (
        f'"creationDate":"{created}","id":"{entity.id}",'
        f'"lastUpdateTime":"{updated}",'
        f'"modelKey":{{"name":{_encode_text(model.name).decode()},"version":{model.version}}},{moment}'
        f'"state":{_encode_text(entity.state).decode()},"transactionId":"{entity.transaction_id}"{transition}'
    )
    return b'{"data":%b,"meta":{%b},"type":"ENTITY"}' % (_encode_document(entity.document), meta.encode())


async def encode_envelope_by_size(entity: EntityView, model: ModelKey, *, instant: int | None = None) -> bytes:
    """The same, off the event loop for a large document."""
    size = len(entity.document)
    if size <= MAX_INLINE_BYTES:
        return encode_envelope(entity, model, instant=instant)
    return await run_by_size(size, partial(encode_envelope, entity, model, instant=instant))


PART_BYTES: Final = 256 * 1024
"""Of a body in parts, after which a part ends; the server holds up to five of them for a client that reads slowly."""


class Framing(Struct, frozen=True):
    """What stands before, between and behind the envelopes of a body; without a head, there is none of no envelopes."""

    head: bytes = b"["
    separator: bytes = b","
    tail: bytes = b"]\n"


LIST: Final = Framing()
LINES: Final = Framing(b"", b"\n", b"\n")


async def respond_with_envelopes(
    portions: AsyncGenerator[Sequence[EntityView]],
    model: ModelKey,
    framing: Framing = LIST,
    *,
    media_type: str = JSON,
    instant: int | None = None,
) -> Response:
    """Entities of one model: as a whole if that is short, else in parts that are made as the client takes them."""
    parts = _encode_parts(portions, model, framing, instant)
    first = await anext(parts)
    second = await anext(parts, None)
    if second is None:
        return Response(first, media_type=media_type)
    return Response(_chain_parts((first, second), parts), media_type=media_type)


async def _encode_parts(
    portions: AsyncGenerator[Sequence[EntityView]], model: ModelKey, framing: Framing, instant: int | None
) -> AsyncGenerator[bytes]:
    """The body in parts, at least one; ten thousand entities take a while, in which others get their turn."""
    slices, begin = TimeSlices(), framing.head
    envelopes, size, is_empty = list[bytes](), 0, True
    async with aclosing(portions):
        async for portion in portions:
            for entity in portion:
                envelope = await encode_envelope_by_size(entity, model, instant=instant)
                if framing is LINES:
                    envelope = escape_line_ends(envelope)
                envelopes.append(envelope)
                size, is_empty = size + len(envelope), False
                if size >= PART_BYTES:
                    yield begin + framing.separator.join(envelopes)
                    begin, envelopes, size = framing.separator, [], 0
                await slices.yield_if_due()
    if envelopes:
        yield begin + framing.separator.join(envelopes) + framing.tail
    elif is_empty:
        yield framing.head + framing.tail if framing.head else b""
    else:
        yield framing.tail


async def _chain_parts(known: Iterable[bytes], parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(parts):
        for part in known:
            yield part
        async for part in parts:
            yield part


def encode_saved(saved: Saved) -> bytes:
    """A transaction result (docs/reference/entities.md#transaction-results)."""
    ids = ",".join(f'"{entity_id}"' for entity_id in saved.entity_ids)
    return f'{{"entityIds":[{ids}],"transactionId":"{saved.transaction_id}"}}\n'.encode()


async def respond_saved(saved: Saved) -> Response:
    """The response to the write of an entity."""
    return Response(encode_saved(saved), headers=build_warning_headers(saved.warnings))


def _encode_document(stored: str) -> bytes:
    """A stored document with its keys in order."""
    value = decode_stored(stored)
    if len(stored) <= MAX_INLINE_BYTES:
        return encode(value)
    encoded, values = encode_large(value), [value] if isinstance(value, list | dict) else []
    del value
    take_apart(values)
    return encoded
