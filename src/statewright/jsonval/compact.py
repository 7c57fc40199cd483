"""Removing insignificant white space from JSON text piece by piece, with digits and order of members untouched.

The text is known to be valid. It is cut anywhere but behind a backslash, and one bit is carried from piece to piece:
whether the cut is inside a string. A piece that begins inside one is read as if it began with the missing quote.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_PIECE_BYTES: Final = 64 * 1024
"""Bytes of a piece, unless the caller chooses another size."""

_WHITE: Final = b" \t\n\r"
_ANY_WHITE: Final = re.compile(rb"[ \t\n\r]")
# White space leads to what follows it, so that a long run of it costs one step; at the end nothing would follow.
_TOKENS: Final = re.compile(rb'[ \t\n\r]*((?:[^ \t\n\r"]+|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z))+)', re.DOTALL)
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)


def compact_json(text: memoryview, *, size: int = MAX_PIECE_BYTES) -> Iterator[bytes]:
    """The compacted text in pieces, none of them empty or longer than ``size`` bytes, which must be at least 2."""
    start, inside = 0, False
    while start < len(text):
        piece = _trim_backslash(bytes(text[start : start + size]))
        start += len(piece)
        ends_inside = inside ^ (_count_quotes(piece) % 2 == 1)
        if kept := _strip_white_space(piece, inside, ends_inside):
            yield kept
        inside = ends_inside


def _trim_backslash(piece: bytes) -> bytes:
    """The piece without a last backslash that escapes the character after it."""
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece[:-1] if backslashes % 2 else piece


def _count_quotes(piece: bytes) -> int:
    """The number of quotes that begin or end a string, escaped ones left out."""
    return (_ESCAPE.sub(b"", piece) if b"\\" in piece else piece).count(b'"')


def _strip_white_space(piece: bytes, begins_inside: bool, ends_inside: bool) -> bytes:
    if not _ANY_WHITE.search(piece):
        return piece
    opened = b'"' + piece if begins_inside else piece
    return b"".join(_TOKENS.findall(opened if ends_inside else opened.rstrip(_WHITE)))[begins_inside:]
