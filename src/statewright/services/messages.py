"""Use cases of edge messages (docs/reference/entities.md#edge-messages). They take no part in transactions.

A payload is never held as a whole: the request body is spooled, checked where it lies, and copied to the database in
pieces; reading asks for one piece after the other, and holds no connection while the client takes its time.

A message may be ten mebibytes long and many may arrive at once. What is beyond ``MAX_IN_MEMORY_BYTES`` is kept in a
file without a name, where the operating system can move it out of the way; a map of the file is as good to read as
bytes are.
"""

import codecs
import mmap
from collections.abc import AsyncIterator, Sequence
from functools import partial
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from statewright.entity import Principal
from statewright.failures import BadRequest, EntityNotFound
from statewright.jsonval.codec import compact_json
from statewright.jsonval.scanning import MalformedJson, require_usable_numbers
from statewright.jsonval.values import extend_path
from statewright.loop.background import run_by_size
from statewright.operations.records import Int64
from statewright.services.core import Core
from statewright.storage import messages
from statewright.storage.messages import StoredMessage

MAX_IN_MEMORY_BYTES: Final = 256 * 1024
"""Bytes."""


class NotUtf8(ValueError):
    """The bytes are no text."""


class TempFile:
    """UTF-8 text that is written once and then read; to be used in a ``with`` block."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=MAX_IN_MEMORY_BYTES)  # noqa: SIM115 - closed on leaving the block
        self._check = codecs.getincrementaldecoder("utf-8")().decode
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, part: bytes) -> None:
        """Append. What has no name needs no disk: no ``await`` is worth it. Raises ``NotUtf8``."""
        self._verify(part)
        self._file.write(part)
        self.size += len(part)

    def read_text(self) -> memoryview:
        """All of it. Raises ``NotUtf8`` when the end is cut off. Valid for longer than the spool."""
        self._verify(b"", final=True)
        if self.size <= MAX_IN_MEMORY_BYTES:
            self._file.seek(0)
            return memoryview(self._file.read())
        self._file.flush()
        return memoryview(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))

    def _verify(self, part: bytes, *, final: bool = False) -> None:
        try:
            self._check(part, final)
        except UnicodeDecodeError as error:
            raise NotUtf8(f"not UTF-8: {error.reason}") from error


class Header(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is known of a message besides its body, as it is reported; empty texts were not given."""

    subject: str
    content_type: str
    content_length: Int64
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


class MessageReading(Struct, frozen=True):
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


class _Content(Struct, frozen=True):
    """A message that was read: its payload as it came, its metadata compacted."""

    payload: memoryview
    metadata: bytes


_decode = msgspec.json.Decoder(_Body).decode
_encode = msgspec.json.Encoder(order="sorted").encode


async def create(core: Core, principal: Principal, header: Header, body: TempFile) -> Receipt:
    """Store a message. Raises ``BadRequest`` for a body that is no object with a payload."""
    content = await run_by_size(body.size, partial(_decode_message, body))
    message = StoredMessage(
        tenant=principal.tenant,
        id=core.ids(),
        header=_encode(header).decode(),
        metadata=content.metadata,
    )
    await messages.store_message(core.pool, message, compact_json(content.payload))
    return Receipt(message.id, core.ids.new_transaction_id())


async def read(core: Core, principal: Principal, message_id: str) -> MessageReading:
    """A message. Raises ``EntityNotFound``."""
    message = await messages.fetch_message(core.pool, principal.tenant, message_id)
    if message is None:
        raise _build_not_found(message_id)
    return MessageReading(message.header.encode(), message.metadata, _read_pieces(core, message), message.pieces)


async def delete(core: Core, principal: Principal, message_id: str) -> None:
    """Delete one message. Raises ``EntityNotFound``."""
    if not await messages.remove_messages(core.pool, principal.tenant, [message_id]):
        raise _build_not_found(message_id)


async def delete_all(core: Core, principal: Principal, message_ids: Sequence[str]) -> None:
    """Delete those of the messages that exist."""
    if message_ids:
        await messages.remove_messages(core.pool, principal.tenant, message_ids)


async def _read_pieces(core: Core, message: StoredMessage) -> AsyncIterator[bytes]:
    yield message.content
    for n in range(1, message.pieces):
        piece = await messages.fetch_piece(core.pool, message.tenant, message.id, n)
        if piece is None:
            raise MessageGone(message.id)
        yield piece


def _decode_message(body: TempFile) -> _Content:
    try:
        content = _decode(body.read_text())
    except (ValueError, RecursionError) as malformed:  # what msgspec raises is a ValueError, and so is NotUtf8
        raise BadRequest(f"invalid JSON: {malformed}") from malformed
    if isinstance(content.payload, UnsetType):
        raise BadRequest("payload is required")
    payload = _require_usable(content.payload, "payload")
    metadata = b"{}" if isinstance(content.metadata, UnsetType) else _compact_metadata(content.metadata)
    return _Content(payload, metadata)


def _require_usable(text: Raw, name: str) -> memoryview:
    try:
        require_usable_numbers(memoryview(text))
    except MalformedJson as malformed:
        step = malformed.path if malformed.path[:1] in ("", "[") else f".{malformed.path}"
        raise BadRequest(f"invalid JSON: {malformed.reason} at {extend_path(name, step)}") from malformed
    return memoryview(text)


def _compact_metadata(given: Raw) -> bytes:
    metadata = b"".join(compact_json(_require_usable(given, "metaData")))
    if not metadata.startswith(b"{"):
        raise BadRequest("metaData must be an object")
    return metadata


def _build_not_found(message_id: str) -> EntityNotFound:
    return EntityNotFound(f"message id={message_id} not found", {"messageId": message_id})
