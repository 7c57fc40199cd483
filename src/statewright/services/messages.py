"""Use cases of edge messages (spec/entities.md §18). They take no part in transactions.

A payload is never held as a whole: the request body is spooled, checked where it lies, and copied to the database in
pieces; reading asks for one piece after the other, and holds no connection while the client takes its time.
"""

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from statewright.entity import Principal
from statewright.failures import BadRequest, EntityNotFound
from statewright.jsonval.compact import compacted
from statewright.services.runtime import Runtime
from statewright.services.spool import Spool
from statewright.storage import messages
from statewright.storage.messages import StoredMessage


class Header(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is known of a message besides its body, as it is reported; empty texts were not given."""

    subject: str
    content_type: str
    content_length: int
    content_encoding: str
    message_id: str = ""
    user_id: str = ""
    recipient: str = ""
    reply_to: str = ""
    correlation_id: str = ""


class Receipt(Struct, frozen=True):
    """The ids a new message got; the transaction's is for information only."""

    message: str
    transaction: str


class Reading(Struct, frozen=True):
    """A message, JSON text throughout. ``content`` gives the payload in pieces, of which there are ``pieces``."""

    header: bytes
    metadata: bytes
    content: AsyncIterator[bytes]
    pieces: int


class MessageGone(Exception):
    """A message was deleted while it was being read; the answer cannot be completed."""


class _Body(Struct):
    payload: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = msgspec.field(default=UNSET, name="metaData")


_decode = msgspec.json.Decoder(_Body).decode
_encode = msgspec.json.Encoder(order="sorted").encode


async def create(runtime: Runtime, principal: Principal, header: Header, body: Spool) -> Receipt:
    """Store a message. Raises ``BadRequest`` for a body that is no object with a payload."""
    content = _read(body)
    if isinstance(content.payload, UnsetType):
        raise BadRequest("payload is required")
    message = StoredMessage(
        tenant=principal.tenant,
        id=runtime.ids(),
        header=_encode(header).decode(),
        metadata=_metadata(content.metadata),
    )
    await messages.store(runtime.pool, message, compacted(memoryview(content.payload)))
    return Receipt(message.id, runtime.ids.transaction())


async def read(runtime: Runtime, principal: Principal, message_id: str) -> Reading:
    """A message. Raises ``EntityNotFound``."""
    message = await messages.read(runtime.pool, principal.tenant, message_id)
    if message is None:
        raise _not_found(message_id)
    return Reading(message.header.encode(), message.metadata, _content(runtime, message), message.pieces)


async def delete(runtime: Runtime, principal: Principal, message_id: str) -> None:
    """Delete one message. Raises ``EntityNotFound``."""
    if not await messages.delete(runtime.pool, principal.tenant, [message_id]):
        raise _not_found(message_id)


async def delete_all(runtime: Runtime, principal: Principal, message_ids: Sequence[str]) -> None:
    """Delete those of the messages that exist."""
    if message_ids:
        await messages.delete(runtime.pool, principal.tenant, message_ids)


async def _content(runtime: Runtime, message: StoredMessage) -> AsyncIterator[bytes]:
    yield message.content
    for n in range(1, message.pieces):
        piece = await messages.piece(runtime.pool, message.tenant, message.id, n)
        if piece is None:
            raise MessageGone(message.id)
        yield piece


def _read(body: Spool) -> _Body:
    try:
        return _decode(body.text())
    except (ValueError, RecursionError) as malformed:  # what msgspec raises is a ValueError, and so is NotUtf8
        raise BadRequest(f"invalid JSON: {malformed}") from malformed


def _metadata(given: Raw | UnsetType) -> bytes:
    if isinstance(given, UnsetType):
        return b"{}"
    metadata = b"".join(compacted(memoryview(given)))
    if not metadata.startswith(b"{"):
        raise BadRequest("metaData must be an object")
    return metadata


def _not_found(message_id: str) -> EntityNotFound:
    return EntityNotFound(f"message id={message_id} not found", {"messageId": message_id})
