"""One request on a connection and its response, as an ASGI application sees them, and what ASGI lacks.

uvicorn's own cycle is made for any application: it writes head and body of a response in two system calls, and an
application learns that its client has gone only by waiting for a message, in a task of its own. This one holds the head
back until the first part of the body is there, takes a whole response in one call, and tells who asks for it when the
client is gone. An application finds it under ``LIFELINE`` among the extensions of its scope.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from statewright.api.http.exchange import Message, Receive, Scope, Send

LIFELINE: Final = "statewright.lifeline"

Headers = Iterable[tuple[bytes, bytes]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_WITHOUT_BODY: Final = frozenset({204, 304})
_BROKEN: Final = "Internal Server Error"

log = logging.getLogger("uvicorn.error")


class Line(Protocol):
    """What a cycle needs of the connection below it."""

    transport: asyncio.Transport

    @property
    def is_writing_paused(self) -> bool:
        """Whether the peer reads more slowly than it is answered."""
        ...

    @property
    def standing_headers(self) -> bytes:
        """Headers of every response."""
        ...

    async def drained(self) -> None:
        """Returns as soon as the peer has read enough."""
        ...

    def wants_more(self, cycle: "Cycle") -> None:
        """The cycle has taken all that came of its body so far."""
        ...

    def answered(self, cycle: "Cycle") -> None:
        """The response is complete."""
        ...


class Cycle:
    """A request and its response. ``keep_alive``: whether the connection is to stay open after it.

    ``task`` is what answers the request, once that has begun.
    """

    __slots__ = (
        "_arrival",
        "_body",
        "_expects_continue",
        "_head",
        "_is_chunked",
        "_is_end_news",
        "_left",
        "_line",
        "_tell",
        "is_answered",
        "is_begun",
        "is_body_complete",
        "is_lost",
        "keep_alive",
        "scope",
        "task",
    )

    def __init__(self, line: Line, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self._line = line
        self.scope = scope
        self.keep_alive = keep_alive
        self._expects_continue = expects_continue
        self._body = b""
        self.is_body_complete = False
        self._is_end_news = False
        self._arrival: asyncio.Future[None] | None = None
        self.is_begun = False
        self._head: bytes | None = None  # held back until there is a body to go with it
        self._left: int | None = None  # bytes of the body still to come, where that is known
        self._is_chunked = False
        self.is_answered = False
        self.is_lost = False
        self._tell: Callable[[Exception | None], None] | None = None
        self.task: asyncio.Task[None]

    async def run(self, application: Application, tasks: "set[asyncio.Task[None]]") -> None:
        """Let the application answer. Whatever it leaves undone closes the connection."""
        try:
            await application(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            log.info("request cut off")
        except Exception:
            log.exception("Exception in ASGI application")
            if not (self.is_begun or self.is_lost):
                self.keep_alive = False
                self.respond(500, ((b"content-type", b"text/plain; charset=utf-8"),), _BROKEN.encode())
        finally:
            tasks.discard(self.task)
            self.scope = {}  # it refers to this cycle
            if not self.is_answered:
                self._line.transport.close()

    # What ASGI lacks

    def watched_by(self, tell: Callable[[Exception | None], None] | None) -> None:
        """Whom to tell that the client has gone (None), or has stopped sending (a failure); None for nobody."""
        self._tell = tell

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """The whole response at once; its length is added to the headers."""
        if self.is_lost:
            return
        length = b"" if status in _WITHOUT_BODY else b"content-length: %d\r\n" % len(body)
        head = self._head_of(status, headers, length)
        self._line.transport.write(head if self.scope["method"] == "HEAD" else head + body)
        self._complete()

    def cut(self) -> None:
        """Break the connection in such a way that nobody takes what was sent for complete.

        An orderly end would complete a response of HTTP/1.0; the reset that replaces it here cannot be mistaken.
        """
        self.keep_alive = False
        peer: socket.socket | None = self._line.transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._line.transport.abort()

    # The connection's side

    def lost(self) -> None:
        """The connection is gone."""
        self.is_lost = True
        self._wake()
        if self._tell is not None:
            self._tell(None)

    def stalled(self, failure: Exception) -> None:
        """The client has stopped in the middle of the body."""
        self.keep_alive = False
        if self._tell is not None:
            self._tell(failure)

    def feed(self, part: bytes) -> int:
        """A part of the body has come; how much of it waits to be taken."""
        self._body = self._body + part if self._body else part
        self._wake()
        return len(self._body)

    def feed_end(self) -> None:
        """The body is complete."""
        self.is_body_complete = self._is_end_news = True
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    # ASGI

    async def receive(self) -> Message:
        """The next part of the body; once all of it was taken, the end of the connection or of the response."""
        if self._expects_continue:
            self._expects_continue = False
            if not (self._body or self.is_lost or self.is_answered):
                self._line.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self._body or self._is_end_news or self.is_lost or self.is_answered):
            if not self.is_body_complete:
                self._line.wants_more(self)
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        if self.is_lost or self.is_answered:
            return {"type": "http.disconnect"}
        part, self._body = self._body, b""
        self._is_end_news = False
        if not self.is_body_complete:
            self._line.wants_more(self)
        return {"type": "http.request", "body": part, "more_body": not self.is_body_complete}

    async def send(self, message: Message) -> None:
        """A part of the response. Raises ``RuntimeError`` for a response that contradicts itself."""
        if self._line.is_writing_paused and not self.is_lost:
            await self._line.drained()
        if self.is_lost:
            return
        if message["type"] == "http.response.start" and not self.is_begun:
            self._begin(message["status"], message.get("headers", ()))
        elif message["type"] == "http.response.body" and self.is_begun and not self.is_answered:
            self._write(message.get("body", b""), is_last=not message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} out of order")

    def _begin(self, status: int, headers: Headers) -> None:
        self.is_begun = True
        given = {name.lower(): value for name, value in headers}
        self._left = int(given[b"content-length"]) if b"content-length" in given else None
        framing = b""
        if status in _WITHOUT_BODY or self._is_head_only:
            self._left = 0
        elif self._left is None and self.scope["http_version"] == "1.0":
            self.keep_alive = False  # the end of the connection is the end of the body
        elif self._left is None:
            self._is_chunked = True
            framing = b"transfer-encoding: chunked\r\n"
        if given.get(b"connection", b"").lower() == b"close":
            self.keep_alive = False
        self._head = self._head_of(status, headers, framing)

    def _write(self, part: bytes, *, is_last: bool) -> None:
        """Write a part, after the head if that is still held back."""
        head, self._head = self._head or b"", None
        if self._is_head_only:
            part = b""
        elif self._is_chunked:
            part = (b"%x\r\n%b\r\n" % (len(part), part) if part else b"") + (b"0\r\n\r\n" if is_last else b"")
        elif self._left is not None:
            self._left -= len(part)
            if self._left < 0 or (is_last and self._left):
                raise RuntimeError("the body is not as long as its content-length says")
        if head or part:
            self._line.transport.write(head + part)
        if is_last:
            self._complete()

    def _head_of(self, status: int, headers: Headers, framing: bytes) -> bytes:
        lines = [b"%b: %b\r\n" % header for header in headers]
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or b"\0" in head:
            raise RuntimeError("a header of the response contains a line break")
        closing = b"" if self.keep_alive or b"connection: close" in head else b"connection: close\r\n"
        return b"%b%b%b%b%b\r\n" % (STATUS_LINE[status], self._line.standing_headers, head, framing, closing)

    @property
    def _is_head_only(self) -> bool:
        return bool(self.scope["method"] == "HEAD")

    def _complete(self) -> None:
        self.is_begun = self.is_answered = True
        self._wake()
        self._line.answered(self)
