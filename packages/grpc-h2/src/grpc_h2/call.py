"""One call: a stream between its head and its status.

The connection feeds it what arrives; one task, its handler's, reads and writes. Nothing here knows what the messages
mean.

*Memory.* Everything that a call holds is counted by its connection (``memory``), from its headers to the message that
its handler has read last, which is held until the next one is read or the handler has ended. What the handler has not
read counts against the client's windows, too: beyond ``MAX_UNREAD_BYTES`` no more are granted until it reads on. A
message that is not complete is granted its rest, or it could never be read.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Final, Protocol

import grpc
import grpc.aio

from grpc_h2.headers import RESPONSE_HEADERS, CallRefused, Headers, RequestHeaders, build_trailers
from grpc_h2.http2 import STREAM_WINDOW
from grpc_h2.memory import CALL_BYTES, MemoryAccount
from grpc_h2.messages import (
    INFLATE_SLICE_BYTES,
    InboundMessage,
    MessageReader,
    MessageTooLarge,
    UnreadableMessage,
    frame_message,
)

MAX_UNREAD_BYTES: Final = 256 * 1024
"""Bytes of messages that may wait for the handler before the client is held up."""

MIN_GRANT_BYTES: Final = STREAM_WINDOW // 4
"""Bytes of a stream's window that are worth a frame of their own."""

MESSAGE_OVERHEAD_BYTES: Final = 64
"""Bytes that a waiting message counts for beside its own: many empty ones need memory, too."""

TOO_MUCH_MEMORY: Final = "too many bytes are under way"


class CallEnded(grpc.aio.BaseError):
    """The call has ended, and nothing can be written any more."""


class Stream(Protocol):
    """What a call asks of its connection."""

    @property
    def memory(self) -> MemoryAccount:
        """Where it counts what it holds."""
        ...

    @property
    def last_ping(self) -> float | None:
        """When the client has sent an HTTP/2 ping to keep the connection alive, by ``time.monotonic``; those by which
        it measures what it is sent do not count.
        """
        ...

    def relieve_memory(self) -> bool:
        """Refuse the newest calls that wait for the rest of their messages, until the connection holds no more than it
        may; whether that is so.
        """
        ...

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
        self.authorization: object = None
        """What the server has found out about the caller."""
        self.start_on_end: Callable[[], None] | None = None
        """Starts the handler when the client has sent all, for methods that take one message."""
        self.request_due: float | None = None
        """By the loop's clock, when the one message of the client has to be there; None when it is, or need not be."""
        self.deadline: float | None = None
        """By the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._stream = stream
        self._reader = MessageReader(limit=limit, encoding=headers.encoding)
        self._inbox: deque[InboundMessage] = deque()
        self._waiting = 0
        self._withheld = 0
        self._half_closed = False
        self._arrival: asyncio.Future[None] | None = None
        self._begun = False
        self._within_message = False
        self._taken = 0
        """Bytes of the message that the handler has."""
        self._counted = self._base = CALL_BYTES + headers.memory_bytes
        stream.memory.take(self._counted)

    @property
    def unread_bytes(self) -> int:
        """Bytes of messages in memory that the handler has not read."""
        return self._waiting + self._reader.pending_bytes

    @property
    def has_partial_message(self) -> bool:
        """Whether the rest of a message is still to come."""
        return self._reader.pending_bytes > 0

    @property
    def is_handled(self) -> bool:
        """Whether the handler has a message, and will give back what it takes."""
        return self._taken > 0 or bool(self._inbox)

    @property
    def last_ping(self) -> float | None:
        """See :attr:`Stream.last_ping`."""
        return self._stream.last_ping

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
            self._waiting += sum(len(message.body) + MESSAGE_OVERHEAD_BYTES for message in messages)
            self._wake()
        self._count()
        if self._stream.memory.is_over:
            self._stream.relieve_memory()
        if self._withheld >= MIN_GRANT_BYTES and self._waiting <= MAX_UNREAD_BYTES and not self._half_closed:
            self._release_window()
        return None

    def receive_end(self) -> None:
        """The client sends nothing more."""
        self._half_closed = True
        if self.start_on_end is not None and not self.has_ended:
            start, self.start_on_end = self.start_on_end, None
            start()
        self._wake()

    async def read(self) -> bytes | None:
        """The next message; None when the client has sent all. The one before is not needed any more.

        Raises :class:`CallRefused` for half a message, one that cannot be decompressed, and one for which there is no
        room.
        """
        self._take(0)
        while not self._inbox:
            if self._half_closed:
                if self._reader.pending_bytes:
                    raise CallRefused(grpc.StatusCode.INTERNAL, "the stream ends in the middle of a message")
                return None
            await self._wait_arrival()
        message = self._inbox.popleft()
        self._waiting -= len(message.body) + MESSAGE_OVERHEAD_BYTES
        self._take(len(message.body))
        if self._withheld >= MIN_GRANT_BYTES and self._waiting <= MAX_UNREAD_BYTES // 2:
            self._release_window()
        return await self._inflate(message.body) if message.is_compressed else message.body

    async def read_single(self) -> bytes:
        """The one message of a client that sends no more. Raises :class:`CallRefused` as :meth:`read` does, and when
        there is none, or more.
        """
        while not self._half_closed:
            await self._wait_arrival()
        message = await self.read()
        if message is None:
            raise CallRefused(grpc.StatusCode.INTERNAL, "the request has no message")
        if self.unread_bytes:
            raise CallRefused(grpc.StatusCode.INTERNAL, "the request has more than one message")
        self.request_due = None
        return message

    async def _wait_arrival(self) -> None:
        self._arrival = asyncio.get_running_loop().create_future()
        await self._arrival

    async def _inflate(self, body: bytes) -> bytes:
        """A compressed message, when there is room for it. Raises :class:`CallRefused`."""
        memory = self._stream.memory
        whole = bytearray()
        async with memory.inflate():
            begun = perf_counter()
            try:
                for part in self._reader.inflate(body):
                    self._take(self._taken + len(part))
                    if memory.is_over and not self._stream.relieve_memory():
                        raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MUCH_MEMORY)
                    whole += part
                    if len(part) == INFLATE_SLICE_BYTES:
                        await asyncio.sleep(perf_counter() - begun)  # others have as much time
                        begun = perf_counter()
            except MessageTooLarge as large:
                raise CallRefused(grpc.StatusCode.RESOURCE_EXHAUSTED, str(large)) from large
            except UnreadableMessage as unreadable:
                raise CallRefused(grpc.StatusCode.INTERNAL, str(unreadable)) from unreadable
        self._take(len(whole))
        return bytes(whole)

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

    def release(self) -> None:
        """The handler has ended: nothing of the call is needed any more."""
        self._taken = self._base = 0
        self._count()

    def _expire(self) -> None:
        self.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def _close(self) -> None:
        self.has_ended = True
        self.request_due = self.start_on_end = None
        if self._timer is not None:
            self._timer.cancel()
        self._inbox.clear()
        self._waiting = 0
        self._reader.drop_pending()
        self._count()
        if self.task is None:
            self.release()

    def _take(self, size: int) -> None:
        """The handler has so many bytes."""
        self._taken = size
        self._count()

    def _count(self) -> None:
        """Tell the connection what is held now."""
        held = self._base + self._taken + self.unread_bytes
        if held > self._counted:
            self._stream.memory.take(held - self._counted)
        elif held < self._counted:
            self._stream.memory.give_back(self._counted - held)
        self._counted = held

    def _release_window(self) -> None:
        window, self._withheld = self._withheld, 0
        self._stream.release_window(self.id, window)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
