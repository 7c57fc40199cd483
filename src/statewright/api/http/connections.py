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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

Client = tuple[str, str]
"""Address and port of a peer, as ASGI scopes have them."""

_INTERNET: Final = {socket.AF_INET, socket.AF_INET6}
_FILES: Final = Path("/proc/self/fd")
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


async def close_idle_connections(
    port: int, head_timeout_s: float, idle_timeout_s: float, requests: ActiveRequests
) -> None:
    """Look at all connections of the port, again and again: one that has sent nothing at all within the
    ``head_timeout_s`` is closed, and so is one without a request on which nothing came for the ``idle_timeout_s``.

    Requests of a client that has gone are abandoned. The server tells of that sooner, but not while it holds a further
    request that came on the same connection.
    """
    while True:
        await asyncio.sleep(min(head_timeout_s, idle_timeout_s) / 3)
        busy = requests.clients
        for connection in list_sockets(port):
            with suppress(OSError):  # it is gone
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
                state, silent_ms, received = _TCP_INFO.unpack(info)
                client = _client(connection)
                if client not in busy:
                    if silent_ms > 1000 * (idle_timeout_s if received else head_timeout_s):
                        connection.shutdown(socket.SHUT_RDWR)
                elif state != _ESTABLISHED:
                    requests.abandon(client)


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
    for file in list(_FILES.iterdir()) if _FILES.is_dir() else ():
        with suppress(OSError):
            if file.readlink().name.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(file.name))) as copy:
                    if copy.family in _INTERNET and copy.getsockname()[1] == port and copy.getpeername():
                        yield copy


def _client(connection: socket.socket) -> Client:
    host, port, *_ = connection.getpeername()
    return host, str(port)
