"""``statewright serve --workers N``: the storage, ports and admin listener of the service, and its workers."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Final

from msgspec import Struct

from statewright import logs
from statewright.app.database import migrate_database, open_database
from statewright.app.listeners import serve_admin
from statewright.app.serving import run_until_signal
from statewright.app.signals import handle_signals
from statewright.settings import Settings
from statewright.sockets import bind_listening_socket
from statewright.storage.connections import DatabaseUrl
from statewright.supervisor.admin import AggregateHealth
from statewright.supervisor.worker_pool import WorkerPool
from statewright.supervisor.worker_process import WorkerConfig
from statewright.tls import check_tls

STOP_MARGIN: Final = timedelta(seconds=15)
"""Time that a worker has, beyond the limits of its own, to close its streams and pools before it is killed."""

log = logs.logger(__name__)


async def serve(settings: Settings) -> int:
    """Run ``settings.workers`` workers until a signal ends them; the exit code of the process."""
    _on_hangup(None)
    return await run_until_signal(settings, lambda signalled, stopped: _supervise(settings, signalled, stopped))


class SupervisedService(Struct, frozen=True, kw_only=True):
    """Where a supervised service listens."""

    http_port: int
    grpc_port: int
    admin_port: int


@asynccontextmanager
async def _supervise(
    settings: Settings, signalled: asyncio.Event, stopped: asyncio.Event
) -> AsyncIterator[SupervisedService]:
    """Run the service: inside the block all workers are ready. ``stopped`` is set when the admin listener fails."""
    check_tls(settings.tls)
    health = AggregateHealth(settings.metrics_bearer)
    async with AsyncExitStack() as stack:
        ports = stack.enter_context(_bind_ports(settings))
        admin_port = await stack.enter_async_context(
            serve_admin(settings, health.is_ready, health.collect_metrics, stopped)
        )
        database = await stack.enter_async_context(open_database(settings))
        await migrate_database(settings, database)
        ports.listen()
        pool = _build_pool(settings, ports, database)
        stack.push_async_callback(pool.stop)
        handle_signals(signalled, pool.kill)
        _on_hangup(pool)
        await pool.start()
        health.set_pool(pool)
        log.info("ready", http=ports.http, grpc=ports.grpc, admin=admin_port, workers=settings.workers)
        yield SupervisedService(http_port=ports.http, grpc_port=ports.grpc, admin_port=admin_port)


def _build_pool(settings: Settings, ports: "Ports", database: DatabaseUrl) -> WorkerPool:
    def build_config(number: int, http_socket: int) -> WorkerConfig:
        return WorkerConfig(
            number=number, database=database.dsn, http_socket=http_socket, grpc_port=ports.grpc, report=-1
        )

    return WorkerPool(
        ports.listeners,
        build_config,
        start_within=settings.startup_timeout + STOP_MARGIN,
        stop_within=settings.shutdown_timeout + settings.drain_window + STOP_MARGIN,
    )


def _on_hangup(pool: WorkerPool | None) -> None:
    """SIGHUP replaces the workers one by one; before there are any it does nothing, rather than end the process."""

    def restart() -> None:
        if pool is not None:
            pool.start_task(pool.roll(), "rolling-restart")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, restart)


class Ports:
    """The sockets that the supervisor keeps open, and the ports they are bound to."""

    def __init__(self, listeners: list[socket.socket], http: int, grpc: int) -> None:
        self.listeners = listeners
        self.http = http
        self.grpc = grpc

    def listen(self) -> None:
        """From now on connections wait instead of being refused."""
        for listener in self.listeners:
            listener.listen(2048)


@contextmanager
def _bind_ports(settings: Settings) -> Iterator[Ports]:
    """An HTTP socket for each worker, and one that keeps the gRPC port. Raises ``OSError`` when a port is taken."""
    with ExitStack() as stack:
        for port in (settings.http_port, settings.grpc_port):
            bind_listening_socket(settings.host, port).close()  # alone: another supervisor's ports can be shared, too
        first = stack.enter_context(bind_listening_socket(settings.host, settings.http_port, shared=True))
        http = first.getsockname()[1]
        rest = [
            stack.enter_context(bind_listening_socket(settings.host, http, shared=True))
            for _ in range(settings.workers - 1)
        ]
        held = stack.enter_context(bind_listening_socket(settings.host, settings.grpc_port, shared=True))
        yield Ports([first, *rest], http, held.getsockname()[1])
