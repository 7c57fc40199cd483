"""Connections that carry no request, as the operating system sees them.

The server gives up a connection on which the head of an HTTP/1.1 request does not come in time. It has no limit before
the first byte, when it does not know yet which HTTP is spoken, and none for HTTP/2. So the system is asked now and then
how long ago each accepted connection of a port has received anything. Where it cannot tell, which is anywhere but on
Linux, there is no such limit.
"""

import asyncio
import fcntl
import os
import socket
import struct
import sys
import termios
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Final, Protocol

from msgspec import Struct

Client = tuple[str, str]
"""Address and port of a peer, as ASGI scopes have them."""

MAX_INTERVAL_S: Final = 1.0
"""Between two looks at the connections."""

MIN_INTERVAL_S: Final = 0.1
"""Between two looks while connections have to be closed."""

TICK_S: Final = 0.05
"""Between two looks at how many files are open, which costs next to nothing."""

MAX_SHARE_OF_LOOKS: Final = 0.2
"""Of the time, however many connections there are."""

MIN_IDLE_MS: Final = 200
"""On a crowded port a connection has so long to send a request."""

THREADS_OF_A_REQUEST: Final = 3
"""Through which its head passes before it counts: that which reads, that which hands over, and that of the loop."""

SOCKETS_PER_TURN: Final = 250
"""Looked at before others have their turn: about 5 ms."""

_INTERNET: Final = {socket.AF_INET, socket.AF_INET6}
_FILES: Final = "/proc/self/fd"
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)

_TCP_INFO: Final = struct.Struct("=B51xI72xQ")
"""State, milliseconds since something came, bytes that came (``struct tcp_info`` of linux/tcp.h)."""

_ESTABLISHED: Final = 1


class ActiveRequests(Protocol):
    """Tells which clients have a request under way, and lets go of those of one that has gone."""

    ended: dict[Client, float]
    """When the last request of a connection ended."""
    closing: dict[Client, float]
    """Connections to be closed, and when."""

    @property
    def clients(self) -> set[Client]:
        """Who has a request under way."""
        ...

    def is_busy(self, client: Client) -> bool:
        """Whether this one has."""
        ...

    def abandon(self, client: Client) -> None:
        """Cancel what the client has asked for."""
        ...


class IdleLimits(Struct, frozen=True, kw_only=True):
    """How long connections without a request may stay, in seconds, and how many connections there may be."""

    head_timeout_s: float
    idle_timeout_s: float
    connections: int


class Silence(Struct, frozen=True):
    """What the system knows of a connection."""

    is_established: bool
    silent_ms: int
    """Since something came."""
    received: int
    """Bytes that came."""

    @classmethod
    def read(cls, connection: socket.socket) -> "Silence":
        """Raises ``OSError`` when the connection is gone."""
        state, silent_ms, received = _TCP_INFO.unpack(
            connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        )
        return cls(state == _ESTABLISHED, silent_ms, received)


