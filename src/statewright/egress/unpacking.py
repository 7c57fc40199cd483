"""Bodies of responses: no longer than permitted, packed or not.

Responses are asked for as they are. A server that packs its own all the same is understood, within the same limit: a
few bytes of gzip can stand for gigabytes, so they are unpacked in small steps.
"""

import asyncio
import zlib
from collections.abc import AsyncIterable, AsyncIterator
from typing import Final

from statewright.egress.connecting import Refused
from statewright.egress.messages import HttpFailure

_STEP_BYTES: Final = 64 * 1024
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


async def read_body(parts: AsyncIterable[bytes], encoding: str, max_bytes: int) -> bytes:
    """The whole body, unpacked. Raises ``Refused`` for one of more than ``max_bytes``, and for other encodings than
    gzip and deflate.
    """
    body = bytearray()
    async for part in parts if encoding in {"", "identity"} else _unpack(parts, encoding):
        body += part
        if len(body) > max_bytes:
            raise Refused(HttpFailure(reason="body_too_large", detail=f"more than {max_bytes} bytes", was_sent=True))
    return bytes(body)


async def _unpack(parts: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    if encoding not in _WINDOWS:
        detail = "the response is neither plain nor packed by gzip or deflate"
        raise Refused(HttpFailure(reason="encoding_unsupported", detail=detail, was_sent=True))
    unpacker = zlib.decompressobj(_WINDOWS[encoding])
    async for part in parts:
        packed = part
        while packed and not unpacker.eof:
            try:
                yield unpacker.decompress(packed, _STEP_BYTES)
            except zlib.error:
                raise Refused(_describe_malformed("the response is packed badly")) from None
            packed = unpacker.unconsumed_tail
            await asyncio.sleep(0)
    if not unpacker.eof:
        raise Refused(_describe_malformed("the packed response ends early"))


def _describe_malformed(detail: str) -> HttpFailure:
    return HttpFailure(reason="response_malformed", detail=detail, was_sent=True)
