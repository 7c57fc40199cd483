"""``statewright serve --workers N``: everything that is there once, and the workers."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from datetime import timedelta

from statewright import logs
from statewright.api.http.serving import listening_socket
from statewright.app.banner import print_banner
from statewright.app.database import StartFailed, database_of, migrated
from statewright.app.doors import admin_door
from statewright.settings import Settings
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
    stopped = asyncio.Event()
    try:
        async with AsyncExitStack() as stack:
            await _supervise(settings, stopped, stack)
    except (StartFailed, StartRefused, WorkerFailed, OSError) as failure:
        log.error("startup_failed", error=str(failure))  # noqa: TRY400 - one line; the operator knows the cause
        sys.stderr.write(f"statewright: {failure}\n")
        return 1
    log.info("shutdown_complete")
    return 0


async def _supervise(settings: Settings, stopped: asyncio.Event, stack: AsyncExitStack) -> None:
    together = Together(settings.metrics_bearer)
    admin_port = await stack.enter_async_context(admin_door(settings, together.ready, together.metrics, stopped))
    database = await stack.enter_async_context(database_of(settings))
    await migrated(settings, database)
    ports = stack.enter_context(_ports(settings))
    slots = Slots(
        ports.listeners,
        lambda number, http: Assignment(
            number=number, database=database.dsn, http_socket=http, grpc_port=ports.grpc, report=-1
        ),
        start_within=settings.startup_timeout + STOP_MARGIN,
        stop_within=settings.shutdown_timeout + settings.drain_window + STOP_MARGIN,
    )
    _on_signals(stopped, slots)
    stack.push_async_callback(slots.empty)
    filling = asyncio.create_task(slots.fill(), name="start-workers")
    waiting = asyncio.create_task(stopped.wait(), name="stop-signal")
    await asyncio.wait([filling, waiting], return_when=asyncio.FIRST_COMPLETED)
    if stopped.is_set():
        filling.cancel()
        await asyncio.wait([filling])
        return
    await filling
    together.watch(slots)
    log.info("ready", http=ports.http, grpc=ports.grpc, admin=admin_port, workers=settings.workers)
    print_banner(settings, ports.http, ports.grpc, admin_port)
    await waiting
    log.info("shutdown_started")


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


def _on_signals(stopped: asyncio.Event, slots: Slots) -> None:
    """SIGTERM and SIGINT drain, the second one ends everything at once; SIGHUP replaces the workers one by one."""

    def stop() -> None:
        if stopped.is_set():
            log.warning("hard_exit_forced_by_second_signal")
            slots.kill()
            os._exit(2)
        stopped.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, lambda: slots.begin(slots.roll(), "rolling-restart"))
