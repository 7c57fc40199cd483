"""How much a client may send: the windows of a connection and of its calls, and which calls are refused.

The window of the connection is never more than there is room for in memory, so that what it may hold is not exceeded.
The window of a call is what its handler leaves of it (``call``). In a crowded connection only the oldest call with half
a message gets its window back, so that one after the other is completed, handled, and gives back what it held. When
the client can go on with none, and no handler has anything that it could give back, the newest call is refused.
"""

from collections.abc import Callable, Mapping

import grpc

from grpc_h2.call import TOO_MUCH_MEMORY, Call
from grpc_h2.http2 import CONNECTION_WINDOW, MAX_FRAME_BYTES
from grpc_h2.memory import MemoryAccount, MemoryBudget


class ReceiveWindows:
    """Of one connection, whose ``calls`` are by stream id. ``grant`` lets a stream send so many bytes more, 0 for all
    of them together; ``refused`` is told of every call that is refused.
    """

    def __init__(
        self,
        budget: MemoryBudget,
        memory: MemoryAccount,
        calls: Mapping[int, Call],
        grant: Callable[[int, int], None],
        refused: Callable[[], None],
    ) -> None:
        self._budget = budget
        self._memory = memory
        self._calls = calls
        self._grant = grant
        self._refused = refused
        self._open = CONNECTION_WINDOW
        self._withheld: dict[int, int] = {}

    def receive(self, size: int) -> None:
        """The client has sent so many bytes, padding included."""
        self._open -= size
        self._widen()
        if self._open < MAX_FRAME_BYTES and not any(call.is_handled for call in self._calls.values()):
            self._refuse_newest()

    def release(self, stream_id: int, size: int) -> None:
        """A call can take so many bytes more: now, or when there is room."""
        if self._memory.is_crowded and stream_id != self._find_oldest():
            self._withheld[stream_id] = self._withheld.get(stream_id, 0) + size
            self._budget.notify_when_freed(self, self._widen)
        else:
            self._grant(stream_id, size + self._withheld.pop(stream_id, 0))

    def refuse_until_not_over(self) -> bool:
        """Refuse the newest calls, until the connection holds no more than it may; whether that is so."""
        while self._memory.is_over:
            if not self._refuse_newest():
                return False
        return True

    def forget(self, stream_id: int) -> None:
        """The call has ended."""
        self._withheld.pop(stream_id, None)

    def close(self) -> None:
        """The connection is gone."""
        self._withheld.clear()
        self._budget.forget(self)

    def _widen(self) -> None:
        """Grant what there is room for, in steps that are worth a frame; later, when there is little."""
        size = min(CONNECTION_WINDOW, self._memory.room) - self._open
        if size >= CONNECTION_WINDOW // 4 or (size > 0 and self._open < MAX_FRAME_BYTES):
            self._open += size
            self._grant(0, size)
        if self._withheld:
            self._release_withheld()
        if self._withheld or self._open < CONNECTION_WINDOW // 2:
            self._budget.notify_when_freed(self, self._widen)

    def _release_withheld(self) -> None:
        if self._memory.is_crowded:
            oldest = self._find_oldest()
            due = [oldest] if oldest in self._withheld else []
        else:
            due = list(self._withheld)
        for stream_id in due:
            self._grant(stream_id, self._withheld.pop(stream_id))

    def _find_oldest(self) -> int:
        """The oldest call with half a message; 0 for none."""
        return min((call.id for call in self._calls.values() if call.has_partial_message), default=0)

    def _refuse_newest(self) -> bool:
        newest = max((call.id for call in self._calls.values() if call.unread_bytes), default=0)
        if not newest:
            return False
        self._refused()
        self._calls[newest].abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MUCH_MEMORY)
        return True
