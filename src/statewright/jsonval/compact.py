"""JSON text without insignificant white space, a piece at a time, digits and order of members untouched.

The text is known to be valid. It is cut anywhere but behind a backslash, and one bit goes from piece to piece: whether
the cut is inside a string. A piece that begins inside one is read as if it began with the missing quote.
"""

import re
from collections.abc import Iterator
from typing import Final

PIECE_BYTES: Final = 64 * 1024

_WHITE: Final = b" \t\n\r"
_ANY_WHITE = re.compile(rb"[ \t\n\r]")
# White space leads to what follows it, so that a long run of it costs one step; at the end nothing would follow.
_KEPT = re.compile(rb'[ \t\n\r]*((?:[^ \t\n\r"]+|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z))+)', re.DOTALL)
_ESCAPE = re.compile(rb"\\.", re.DOTALL)


def compacted(text: memoryview, *, size: int = PIECE_BYTES) -> Iterator[bytes]:
    """The pieces, none of them empty, and none longer than ``size``, which is at least 2."""
    start, inside = 0, False
    while start < len(text):
        piece = _cut(bytes(text[start : start + size]))
        start += len(piece)
        ends_inside = inside ^ (_quotes(piece) % 2 == 1)
        if kept := _kept(piece, inside, ends_inside):
            yield kept
        inside = ends_inside


def _cut(piece: bytes) -> bytes:
    """Without a backslash at the end that belongs to what follows."""
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece[:-1] if backslashes % 2 else piece


def _quotes(piece: bytes) -> int:
    """How many begin or end a string."""
    return (_ESCAPE.sub(b"", piece) if b"\\" in piece else piece).count(b'"')


def _kept(piece: bytes, begins_inside: bool, ends_inside: bool) -> bytes:
    if not _ANY_WHITE.search(piece):
        return piece
    opened = b'"' + piece if begins_inside else piece
    return b"".join(_KEPT.findall(opened if ends_inside else opened.rstrip(_WHITE)))[begins_inside:]
