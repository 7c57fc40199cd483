"""What an answer says beside its body, in ``Warning`` headers (docs/reference/entities.md#warnings)."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from statewright.api.http.asgi import Headers

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
