"""Answers that are sent while they are made.

Until the first part is there nothing is sent, so that a failure can still become a problem document. After that the
status is out: a failure then cuts the connection, or the client would take half an answer for a whole one. Either way
the source of the parts is closed, also when the client goes away in the middle.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Self

import structlog

from statewright.api.http.cycle import LIFELINE, Cycle, Headers
from statewright.api.http.exchange import Scope, Send

log = structlog.get_logger(__name__)


class Begun:
    """Parts of a body, of which the first is there already."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes]) -> None:
        self._first: bytes | None = first
        self._rest = rest

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        first, self._first = self._first, None
        return await anext(self._rest) if first is None else first

    async def aclose(self) -> None:
        """Let go of what the source holds; a source that holds nothing need not have anything to close."""
        close = getattr(self._rest, "aclose", None)
        if close is not None:
            await close()


async def begun(parts: AsyncIterator[bytes]) -> Begun:
    """Waits for the first part. Raises what making it raises; the source is closed then."""
    try:
        return Begun(await anext(parts, b""), parts)
    except BaseException:
        await Begun(b"", parts).aclose()
        raise


async def stream(body: AsyncIterator[bytes], status: int, headers: Headers, scope: Scope, send: Send) -> None:
    """Send an answer in parts. A failure in the middle is logged, and cuts the connection."""
    lifeline: Cycle | None = scope.get("extensions", {}).get(LIFELINE)
    async with aclosing(body if isinstance(body, Begun) else Begun(b"", body)) as parts:
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            async for part in parts:
                if lifeline is not None and lifeline.is_lost:
                    return
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except BaseException as error:
            if lifeline is None:  # a server that is not ours cuts off what ends so
                raise
            lifeline.cut()
            if not isinstance(error, Exception):
                raise
            log.error("answer_cut_off", method=scope["method"], path=scope["path"], error=repr(error))  # noqa: TRY400
