"""What becomes of a request that its client abandons.

A client that goes away while its request waits for a calculation member ends the request: the unit of work is dropped,
as if the call had been cancelled (spec/grpc.md §15.9). So does one that stops in the middle of the body.
"""

import asyncio
from types import TracebackType

from statewright.api.http.cycle import LIFELINE, Cycle
from statewright.api.http.exchange import ClientGone, Scope


class Watch:
    """A ``with`` block around the endpoint of a request.

    A client that goes away ends the block with ``ClientGone``, one that stops sending with the failure that the
    connection has for it. Under a server without our own connections (``connection.py``) nothing is watched.
    """

    __slots__ = ("_failure", "_lifeline")

    def __init__(self, scope: Scope) -> None:
        self._lifeline: Cycle | None = scope.get("extensions", {}).get(LIFELINE)
        self._failure: Exception | None = None

    def __enter__(self) -> None:
        lifeline = self._lifeline
        if lifeline is not None:
            if lifeline.is_lost:
                raise ClientGone
            lifeline.watched_by(self._end)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lifeline is None:
            return
        self._lifeline.watched_by(None)
        if self._failure is None:
            return
        others = self._lifeline.task.uncancel()  # the server may have cut it off, too
        if isinstance(error, asyncio.CancelledError) and not others:
            raise self._failure from error

    def _end(self, failure: Exception | None) -> None:
        if self._failure is None and self._lifeline is not None:
            self._failure = failure or ClientGone()
            self._lifeline.task.cancel()
