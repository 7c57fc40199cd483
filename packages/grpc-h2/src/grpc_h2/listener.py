"""A socket that listens, and how its connections are let in.

There is no limit for one address, since behind a balancer all clients have the same: ``Server`` limits them all
together.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Final

from grpc_h2.http2 import format_address
from grpc_h2.incidents import Incidents

MAX_ACCEPTED_AT_ONCE: Final = 4
"""Connections accepted in one turn of the event loop."""

NO_FILES_PAUSE_S: Final = 0.5
"""How long nothing is accepted when the process has no descriptors left."""

TLS_HANDSHAKE_TIMEOUT_S: Final = 10.0
"""How long clients may take to begin with TLS."""

TLS_CLOSE_TIMEOUT_S: Final = 0.5
"""How long they may take to answer its closure alert. grpcio's do not answer it."""

_NO_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Accepts connections on a socket that listens. ``make_room`` says whether one more may come in. ``tls`` None:
    plaintext.
    """

    def __init__(
        self,
        listening: socket.socket,
        connect: Callable[[], asyncio.BaseProtocol],
        *,
        tls: ssl.SSLContext | None,
        make_room: Callable[[], bool],
        incidents: Incidents,
    ) -> None:
        self._socket = listening
        self._connect = connect
        self._tls = tls
        self._make_room = make_room
        self._incidents = incidents
        self._loop = asyncio.get_running_loop()
        self._opening: dict[object, asyncio.Task[None]] = {}
        self._pause: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._resume()

    @property
    def opening(self) -> int:
        """Connections that are not open yet."""
        return len(self._opening)

    def drop_oldest_opening(self) -> bool:
        """Give up the connection whose handshake has begun first; whether there was one."""
        if not self._opening:
            return False
        self._opening.pop(next(iter(self._opening))).cancel()
        return True

    def finish_opening(self, connection: object) -> None:
        """A connection is open, or will never be."""
        self._opening.pop(connection, None)

    def close(self) -> None:
        """Accept nothing more."""
        if self._pause is not None:
            self._pause.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                self._pause_accepting(error)
                return
            if self._make_room():
                self._start_opening(accepted, format_address(address))
            else:
                self._incidents.report("grpc_connections_exhausted")
                accepted.close()

    def _pause_accepting(self, error: OSError) -> None:
        self._incidents.report("grpc_accept_failed", reason=error.strerror)
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(NO_FILES_PAUSE_S, self._resume)

    def _start_opening(self, accepted: socket.socket, peer: str) -> None:
        accepted.setblocking(False)
        connection = self._connect()
        task = self._opening[connection] = self._loop.create_task(self._open(connection, accepted, peer))
        task.add_done_callback(lambda _: self.finish_opening(connection))

    async def _open(self, connection: asyncio.BaseProtocol, accepted: socket.socket, peer: str) -> None:
        tls = self._tls
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=TLS_HANDSHAKE_TIMEOUT_S if tls else None,
                ssl_shutdown_timeout=TLS_CLOSE_TIMEOUT_S if tls else None,
            )
        except OSError as error:  # torn off, too slow, or no TLS
            reason = str(error) or "torn off during the TLS handshake"
            self._incidents.report("grpc_connection_refused", peer=peer, reason=reason[:200])
            accepted.close()
