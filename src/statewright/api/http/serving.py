"""An ASGI application on a port, served by uvicorn inside our own process and event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import cast

import uvicorn

from statewright.api.http.connection import Connections, Limits
from statewright.api.http.cycle import Application
from statewright.grace import Grace
from statewright.sockets import listening_socket

FAREWELL_S = 2.0
"""In which requests that were cut off say so to their clients."""


class _Uvicorn(uvicorn.Server):
    """uvicorn inside our own process: signals are ours, and so is the listening socket."""

    @contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield

    async def drain(self, connections: Connections, window: timedelta) -> None:
        """Accept no more connections, and tell those that are open with their next response that they close.

        Closing an idle one at once would lose the request that its client is just sending. Returns when none is left,
        or after the ``window``.
        """
        if not self.started or not window:
            return
        for server in self.servers:
            server.close()
        connections.say_farewell()
        with suppress(TimeoutError):
            async with asyncio.timeout(window.total_seconds()):
                while self.server_state.connections:  # noqa: ASYNC110 - uvicorn keeps a plain set
                    await asyncio.sleep(0.02)


@asynccontextmanager
async def served(
    application: Application,
    host: str,
    port: int,
    stopped: asyncio.Event,
    limits: Limits,
    *,
    grace: Grace,
) -> AsyncIterator[int]:
    """Serve an ASGI application; open requests may take what is left of ``grace`` to finish at the end.

    Raises ``OSError`` when the port is taken.
    """
    listener = listening_socket(host, port)
    async with served_on(listener, application, stopped, limits, grace=grace) as bound:
        yield bound


@asynccontextmanager
async def served_on(
    listener: socket.socket,
    application: Application,
    stopped: asyncio.Event,
    limits: Limits,
    *,
    grace: Grace,
    window: timedelta = timedelta(0),
) -> AsyncIterator[int]:
    """The same on a bound socket, which is closed in the end; gives its port.

    At the end, idle connections have the ``window`` to hear that they close, then open requests what is left of the
    ``grace``.
    """
    connections = Connections(limits)
    config = uvicorn.Config(
        application,
        http=cast("type[asyncio.Protocol]", connections),  # uvicorn calls it, and asks no more of it
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # we do not ask who called or how; a middleware less for every request
        backlog=2048,
    )
    server = _Uvicorn(config)
    port: int = listener.getsockname()[1]
    task = asyncio.create_task(server.serve(sockets=[listener]), name=f"http-{port}")
    task.add_done_callback(lambda _task: stopped.set())
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn sets a plain attribute
            await asyncio.sleep(0.005)
        if task.done():
            raise OSError(f"cannot serve on port {port}")
        yield port
    finally:
        with suppress(asyncio.CancelledError):
            await server.drain(connections, window)
        config.timeout_graceful_shutdown = max(1, round(grace.left))  # read when the server begins to stop
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
            if cut_off := set(server.server_state.tasks):
                await asyncio.wait(cut_off, timeout=FAREWELL_S)
        listener.close()
