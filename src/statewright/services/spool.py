"""A request body on its way: short ones in memory, long ones in a file without a name.

A message may be ten mebibytes long and many may arrive at once. What is beyond ``IN_MEMORY`` is kept where the
operating system can move it out of the way; a map of the file is as good to read as bytes are.
"""

import codecs
import mmap
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final, Self

IN_MEMORY: Final = 256 * 1024
"""Bytes."""


class NotUtf8(ValueError):
    """The bytes are no text."""


class Spool:
    """UTF-8 text that is written once and then read; to be used in a ``with`` block."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed on leaving the block
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

    def text(self) -> memoryview:
        """All of it. Raises ``NotUtf8`` when the end is cut off. Valid for longer than the spool."""
        self._verify(b"", final=True)
        if self.size <= IN_MEMORY:
            self._file.seek(0)
            return memoryview(self._file.read())
        self._file.flush()
        return memoryview(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))

    def _verify(self, part: bytes, *, final: bool = False) -> None:
        try:
            self._check(part, final)
        except UnicodeDecodeError as error:
            raise NotUtf8(f"not UTF-8: {error.reason}") from error
