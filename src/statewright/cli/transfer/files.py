"""Files of lines, compressed when their name ends with ``.gz``, and the end of what was written of unfinished ones.

A compressed file is a sequence of gzip members, one for each portion that was written; together they are one gzip file
(RFC 1952 §2.2). So a member that is not complete can be cut off, and the next one written behind the others.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 1 << 20
GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS


def is_compressed(path: Path) -> bool:
    """Whether the name says so, that of an unfinished file included."""
    return path.name.removesuffix(".part").endswith(".gz")


def append(path: Path, portion: bytes) -> None:
    """Write whole lines at the end."""
    with path.open("ab") as file:
        file.write(gzip.compress(portion, 6, mtime=0) if is_compressed(path) else portion)


def cut_to_whole_lines(path: Path) -> bytes | None:
    """Cut off an incomplete last line or gzip member; the last line that is left, None when there is none."""
    with path.open("r+b") as file:
        end, last = _scan_members(file) if is_compressed(path) else _scan_lines(file)
        file.truncate(end)
    return last


def _scan_lines(file: BinaryIO) -> tuple[int, bytes | None]:
    lines, end = _Lines(), 0
    while chunk := file.read(CHUNK_BYTES):
        end += len(chunk)
        lines.feed(chunk)
    return end - len(lines.rest), lines.last


def _scan_members(file: BinaryIO) -> tuple[int, bytes | None]:
    lines, last = _Lines(), None
    end = position = 0
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    while data := file.read(CHUNK_BYTES):
        while data:
            try:
                lines.feed(member.decompress(data))
            except zlib.error:
                return end, last
            position += len(data) - len(member.unused_data)
            data = member.unused_data
            if member.eof:
                end, last, member = position, lines.last, zlib.decompressobj(GZIP_WINDOW_BITS)
    return end, last


class _Lines:
    """Finds the last whole line of a text that comes in pieces, and what follows it."""

    def __init__(self) -> None:
        self.last: bytes | None = None
        self.rest = b""

    def feed(self, text: bytes) -> None:
        *whole, self.rest = (self.rest + text).split(b"\n")
        if whole:
            self.last = whole[-1]


class LineReader:
    """The lines of a file that is being read; ``position``: bytes of the file, perhaps compressed, read so far."""

    def __init__(self, raw: BinaryIO, text: BinaryIO) -> None:
        self._raw = raw
        self._text = text

    @property
    def position(self) -> int:
        return self._raw.tell()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._text)


@contextmanager
def open_lines(path: Path) -> Iterator[LineReader]:
    """Open the file to read its lines. Raises ``OSError``, and while reading ``EOFError`` for a truncated gzip file."""
    with path.open("rb", buffering=CHUNK_BYTES) as raw:
        if is_compressed(path):
            with gzip.GzipFile(fileobj=raw) as file, io.BufferedReader(file, CHUNK_BYTES) as text:
                yield LineReader(raw, text)
        else:
            yield LineReader(raw, raw)
