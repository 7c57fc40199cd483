"""What becomes of a request that its client abandons.

A client that goes away while its request waits for a calculation member ends the request: the unit of work is dropped,
as if the call had been cancelled (spec/grpc.md §15.9).
"""

import asyncio
from types import TracebackType
from typing import Final

from statewright.api.http.exchange import ClientGone, Exchange
from statewright.failures import BadRequest

PATIENCE: Final = 0.05
"""Seconds before a request is worth watching for the disconnection of its client; most are answered long before."""

BODY_WITHIN_S: Final = 60.0
"""How long a client may pause while it sends a body."""


class Watch:
    """Looks after a request that takes longer than ``PATIENCE``, which is rare; a ``with`` block around its endpoint.

    A client that goes away ends the block with ``ClientGone``, one that pauses for ``BODY_WITHIN_S`` in the middle of
    the body with ``BadRequest``. The two take turns: there is one stream of messages for both.
    """

    __slots__ = ("_exchange", "_failure", "_progress", "_since", "_task", "_timer", "_watcher")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._watcher: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._progress = 0

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - coroutines run in tasks
        loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] = task
        self._since = loop.time()
        self._timer = loop.call_later(PATIENCE, self._look)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        failure = self._failure
        if failure is not None and isinstance(error, asyncio.CancelledError) and not self._task.uncancel():
            raise failure from error

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._exchange.body_is_read:
            self._watcher = loop.create_task(self._end_when_gone(), name="disconnection-watch")
            return
        if self._exchange.parts_received != self._progress:
            self._progress, self._since = self._exchange.parts_received, loop.time()
        if loop.time() - self._since > BODY_WITHIN_S:
            self._end(BadRequest(f"no part of the request body came for {BODY_WITHIN_S:g} s"))
        else:
            self._timer = loop.call_later(PATIENCE, self._look)

    async def _end_when_gone(self) -> None:
        await self._exchange.disconnected()
        self._end(ClientGone())

    def _end(self, failure: Exception) -> None:
        self._failure = failure
        self._task.cancel()
