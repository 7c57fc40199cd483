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


class _Uvicorn(uvicorn.Server):
    """uvicorn inside our own process: signals are ours, and so is the listening socket."""

    @contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


@asynccontextmanager
async def served(
    application: Application,
    host: str,
    port: int,
    stopped: asyncio.Event,
    limits: Limits,
    *,
    grace: timedelta,
) -> AsyncIterator[int]:
    """Serve an ASGI application; open requests may take ``grace`` to finish at the end.

    Raises ``OSError`` when the port is taken.
    """
    listener = _listener(host, port)
    config = uvicorn.Config(
        application,
        http=cast("type[asyncio.Protocol]", Connections(limits)),  # uvicorn calls it, and asks no more of it
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # we do not ask who called or how; a middleware less for every request
        timeout_graceful_shutdown=max(1, round(grace.total_seconds())),
        backlog=2048,
    )
    server = _Uvicorn(config)
    task = asyncio.create_task(server.serve(sockets=[listener]), name=f"http-{port}")
    task.add_done_callback(lambda _task: stopped.set())
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 - uvicorn sets a plain attribute
            await asyncio.sleep(0.005)
        if task.done():
            raise OSError(f"cannot serve on {host}:{port}")
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
        listener.close()


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.set_inheritable(False)
    return listener
