"""Limits of time for very many short pieces of work.

``asyncio.timeout`` sets a timer of the event loop for each, which takes longer than much of what it limits. Here all
have the same span, so they end in the order in which they began, and one timer, set for the first of them, will do.
"""

import asyncio
from types import TracebackType


class Deadlines:
    """Limits of one span. To be used within one event loop."""

    def __init__(self, span_s: float) -> None:
        self.span_s = span_s
        self._running: dict[Limit, float] = {}  # when each will be over, the first one first
        self._timer: asyncio.TimerHandle | None = None

    def limit(self) -> "Limit":
        """``with`` it: after the span the block is cancelled, and ``TimeoutError`` raised at its end."""
        return Limit(self)

    def begin(self, limit: "Limit") -> None:
        """The span of a limit begins now."""
        loop = asyncio.get_running_loop()
        end = self._running[limit] = loop.time() + self.span_s
        if self._timer is None:
            self._timer = loop.call_at(end, self._look)

    def end(self, limit: "Limit") -> None:
        """It is over."""
        self._running.pop(limit, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._running:
            limit, end = next(iter(self._running.items()))
            if end > now:
                break
            del self._running[limit]
            limit.expire()
        first = next(iter(self._running.values()), None)
        self._timer = None if first is None else loop.call_at(first, self._look)


class Limit:
    """One limit. It tells its own cancellation from others as ``asyncio.timeout`` does."""

    __slots__ = ("_cancelling", "_deadlines", "_is_expired", "_task")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._is_expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be limited")
        self._task = task
        self._cancelling = task.cancelling()
        self._deadlines.begin(self)

    def expire(self) -> None:
        """Time is up."""
        self._is_expired = True
        self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.end(self)
        if not self._is_expired:
            return
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
