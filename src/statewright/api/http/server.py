"""The HTTP server of a process: Granian, embedded in it, on its event loop and on a socket that we have bound.

Why Granian, and why through its ASGI interface, stands in docs/adr/0019. Granian parses and writes HTTP/1.1, HTTP/2 and
TLS in a thread of its own, and calls the application on our loop. Only what it publishes is used, but for the method in
which its embedded server binds the socket: ours is bound already, before anything else starts, and may be shared by
other processes. That method is why the minor version is bounded in pyproject.toml.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined]
from granian.server.embed import Server
from msgspec import Struct

from statewright.api.http.asgi import Application, RequestLimits, Requests
from statewright.api.http.connections import IdleLimits, close_idle_connections
from statewright.loop.background import ShutdownBudget
from statewright.network.sockets import ACCEPT_TIME_S, refuse_connections
from statewright.network.tls import Tls

BACKLOG: Final = 65_535
"""Connections that may wait to be accepted, of which the system allows fewer (``net.core.somaxconn``). One for which
there is no room tries again only after a second.
"""
CANCEL_TIMEOUT_S: Final = 2.0
"""In which requests that were cut off say so to their clients."""

_MIN_HEAD_BYTES: Final = 8192
"""The server reads at least so much at once."""

_LOGGING: Final = {"version": 1, "incremental": True, "handlers": {}, "loggers": {}}
"""Granian configures logging when it is made; this leaves ours as it is."""


class HttpLimits(Struct, frozen=True, kw_only=True):
    """What clients may take; times in seconds. ``requests`` says how many connections of theirs there may be."""

    requests: RequestLimits = RequestLimits()
    head_bytes: int = 64 * 1024
    head_timeout_s: float = 15.0
    idle_timeout_s: float = 75.0


class _Server(Server):
    """Granian on a bound socket."""

    def __init__(self, application: Application, listener: socket.socket, limits: HttpLimits, tls: Tls | None) -> None:
        super().__init__(
            application,
            interface=Interfaces.ASGINL,
            http=HTTPModes.auto,
            websockets=False,
            backlog=BACKLOG,
            backpressure=limits.requests.connections,
            http1_settings=HTTP1Settings(
                header_read_timeout=round(limits.head_timeout_s * 1000),
                max_buffer_size=max(limits.head_bytes, _MIN_HEAD_BYTES),
            ),
            http2_settings=HTTP2Settings(max_headers_size=limits.head_bytes, max_concurrent_streams=100),
            log_level=LogLevels.error,
            log_dictconfig=_LOGGING,
            ssl_cert=tls.certificate if tls else None,
            ssl_key=tls.key if tls else None,
            ssl_protocol_min=SSLProtocols.tls12 if tls and tls.min_version == "1.2" else SSLProtocols.tls13,
            ssl_ca=tls.client_ca if tls else None,
            ssl_client_verify=tls is not None and tls.client_ca is not None,
        )
        self._listener = listener

    def _init_shared_socket(self) -> None:
        """The server closes the descriptor it is given, so it gets a copy."""
        descriptor = os.dup(self._listener.fileno())
        self._shd = SocketHolder(descriptor, False, BACKLOG)  # type: ignore[assignment,call-arg]  # stubs lack it


@asynccontextmanager
async def serve_http(
    application: Application,
    listener: socket.socket,
    stopped: asyncio.Event,
    limits: HttpLimits,
    *,
    grace: ShutdownBudget,
    drain_window: timedelta = timedelta(0),
    tls: Tls | None = None,
    is_shared: bool = False,
) -> AsyncIterator[int]:
    """Serve an ASGI application on a bound socket inside the block; gives the port. The socket is closed in the end;
    others accept from it after that where it ``is_shared``.

    ``stopped`` is set when the server ends on its own. At the end new connections are served for the ``drain_window``,
    with every response the last one of its connection; then nothing is accepted any more, and open requests have what
    is left of the ``grace``.
    """
    listener.listen(BACKLOG)  # from now on connections are accepted; the server itself begins a moment later
    requests = Requests(application, limits.requests)
    server = _Server(requests, listener, limits, tls)
    port: int = listener.getsockname()[1]
    serving = asyncio.create_task(server.serve(), name=f"http-{port}")
    serving.add_done_callback(lambda _task: stopped.set())
    watching = [
        asyncio.create_task(requests.watch(), name=f"http-requests-{port}"),
        asyncio.create_task(
            close_idle_connections(
                port,
                IdleLimits(
                    head_timeout_s=limits.head_timeout_s,
                    idle_timeout_s=limits.idle_timeout_s,
                    connections=limits.requests.connections,
                ),
                requests,
            ),
            name=f"http-connections-{port}",
        ),
    ]
    try:
        yield port
    finally:
        with suppress(asyncio.CancelledError):
            requests.is_draining = True
            accepting = min(ACCEPT_TIME_S, drain_window.total_seconds())
            await asyncio.sleep(drain_window.total_seconds() - accepting)
            if not is_shared:
                refuse_connections(listener)
            await asyncio.sleep(accepting)
        server.stop()  # type: ignore[no-untyped-call]
        with suppress(asyncio.CancelledError):
            await asyncio.wait([serving], timeout=max(1.0, grace.remaining_s))
            if not serving.done():
                requests.cancel()
                await asyncio.wait([serving], timeout=CANCEL_TIMEOUT_S)
        for task in (serving, *watching):
            task.cancel()
        listener.close()
