"""``statewright serve --workers N``: everything that is there once, and the workers."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta

from msgspec import Struct

from statewright import logs
from statewright.app.banner import print_banner
from statewright.app.database import StartFailed, database_of, migrated
from statewright.app.doors import admin_door
from statewright.app.signals import Interrupted, first_of, interruptible, on_signals
from statewright.settings import Settings
from statewright.sockets import listening_socket
from statewright.storage.connections import Target
from statewright.storage.refusals import StartRefused
from statewright.supervisor.admin import Together
from statewright.supervisor.assignment import Assignment
from statewright.supervisor.processes import WorkerFailed
from statewright.supervisor.slots import Slots

STOP_MARGIN = timedelta(seconds=15)
"""What a worker has, beyond the limits of its own, to end its streams and pools before it is killed."""

log = logs.logger("supervisor")


async def serve(settings: Settings) -> int:
    """Run ``settings.workers`` workers until a signal ends them; the exit code of the process."""
    logs.configure(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        log.warning("setting_doubtful", text=warning)
    signalled, stopped = asyncio.Event(), asyncio.Event()
    on_signals(signalled)
    _on_hangup(None)
    try:
        async with interruptible(signalled) as started, _supervising(settings, signalled, stopped) as service:
            started()
            print_banner(settings, service.http_port, service.grpc_port, service.admin_port)
            await first_of(signalled, stopped)
            log.info("shutdown_started")
    except Interrupted:
        log.info("startup_interrupted")
        return 0
    except (StartFailed, StartRefused, WorkerFailed, OSError) as failure:
        log.error("startup_failed", error=str(failure))  # noqa: TRY400 - one line; the operator knows the cause
        sys.stderr.write(f"statewright: {failure}\n")
        return 1
    log.info("shutdown_complete")
    return 0


class Supervised(Struct, frozen=True, kw_only=True):
    """Where a supervised service listens."""

    http_port: int
    grpc_port: int
    admin_port: int


@asynccontextmanager
async def _supervising(
    settings: Settings, signalled: asyncio.Event, stopped: asyncio.Event
) -> AsyncIterator[Supervised]:
    """All workers are ready inside the block. ``stopped`` is set when the admin listener fails."""
    together = Together(settings.metrics_bearer)
    async with AsyncExitStack() as stack:
        admin_port = await stack.enter_async_context(admin_door(settings, together.ready, together.metrics, stopped))
        database = await stack.enter_async_context(database_of(settings))
        await migrated(settings, database)
        ports = stack.enter_context(_ports(settings))
        slots = _slots(settings, ports, database)
        stack.push_async_callback(slots.empty)
        on_signals(signalled, slots.kill)
        _on_hangup(slots)
        await slots.fill()
        together.watch(slots)
        log.info("ready", http=ports.http, grpc=ports.grpc, admin=admin_port, workers=settings.workers)
        yield Supervised(http_port=ports.http, grpc_port=ports.grpc, admin_port=admin_port)


def _slots(settings: Settings, ports: "Ports", database: Target) -> Slots:
    def assignment(number: int, http_socket: int) -> Assignment:
        return Assignment(
            number=number, database=database.dsn, http_socket=http_socket, grpc_port=ports.grpc, report=-1
        )

    return Slots(
        ports.listeners,
        assignment,
        start_within=settings.startup_timeout + STOP_MARGIN,
        stop_within=settings.shutdown_timeout + settings.drain_window + STOP_MARGIN,
    )


def _on_hangup(slots: Slots | None) -> None:
    """SIGHUP replaces the workers one by one; before there are any it does nothing, rather than end the process."""

    def hung_up() -> None:
        if slots is not None:
            slots.begin(slots.roll(), "rolling-restart")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hung_up)


class Ports:
    """The sockets that the supervisor keeps."""

    def __init__(self, listeners: list[socket.socket], http: int, grpc: int) -> None:
        self.listeners = listeners
        self.http = http
        self.grpc = grpc


@contextmanager
def _ports(settings: Settings) -> Iterator[Ports]:
    """An HTTP socket for each worker, and the gRPC port held. Raises ``OSError`` when somebody has the ports."""
    with ExitStack() as stack:
        for port in (settings.http_port, settings.grpc_port):
            listening_socket(settings.host, port).close()  # alone: another supervisor's ports can be shared, too
        first = stack.enter_context(listening_socket(settings.host, settings.http_port, shared=True))
        http = first.getsockname()[1]
        rest = [
            stack.enter_context(listening_socket(settings.host, http, shared=True)) for _ in range(settings.workers - 1)
        ]
        held = stack.enter_context(listening_socket(settings.host, settings.grpc_port, shared=True))
        for listener in (first, *rest):
            listener.listen(2048)  # from now on nobody is turned away
        yield Ports([first, *rest], http, held.getsockname()[1])
