"""Messages within a stream: five octets in front of each say whether it is compressed and how long it is.

Source: "Length-Prefixed-Message" in the protocol description "gRPC over HTTP2".
"""

import zlib
from struct import Struct
from typing import Final

_PREFIX: Final = Struct(">BI")

WINDOW_BITS: Final = {"gzip": 31, "deflate": 15}
"""What messages may be compressed with, as zlib knows it. ``deflate`` has a zlib header (RFC 9110 §8.4.1.2)."""

IDENTITY: Final = "identity"


class MessageTooLarge(ValueError):
    """A message is longer than it may be."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"received message larger than max ({size} vs. {limit})")


class UnreadableMessage(ValueError):
    """What came is no message, or cannot be decompressed."""


def frame_message(message: bytes) -> bytes:
    """A message as it goes over a stream, uncompressed."""
    return _PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Puts the messages of one stream together. ``limit`` is the longest in bytes, decompressed ones included."""

    __slots__ = ("_encoding", "_limit", "_missing", "_partial")

    def __init__(self, *, limit: int, encoding: str = IDENTITY) -> None:
        self._limit = limit
        self._encoding = encoding
        self._partial = bytearray()
        self._missing = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of a message that has not come completely."""
        return len(self._partial)

    def feed(self, part: bytes) -> list[bytes]:
        """The messages that are complete with this part, in order.

        Raises :class:`MessageTooLarge` as soon as the length is known, and :class:`UnreadableMessage`.
        """
        if self._partial:
            self._partial += part
            if len(part) < self._missing:
                self._missing -= len(part)
                return []
            part = bytes(self._partial)
            self._partial.clear()
        messages: list[bytes] = []
        at, end = 0, len(part)
        self._missing = _PREFIX.size
        while end - at >= _PREFIX.size:
            compressed, size = _PREFIX.unpack_from(part, at)
            if size > self._limit:
                raise MessageTooLarge(size, self._limit)
            after = at + _PREFIX.size + size
            if after > end:
                self._missing = _PREFIX.size + size
                break
            body = part[at + _PREFIX.size : after]
            messages.append(self._decompress(body, compressed) if compressed else body)
            at = after
        self._partial += part[at:]
        self._missing -= end - at
        return messages

    def _decompress(self, body: bytes, flag: int) -> bytes:
        bits = WINDOW_BITS.get(self._encoding)
        if flag != 1 or bits is None:
            raise UnreadableMessage("a message is marked as compressed, and nothing was said of how")
        inflating = zlib.decompressobj(wbits=bits)
        try:
            message = inflating.decompress(body, self._limit + 1)
        except zlib.error as error:
            raise UnreadableMessage(f"a message cannot be decompressed: {error}") from error
        if len(message) > self._limit:
            raise MessageTooLarge(len(message), self._limit)
        if not inflating.eof:
            raise UnreadableMessage("a message ends in the middle of its compressed data")
        if inflating.unused_data:
            raise UnreadableMessage("a message goes on after its compressed data")
        return message