def choose_idle_time(idle_ms: Sequence[int], *, busy: int, connections: int, late_ms: int = 0) -> int | None:
    """From how many milliseconds without a request on connections are closed to make room for others.

    ``idle_ms`` are those of all connections without a request, ``busy`` have one, and there may be so many
    ``connections``. ``None``: there is room, a quarter is free. Otherwise half is to be, unless requests take more; a
    sixteenth is left to connections without one. The idlest go first, and none that came a moment ago: a moment that is
    longer when this process is ``late_ms`` behind, since requests that have come wait within it then.
    """
    total = busy + len(idle_ms)
    surplus = len(idle_ms) - max(connections // 2 - busy, connections // 16)
    if total <= connections * 3 // 4 or surplus <= 0:
        return None
    return max(sorted(idle_ms, reverse=True)[surplus - 1], MIN_IDLE_MS + THREADS_OF_A_REQUEST * late_ms)


async def close_idle_connections(port: int, limits: IdleLimits, requests: ActiveRequests) -> None:
    """Look at all connections of the port, again and again, and close what is overdue (``ConnectionWatch``)."""
    watch = ConnectionWatch(port, limits, requests)
    while True:
        await watch.wait()
        await watch.look()


class ConnectionWatch:
    """Closes connections of a port: one that has sent nothing at all within the ``head_timeout_s``, one without a
    request on which nothing came for the ``idle_timeout_s``, and one that the requests have to be ``closing``.

    When three quarters of the connections that there may be are taken, those that have had no request for the longest
    time are closed sooner, until half are left: heads that never end, sent by one who has many addresses or none to
    lose, must not keep out the others for the time that a slow client is given. How often a byte comes does not count.

    Requests of a client that has gone are abandoned. The server tells of that sooner, but not while it holds a further
    request that came on the same connection.
    """

    def __init__(self, port: int, limits: IdleLimits, requests: ActiveRequests) -> None:
        self._port = port
        self._limits = limits
        self._requests = requests
        self._interval_s = min(limits.head_timeout_s / 3, limits.idle_timeout_s / 3, MAX_INTERVAL_S)
        self._seen: dict[Client, float] = {}
        """Since when connections are known to be open."""
        self._idle_ms: int | None = None
        self._other_files = 0
        self._looked_at = monotonic()
        self._look_s = 0.0
        self._late_s = 0.0
        """How much later than it wanted this process went on, at worst; what is long ago counts little."""

    async def wait(self) -> None:
        """Return when it is time for a look: at regular intervals, and at once when there is something to close."""
        while True:
            due = monotonic() + min(TICK_S, self._interval_s)
            await asyncio.sleep(due - monotonic())
            now = monotonic()
            self._late_s = max(self._late_s, now - due)
            pause_s = now - self._looked_at
            if pause_s >= self._interval_s:
                return
            if pause_s >= max(MIN_INTERVAL_S, self._look_s / MAX_SHARE_OF_LOOKS) and self._is_urgent():
                return

    async def look(self) -> None:
        """Look at all connections once."""
        begun = monotonic()
        busy, closing, ended = self._requests.clients, self._requests.closing, self._requests.ended
        due = {client for client, at in closing.items() if at <= begun}
        seen, idle_ms, files = dict[Client, float](), list[int](), count_files()
        async for connection in _visit_sockets(self._port):
            with suppress(OSError):  # it is gone
                found, client = Silence.read(connection), _client(connection)
                since = seen[client] = self._seen.get(client, begun)
                idle = round(1000 * (begun - max(since, ended.get(client, 0.0))))
                if client in due:
                    connection.shutdown(socket.SHUT_RDWR)
                elif client in busy:
                    if not found.is_established:
                        self._requests.abandon(client)
                elif self._is_overdue(found, idle) and not self._has_sent_request(client, connection):
                    connection.shutdown(socket.SHUT_RDWR)
                else:
                    idle_ms.append(idle)
        for client in due:
            closing.pop(client, None)
        for client in [each for each, at in ended.items() if at < begun and each not in seen]:
            del ended[client]
        busy_count, late_ms = len(seen) - len(idle_ms), round(1000 * self._late_s)
        self._idle_ms = choose_idle_time(
            idle_ms, busy=busy_count, connections=self._limits.connections, late_ms=late_ms
        )
        self._late_s /= 2  # what was late before counts for less and less
        self._seen, self._other_files = seen, files - len(seen)
        self._looked_at = monotonic()
        self._look_s = self._looked_at - begun

    def _is_urgent(self) -> bool:
        if self._idle_ms is not None or min(self._requests.closing.values(), default=inf) <= monotonic():
            return True
        return find_free_file() - self._other_files > self._limits.connections * 3 // 4

    def _has_sent_request(self, client: Client, connection: socket.socket) -> bool:
        """Whether one has come after all: while others were looked at, or the server has not taken it yet, so that the
        silence is ours.
        """
        return self._requests.is_busy(client) or _count_unread(connection) > 0

    def _is_overdue(self, found: Silence, idle_ms: int) -> bool:
        if self._idle_ms is not None and idle_ms >= self._idle_ms:
            return True
        limit_s = self._limits.idle_timeout_s if found.received else self._limits.head_timeout_s
        return found.silent_ms > 1000 * limit_s


def count_files() -> int:
    """Files that this process has open; 0 where the system does not tell."""
    return len(os.listdir(_FILES)) if os.path.isdir(_FILES) else 0  # noqa: PTH208, PTH112


def find_free_file() -> int:
    """The lowest number that is no open file: there are at least so many. It costs a microsecond."""
    number = os.dup(0)
    os.close(number)
    return number


async def _visit_sockets(port: int) -> AsyncIterator[socket.socket]:
    """Like ``list_sockets``, and others have a turn now and then."""
    for number, connection in enumerate(list_sockets(port)):
        yield connection
        if number % SOCKETS_PER_TURN == SOCKETS_PER_TURN - 1:
            await asyncio.sleep(0)


def reset_connection(port: int, client: Client) -> None:
    """Have the connection of a client end by a reset, which no client takes for the orderly end of a response."""
    for connection in list_sockets(port):
        with suppress(OSError):
            if _client(connection) == client:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)


def list_sockets(port: int) -> Iterator[socket.socket]:
    """A copy of each connected socket of this process with the local ``port``, closed when the next is asked for."""
    for file in os.listdir(_FILES) if os.path.isdir(_FILES) else ():  # noqa: PTH208, PTH112 - there may be thousands
        with suppress(OSError):
            if os.readlink(f"{_FILES}/{file}").startswith("socket:"):  # noqa: PTH115
                with socket.socket(fileno=os.dup(int(file))) as copy:
                    if copy.family in _INTERNET and copy.getsockname()[1] == port and copy.getpeername():
                        yield copy


def _count_unread(connection: socket.socket) -> int:
    """Bytes that came and that the server has not taken yet."""
    unread: bytes = fcntl.ioctl(connection, termios.FIONREAD, bytes(4))
    return int.from_bytes(unread, sys.byteorder)


def _client(connection: socket.socket) -> Client:
    host, port, *_ = connection.getpeername()
    return host, str(port)
