"""``statewright serve``: a service from the command to its exit code, whether one process runs it or several."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from statewright import logs
from statewright.app.database import StartFailed
from statewright.app.open_files import raise_file_limit
from statewright.app.service import run_service
from statewright.app.signals import Interrupted, handle_signals, interrupt_on_signal, wait_first
from statewright.settings import Settings
from statewright.storage.startup_errors import StartRefused

log = logs.logger(__name__)


class Listening(Protocol):
    """Where a running service listens."""

    @property
    def http_port(self) -> int: ...

    @property
    def grpc_port(self) -> int: ...

    @property
    def admin_port(self) -> int: ...


ServiceRun = Callable[[asyncio.Event, asyncio.Event], AbstractAsyncContextManager[Listening]]
"""A service that is ready inside the block. The first event is set by a signal; the service sets the second one when it
ends on its own.
"""


async def serve(settings: Settings) -> int:
    """Run the service in this process until a signal ends it; the exit code of the process."""
    return await run_until_signal(settings, lambda _signalled, stopped: run_service(settings, stopped))


async def run_until_signal(settings: Settings, run: ServiceRun) -> int:
    """Run a service until a signal ends it, or its start; the exit code of the process."""
    logs.configure(settings.log_level, settings.log_format)
    raise_file_limit()
    for warning in settings.warnings:
        log.warning("setting_doubtful", text=warning)
    signalled, stopped = asyncio.Event(), asyncio.Event()
    handle_signals(signalled)
    try:
        async with interrupt_on_signal(signalled) as mark_started, run(signalled, stopped) as listening:
            mark_started()
            announce(settings, listening)
            await wait_first(signalled, stopped)
            log.info("shutdown_started")
    except Interrupted:
        log.info("startup_interrupted")
        return 0
    except (StartFailed, StartRefused, OSError) as failure:
        log.error("startup_failed", error=str(failure))  # noqa: TRY400 - one line; the operator knows the cause
        sys.stderr.write(f"statewright: {failure}\n")
        return 1
    log.info("shutdown_complete")
    return 0


def announce(settings: Settings, listening: Listening) -> None:
    """Be loud about mock authentication (decision A3), and say where everything is. No banner where it is not wanted,
    or where every line is read as JSON.
    """
    if settings.iam_mode == "mock":
        log.warning("mock_authentication", text="every caller is an administrator of one tenant; never expose this")
    if settings.suppress_banner or settings.log_format == "json":
        return
    console = f"http://{settings.host}:{listening.http_port}/console/"
    lines = [
        "",
        "  Statewright",
        *([f"  pages  {console}   (the console)"] if settings.console else []),
        f"  REST   http://{settings.host}:{listening.http_port}{settings.context_path}   (described at /docs)",
        f"  gRPC   {settings.host}:{listening.grpc_port}",
        f"  admin  http://{settings.admin_bind_address}:{listening.admin_port}   (/livez /readyz /metrics)",
        f"  data   {'PostgreSQL by URL' if settings.storage == 'postgres' else settings.data_directory}",
    ]
    if settings.iam_mode == "mock":
        lines += [
            "",
            "  WARNING: mock authentication. Every caller is an administrator of one tenant. Never expose this.",
        ]
    sys.stdout.write("\n".join([*lines, "", ""]))
    sys.stdout.flush()
