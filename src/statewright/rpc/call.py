"""One call: a stream between its head and its status.

The connection feeds it what arrives; one task, its handler's, reads and writes. Nothing here knows what the messages
mean.

*Memory.* What the handler has not read counts against the client's windows: beyond ``BACKLOG`` bytes no more are
granted until it reads on. A message that is not complete is always granted its rest, or it could never be read.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

import grpc
import grpc.aio

from statewright.rpc.headers import RESPONSE_HEADERS, CallRefused, Headers, RequestHeaders, build_trailers
from statewright.rpc.messages import MessageReader, MessageTooLarge, UnreadableMessage, frame_message

MAX_UNREAD_BYTES: Final = 256 * 1024
"""Bytes of messages that may wait for the handler before the client is held up."""

MESSAGE_OVERHEAD_BYTES: Final = 64
"""Bytes that a waiting message counts for beside its own: many empty ones need memory, too."""


class CallEnded(grpc.aio.BaseError):
    """The call has ended, and nothing can be written any more."""


class Stream(Protocol):
    """What a call asks of its connection."""

    def begin(self, stream_id: int, headers: Headers) -> None:
        """Send the headers of a response. Raises :class:`CallEnded`."""
        ...

    def send(self, stream_id: int, data: bytes, at: int) -> int:
        """Send as much of the data from ``at`` on as the client takes now; how much that was. Raises
        :class:`CallEnded`.
        """
        ...

    async def wait_writable(self, stream_id: int) -> None:
        """Returns when the client may take more than it did."""
        ...

    async def yield_to_loop(self) -> None:
        """Returns at once, unless much was sent in one turn of the event loop: then others have theirs first."""
        ...

    def end(self, stream_id: int, headers: Headers, *, abandoned: bool) -> None:
        """Send the last headers; ``abandoned`` when the client may still be sending, and need not go on."""
        ...

    def reset(self, stream_id: int) -> None:
        """End the stream without a status: the client has half a message."""
        ...

    def release_window(self, stream_id: int, size: int) -> None:
        """Let the client send so many bytes more."""
        ...


class Call:
    """``limit`` is the longest message in bytes. ``task`` is the handler's, set by the server that starts it."""

    def __init__(self, stream: Stream, stream_id: int, headers: RequestHeaders, *, limit: int) -> None:
        self.id = stream_id
        self.headers = headers
        self.has_ended = False
        self.is_aborted = False
        """Whether it ended before its handler did."""
        self.task: asyncio.Task[None] | None = None
        self.deadline: float | None = None
        """By the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._stream = stream
        self._reader = MessageReader(limit=limit, encoding=headers.encoding)
        self._inbox: deque[bytes] = deque()
        self._waiting = 0
        self._withheld = 0
        self._half_closed = False
        self._arrival: asyncio.Future[None] | None = None
        self._begun = False
        self._within_message = False

    @property
    def unread_bytes(self) -> int:
        """Bytes in memory that the handler has not read."""
        return self._waiting + self._reader.pending_bytes

    def start_deadline(self, loop: asyncio.AbstractEventLoop) -> None:
        """Break the call off when the time is up that its head gives it."""
        if self.headers.timeout is not None:
            self.deadline = loop.time() + self.headers.timeout
            self._timer = loop.call_at(self.deadline, self._expire)

    def receive_data(self, part: bytes, window: int) -> None:
        """Data from the client, which used so many bytes of its windows."""
        self._withheld += window
        try:
            messages = self._reader.feed(part)
        except MessageTooLarge as large:
            return self.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(large))
        except UnreadableMessage as unreadable:
            return self.abort(grpc.StatusCode.INTERNAL, str(unreadable))
        if messages:
            self._inbox += messages
            self._waiting += sum(map(len, messages)) + MESSAGE_OVERHEAD_BYTES * len(messages)
            self._wake()
        if self._waiting <= MAX_UNREAD_BYTES:
            self._release_window()
        return None

    def receive_end(self) -> None:
        """The client sends nothing more."""
        self._half_closed = True
        self._wake()

    async def read(self) -> bytes | None:
        """The next message; None when the client has sent all. Raises :class:`CallRefused` for half a message."""
        while not self._inbox:
            if self._half_closed:
                if self._reader.pending_bytes:
                    raise CallRefused(grpc.StatusCode.INTERNAL, "the stream ends in the middle of a message")
                return None
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        message = self._inbox.popleft()
        self._waiting -= len(message) + MESSAGE_OVERHEAD_BYTES
        if self._withheld and self._waiting <= MAX_UNREAD_BYTES // 2:
            self._release_window()
        return message

    def begin(self, metadata: Headers | None = None) -> None:
        """Send the headers, unless that was done. Raises :class:`CallEnded`."""
        if self.has_ended:
            raise CallEnded("the call is over")
        if not self._begun:
            self._begun = True
            self._stream.begin(self.id, [*RESPONSE_HEADERS, *(metadata or ())])

    async def write(self, message: bytes) -> None:
        """Returns as soon as the message is on its way. One at a time. Raises :class:`CallEnded`, also after a write
        that was given up in the middle of its message.
        """
        if self._within_message:
            raise CallEnded("the message before was sent in part only")
        if not self._begun or self.has_ended:
            self.begin()
        data, stream = frame_message(message), self._stream
        sent = part = stream.send(self.id, data, 0)
        while sent < len(data):
            self._within_message = sent > 0
            await (stream.yield_to_loop() if part else stream.wait_writable(self.id))
            part = stream.send(self.id, data, sent)
            sent += part
        self._within_message = False
        await stream.yield_to_loop()

    def finish(self, code: grpc.StatusCode, text: str = "", metadata: Iterable[tuple[str, str | bytes]] = ()) -> None:
        """Send the status. The first one counts. Raises ``ValueError`` for metadata that cannot be sent."""
        if self.has_ended:
            return
        headers = [*([] if self._begun else RESPONSE_HEADERS), *build_trailers(code, text, metadata)]
        self._close()
        if self._within_message:
            self._stream.reset(self.id)
        else:
            self._stream.end(self.id, headers, abandoned=not self._half_closed)

    def abort(self, code: grpc.StatusCode, text: str = "") -> None:
        """Send the status and stop the handler."""
        self.finish(code, text)
        self.abandon()

    def abandon(self) -> None:
        """The client has gone, or was told the status: stop the handler."""
        self.is_aborted = True
        self._close()
        if self.task is not None:
            self.task.cancel()

    def _expire(self) -> None:
        self.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def _close(self) -> None:
        self.has_ended = True
        self._release_window()  # or the windows of the connection would never have it back
        if self._timer is not None:
            self._timer.cancel()

    def _release_window(self) -> None:
        if self._withheld:
            window, self._withheld = self._withheld, 0
            self._stream.release_window(self.id, window)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
