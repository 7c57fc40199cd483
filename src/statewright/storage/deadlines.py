"""Limits of time for very many short pieces of work.

``asyncio.timeout`` sets a timer of the event loop for each, which takes longer than much of what it limits. Here all
have the same span, so they end in the order in which they began, and one timer, set for the first of them, will do.
"""

import asyncio
from types import TracebackType
from typing import Self


class Deadlines:
    """Limits of one span. To be used within one event loop."""

    def __init__(self, span_s: float) -> None:
        self.span_s = span_s
        self._running: dict[asyncio.Timeout, float] = {}  # when each will be over, the first one first
        self._timer: asyncio.TimerHandle | None = None

    def limit(self) -> "Limit":
        """``async with`` it: after the span the block is cancelled, and ``TimeoutError`` raised at its end."""
        return Limit(self)

    def begin(self, timeout: asyncio.Timeout) -> None:
        """The span of a timeout that has been entered begins now."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.span_s
        self._running[timeout] = end
        if self._timer is None:
            self._timer = loop.call_at(end, self._look)

    def end(self, timeout: asyncio.Timeout) -> None:
        """It is over."""
        self._running.pop(timeout, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._running:
            timeout, end = next(iter(self._running.items()))
            if end > now:
                break
            del self._running[timeout]
            timeout.reschedule(now)
        first = next(iter(self._running.values()), None)
        self._timer = None if first is None else loop.call_at(first, self._look)


class Limit:
    """One limit."""

    __slots__ = ("_deadlines", "_timeout")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._deadlines.begin(self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.end(self._timeout)
        await self._timeout.__aexit__(kind, error, trace)
