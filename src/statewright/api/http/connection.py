"""HTTP/1.1 connections: uvicorn's protocol with limits on what a client may send how slowly, and with our own cycle.

A connection is in one of these stages:

    waiting ──first byte──▶ head ──end of head──▶ body ──end of body──▶ answering ──response──▶ waiting

It may stay in *waiting* for the keep-alive time, in *head* for ``head_within`` altogether (also before the first
request, so that silent connections cost little), in *body* for ``body_within`` between two parts. Answering takes as
long as it takes. A head beyond ``head_bytes`` is refused with 431, a late one with 408; a client that stops in the
middle of a body ends its request. One timer looks at all connections of a server, in place of one for each of them.

Pipelined requests are answered one after the other, in their order. Reading goes on meanwhile, up to ``AHEAD``
requests, because only reading shows that a client has gone.
"""

import asyncio
from collections import deque
from math import inf
from typing import Final, cast
from urllib.parse import unquote

import httptools
from msgspec import Struct
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from statewright.api.http.cycle import LIFELINE, Application, Cycle
from statewright.api.http.exchange import Scope
from statewright.failures import BadRequest

AHEAD: Final = 8
"""Pipelined requests that may wait for their turn; after them nothing more is read."""

BUFFERED_BODY: Final = 64 * 1024
"""Bytes of a body that may wait to be taken; after them nothing more is read."""


FAREWELL: Final = 2.0
"""Seconds in which a refused client may read why."""

REFUSALS: Final = {
    400: "Invalid HTTP request received.",
    408: "The head of the request did not come in time.",
    431: "The head of the request is too large.",
}


class Limits(Struct, frozen=True, kw_only=True):
    """What a client may take; times in seconds."""

    head_bytes: int = 64 * 1024
    head_within: float = 15.0
    body_within: float = 60.0
    keep_alive: float = 75.0


class Connections:
    """Makes the connections of one server, and looks now and then for those that are overdue."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._interval = min(1.0, limits.head_within / 4)
        self._open: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._encoded = b""
        self.are_ending = False
        """Whether every further response is the last one of its connection."""

    def say_farewell(self) -> None:
        """Let each connection close with its next response, or with the one that is under way."""
        self.are_ending = True
        for connection in self._open:
            connection.close_with_response()

    def __call__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> "Connection":
        """A new connection; called by uvicorn, with names for its arguments."""
        return Connection(self, config, server_state, app_state, _loop)

    def add(self, connection: "Connection") -> None:
        self._open.add(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._look)

    def discard(self, connection: "Connection") -> None:
        self._open.discard(connection)

    def encoded(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The headers as they are written. uvicorn makes a new list of them every second."""
        if headers is not self._headers:
            self._headers, self._encoded = headers, b"".join(b"%b: %b\r\n" % header for header in headers)
        return self._encoded

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [each for each in self._open if each.deadline <= now]:
            connection.overdue()
        self._timer = loop.call_later(self._interval, self._look) if self._open else None


