"""Files of lines, compressed when their name ends with ``.gz``, and how far one that was broken off has got.

A compressed file is a sequence of gzip members, one for each portion that was written; together they are one gzip file
(RFC 1952 §2.2). So a member that is not complete can be cut off, and the next one written behind the others.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

CHUNK = 1 << 20
GZIP = 16 + zlib.MAX_WBITS


def is_compressed(path: Path) -> bool:
    """Whether the name says so, that of an unfinished file included."""
    return path.name.removesuffix(".part").endswith(".gz")


def append(path: Path, portion: bytes) -> None:
    """Write whole lines at the end."""
    with path.open("ab") as file:
        file.write(gzip.compress(portion, 6, mtime=0) if is_compressed(path) else portion)


def cut_to_whole_lines(path: Path) -> bytes | None:
    """Drop what was not written to its end; the last line that is left, None when there is none."""
    with path.open("r+b") as file:
        end, last = _whole_members(file) if is_compressed(path) else _whole_lines(file)
        file.truncate(end)
    return last


def _whole_lines(file: BinaryIO) -> tuple[int, bytes | None]:
    lines, end = _Lines(), 0
    while chunk := file.read(CHUNK):
        end += len(chunk)
        lines.feed(chunk)
    return end - len(lines.rest), lines.last


def _whole_members(file: BinaryIO) -> tuple[int, bytes | None]:
    lines, last = _Lines(), None
    end = position = 0
    member = zlib.decompressobj(GZIP)
    while data := file.read(CHUNK):
        while data:
            try:
                lines.feed(member.decompress(data))
            except zlib.error:
                return end, last
            position += len(data) - len(member.unused_data)
            data = member.unused_data
            if member.eof:
                end, last, member = position, lines.last, zlib.decompressobj(GZIP)
    return end, last


class _Lines:
    """Remembers the last whole line of what it is fed, and what came after it."""

    def __init__(self) -> None:
        self.last: bytes | None = None
        self.rest = b""

    def feed(self, text: bytes) -> None:
        *whole, self.rest = (self.rest + text).split(b"\n")
        if whole:
            self.last = whole[-1]


class Reading:
    """The lines of a file that is being read, and how many bytes of it were needed for them."""

    def __init__(self, raw: BinaryIO, text: BinaryIO) -> None:
        self._raw = raw
        self._text = text

    @property
    def position(self) -> int:
        return self._raw.tell()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._text)


@contextmanager
def reading(path: Path) -> Iterator[Reading]:
    """The file, opened. Raises ``OSError``, ``EOFError`` for a compressed one that was cut off."""
    with path.open("rb", buffering=CHUNK) as raw:
        if is_compressed(path):
            with gzip.GzipFile(fileobj=raw) as file, io.BufferedReader(file, CHUNK) as text:
                yield Reading(raw, text)
        else:
            yield Reading(raw, raw)
