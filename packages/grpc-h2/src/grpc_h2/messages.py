"""Messages within a stream: five octets in front of each say whether it is compressed and how long it is.

Source: "Length-Prefixed-Message" in the protocol description "gRPC over HTTP2".
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

_PREFIX: Final = Struct(">BI")

WINDOW_BITS: Final = {"gzip": 31, "deflate": 15}
"""What messages may be compressed with, as zlib knows it. ``deflate`` has a zlib header (RFC 9110 §8.4.1.2)."""

IDENTITY: Final = "identity"

INFLATE_SLICE_BYTES: Final = 256 * 1024
"""Bytes of a message that are inflated at once, which takes zlib almost a millisecond."""


class MessageTooLarge(ValueError):
    """A message is longer than it may be."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"received message larger than max ({size} vs. {limit})")


class UnreadableMessage(ValueError):
    """What came is no message, or cannot be decompressed."""


class InboundMessage(NamedTuple):
    """A message as it came."""

    is_compressed: bool
    body: bytes


def frame_message(message: bytes) -> bytes:
    """A message as it goes over a stream, uncompressed."""
    return _PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Puts the messages of one stream together. ``limit`` is the longest in bytes, inflated ones included."""

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

    def drop_pending(self) -> None:
        """Forget what is not complete."""
        self._partial = bytearray()

    def feed(self, part: bytes) -> list[InboundMessage]:
        """The messages that are complete with this part, in order, as they came.

        Raises :class:`MessageTooLarge` as soon as the length is known, and :class:`UnreadableMessage`.
        """
        if not self._partial:
            return self._split(part)
        self._partial += part
        if len(part) < self._missing:
            self._missing -= len(part)
            return []
        whole, self._partial = self._partial, bytearray()
        return self._split(whole)

    def _split(self, octets: bytes | bytearray) -> list[InboundMessage]:
        messages: list[InboundMessage] = []
        at, end = 0, len(octets)
        self._missing = _PREFIX.size
        with memoryview(octets) as view:
            while end - at >= _PREFIX.size:
                flag, size = _PREFIX.unpack_from(view, at)
                if size > self._limit:
                    raise MessageTooLarge(size, self._limit)
                if flag > 1 or (flag and self._encoding not in WINDOW_BITS):
                    raise UnreadableMessage("a message is marked as compressed, and nothing was said of how")
                after = at + _PREFIX.size + size
                if after > end:
                    self._missing = _PREFIX.size + size
                    break
                messages.append(InboundMessage(flag == 1, bytes(view[at + _PREFIX.size : after])))
                at = after
            self._partial += view[at:]
        self._missing -= end - at
        return messages

    def inflate(self, body: bytes) -> Iterator[bytes]:
        """A compressed message in slices of at most ``INFLATE_SLICE_BYTES``.

        Raises :class:`MessageTooLarge` and :class:`UnreadableMessage`.
        """
        inflating = zlib.decompressobj(wbits=WINDOW_BITS[self._encoding])
        size, rest = 0, body
        while not inflating.eof:
            try:
                part = inflating.decompress(rest, min(INFLATE_SLICE_BYTES, self._limit + 1 - size))
            except zlib.error as error:
                raise UnreadableMessage(f"a message cannot be decompressed: {error}") from error
            rest = inflating.unconsumed_tail
            size += len(part)
            if size > self._limit:
                raise MessageTooLarge(size, self._limit)
            if not part and not inflating.eof:
                raise UnreadableMessage("a message ends in the middle of its compressed data")
            yield part
        if inflating.unused_data:
            raise UnreadableMessage("a message goes on after its compressed data")