class Connection(HttpToolsProtocol):
    """One connection. ``deadline`` is when the client must have gone on, by the loop's clock."""

    parser: httptools.HttpRequestParser

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self._connections = connections
        self._limits = connections.limits
        self.deadline = inf
        self._application = cast("Application", self.app)
        self._answering: Cycle | None = None
        self._newest: Cycle | None = None
        self._waiting: deque[Cycle] = deque()
        self._in_head = False
        self._head_has_begun_now = False
        self._head_bytes = 0  # of the parts of a head, without the one it began in
        self._arrived = 0
        self._is_stopping = False
        self._refusal: bytes | None = None
        self._base: Scope = {}

    # The transport's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._base = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
        }
        self.deadline = self.loop.time() + self._limits.head_within
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._waiting.clear()
        cycle, self._answering, self._newest = self._answering, None, None
        super().connection_lost(exc)
        if cycle is not None:
            cycle.lost()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._arrived = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.logger.debug("a wish for another protocol was ignored")
        except httptools.HttpParserError:
            self._refuse(431 if self._head_bytes > self._limits.head_bytes else 400)
            return
        if self._in_head:
            self._head_goes_on()
        elif self._newest is not None and not self._newest.is_body_complete:
            self.deadline = self.loop.time() + self._limits.body_within

    def shutdown(self) -> None:
        self._is_stopping = True
        if self._newest is None or self._newest.is_answered:
            self.transport.close()
        else:
            self._newest.keep_alive = False

    def close_with_response(self) -> None:
        """Make the response that is under way the last one, if it can still say so."""
        if self._newest is not None and not self._newest.is_begun:
            self._newest.keep_alive = False

    # The parser's side

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._in_head = True
        self._head_has_begun_now = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        if (
            self._head_bytes + self._arrived > self._limits.head_bytes
        ):  # too large, or others came with it: look closely
            self._head_bytes = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if self._head_bytes > self._limits.head_bytes:
                raise ValueError  # ends the parsing
        version = self.parser.get_http_version()
        scope = self._scope(version)
        cycle = Cycle(
            self,
            scope,
            keep_alive=version != "1.0"
            and self.parser.should_keep_alive()
            and not (self._is_stopping or self._connections.are_ending),
            expects_continue=self.expect_100_continue,
        )
        scope["extensions"] = {LIFELINE: cycle}
        self._newest = cycle
        if self._answering is None:
            self._answer(cycle)
        else:
            self._waiting.append(cycle)
            if len(self._waiting) >= AHEAD:
                self.flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        cycle = self._newest
        if cycle is not None and not cycle.is_answered and cycle.feed(body) > BUFFERED_BODY:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        cycle = self._newest
        if cycle is not None:
            cycle.feed_end()
            self.deadline = self.loop.time() + self._limits.keep_alive if cycle.is_answered else inf

    def _scope(self, version: str) -> Scope:
        url = self.url
        if url.startswith(b"/") and b"#" not in url:
            raw_path, _, query = url.partition(b"?")
        else:
            parsed = httptools.parse_url(url)
            raw_path, query = parsed.path, parsed.query or b""
        path = raw_path.decode("ascii")
        scope: Scope = {**self._base}
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        scope["headers"] = self.headers
        if version != "1.1":
            scope["http_version"] = version
        return scope

    # The cycles' side

    @property
    def is_writing_paused(self) -> bool:
        """Whether the peer reads more slowly than it is answered."""
        return self.flow.write_paused

    async def drained(self) -> None:
        """Returns as soon as the peer has read enough."""
        await self.flow.drain()

    @property
    def standing_headers(self) -> bytes:
        """Headers of every response."""
        return self._connections.encoded(self.server_state.default_headers)

    def wants_more(self, cycle: Cycle) -> None:
        """The cycle has taken what came of its body so far, and the body is not complete."""
        if cycle is self._newest:
            self.flow.resume_reading()
            self.deadline = self.loop.time() + self._limits.body_within

    def answered(self, cycle: Cycle) -> None:
        """The response is complete: on to the next request."""
        self.server_state.total_requests += 1
        self._answering = None
        if self.transport.is_closing():
            return
        if not cycle.keep_alive:
            self.transport.close()
        elif self._waiting:
            self.flow.resume_reading()
            self._answer(self._waiting.popleft())
        elif self._refusal is not None:
            self._part(self._refusal)
        elif self._is_stopping:
            self.transport.close()
        else:
            self.flow.resume_reading()
            self.deadline = self.loop.time() + self._patience()

    def _patience(self) -> float:
        """How long the client may take for what it is at, now that everything is answered."""
        if self._in_head:
            return self._limits.head_within
        if self._newest is not None and not self._newest.is_body_complete:
            return self._limits.body_within
        return self._limits.keep_alive

    def _answer(self, cycle: Cycle) -> None:
        self._answering = cycle
        self.deadline = inf if cycle.is_body_complete else self.loop.time() + self._limits.body_within
        cycle.task = self.loop.create_task(cycle.run(self._application, self.tasks))
        self.tasks.add(cycle.task)

    # Limits

    def _head_goes_on(self) -> None:
        """Part of a head has come, and not its end."""
        if self._head_has_begun_now:  # together with what belongs to the request before, maybe
            self._head_has_begun_now = False
            self.deadline = min(self.deadline, self.loop.time() + self._limits.head_within)
            return
        self._head_bytes += self._arrived
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(431)

    def overdue(self) -> None:
        """The deadline has passed."""
        newest = self._newest
        if self._refusal is not None and self._answering is None:
            self.transport.close()
        elif newest is not None and not newest.is_body_complete and not newest.is_answered:
            self.deadline = self.loop.time() + self._limits.body_within
            if not self.flow.read_paused:
                newest.stalled(BadRequest(f"no part of the request body came for {self._limits.body_within:g} s"))
        elif self._answering is not None:
            self.deadline = inf
        elif self._in_head:
            self._refuse(408)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        """Answer what cannot be read as a request, when its turn has come, and close the connection."""
        text = REFUSALS[status].encode()
        self._refusal = (
            b"%b%bcontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (STATUS_LINE[status], self.standing_headers, len(text), text)
        )
        cut_off = self._newest if self._newest is not None and not self._newest.is_body_complete else None
        if cut_off is not None and self._waiting:
            self._waiting.pop()
        elif self._answering is None or self._answering is cut_off:
            self._part(b"" if cut_off is not None and cut_off.is_begun else self._refusal)
            return
        self.flow.pause_reading()

    def _part(self, words: bytes) -> None:
        """Say the last words. Closing at once would destroy them before a client that is still sending reads them."""
        self.transport.write(words)
        self.transport.write_eof()
        self.flow.resume_reading()
        self.deadline = self.loop.time() + FAREWELL
