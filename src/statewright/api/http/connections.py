"""Connections that carry no request, as the operating system sees them.

The server gives up a connection on which the head of an HTTP/1.1 request does not come in time. It has no limit before
the first byte, when it does not know yet which HTTP is spoken, and none for HTTP/2. So the system is asked now and then
how long ago each accepted connection of a port has received anything. Where it cannot tell, which is anywhere but on
Linux, there is no such limit.
"""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec import Struct

Client = tuple[str, str]
"""Address and port of a peer, as ASGI scopes have them."""

MAX_INTERVAL_S: Final = 1.0
"""Between two looks at the connections."""

MIN_SILENCE_MS: Final = 200
"""However crowded a port is, a connection has so long to say something."""

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

    @property
    def clients(self) -> set[Client]:
        """Who has a request under way."""
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


def choose_silence(silences: Sequence[int], limit: int) -> int | None:
    """From how many milliseconds of silence on connections without a request are closed to make room for others.

    ``silences`` are those of all connections without a request, ``limit`` is how many of them may stay. ``None``: all
    may. The most silent go first, and none that was heard a moment ago.
    """
    surplus = len(silences) - limit
    if surplus <= 0:
        return None
    return max(sorted(silences, reverse=True)[surplus - 1], MIN_SILENCE_MS)


async def close_idle_connections(port: int, limits: IdleLimits, requests: ActiveRequests) -> None:
    """Look at all connections of the port, again and again: one that has sent nothing at all within the
    ``head_timeout_s`` is closed, and so is one without a request on which nothing came for the ``idle_timeout_s``.

    When three quarters of the connections that there may be are taken, those that have been silent longest are closed
    sooner, until half are left: heads that never end, sent by one who has many addresses or none to lose, must not keep
    out the others for the time that a slow client is given.

    Requests of a client that has gone are abandoned. The server tells of that sooner, but not while it holds a further
    request that came on the same connection.
    """
    interval_s = min(limits.head_timeout_s / 3, limits.idle_timeout_s / 3, MAX_INTERVAL_S)
    silence_ms: int | None = None
    while True:
        await asyncio.sleep(interval_s if silence_ms is None else interval_s / 4)
        busy = requests.clients
        total, silences = 0, list[int]()
        async for connection in _visit_sockets(port):
            with suppress(OSError):  # it is gone
                found, client = Silence.read(connection), _client(connection)
                total += 1
                if client in busy:
                    if not found.is_established:
                        requests.abandon(client)
                elif _is_overdue(found, limits, silence_ms):
                    connection.shutdown(socket.SHUT_RDWR)
                else:
                    silences.append(found.silent_ms)
        is_crowded = total > limits.connections * 3 // 4
        silence_ms = choose_silence(silences, limits.connections // 2) if is_crowded else None


def _is_overdue(found: Silence, limits: IdleLimits, silence_ms: int | None) -> bool:
    if silence_ms is not None and found.silent_ms >= silence_ms:
        return True
    return found.silent_ms > 1000 * (limits.idle_timeout_s if found.received else limits.head_timeout_s)


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


def close_connection(port: int, client: Client) -> None:
    """Close the connection of a client, if it is still there."""
    for connection in list_sockets(port):
        with suppress(OSError):
            if _client(connection) == client:
                connection.shutdown(socket.SHUT_RDWR)


def list_sockets(port: int) -> Iterator[socket.socket]:
    """A copy of each connected socket of this process with the local ``port``, closed when the next is asked for."""
    for file in os.listdir(_FILES) if os.path.isdir(_FILES) else ():  # noqa: PTH208, PTH112 - there may be thousands
        with suppress(OSError):
            if os.readlink(f"{_FILES}/{file}").startswith("socket:"):  # noqa: PTH115
                with socket.socket(fileno=os.dup(int(file))) as copy:
                    if copy.family in _INTERNET and copy.getsockname()[1] == port and copy.getpeername():
                        yield copy


def _client(connection: socket.socket) -> Client:
    host, port, *_ = connection.getpeername()
    return host, str(port)
