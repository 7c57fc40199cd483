"""``statewright serve``: a service from the command to its exit code, whether one process runs it or several. The
operator's first signal ends what runs, or what is being started, in good order.
"""

import asyncio
import errno
import faulthandler
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Final, Protocol

from statewright.app.database import StartFailed
from statewright.app.listeners import raise_file_limit
from statewright.app.service import run_warm_service
from statewright.loop.background import cancel_all, run_in_background
from statewright.settings import Settings
from statewright.storage.migrate import StartRefused
from statewright.telemetry import logs

log = logs.logger(__name__)


MIN_STILL: Final = timedelta(seconds=10)
"""After so long others take over what a node that says nothing has begun."""

_PROOF_INTERVAL_S: Final = 1.0
_STANDARD_ERROR: Final = 2


class Interrupted(Exception):
    """A signal came before the service was up."""


def handle_signals(
    stopped: asyncio.Event, at_once: Callable[[], None] | None = None, *, ends_on_hangup: bool = False
) -> None:
    """The first signal drains, the second one ends the process at once, after ``at_once``. SIGHUP is one of them where
    it ``ends_on_hangup``, unless it is ignored, which `nohup` asks for.

    Called again it takes the place of the call before.
    """

    def handle_signal() -> None:
        if stopped.is_set():
            log.warning("hard_exit_forced_by_second_signal")
            if at_once is not None:
                at_once()
            os._exit(2)
        stopped.set()

    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if ends_on_hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, handle_signal)


@asynccontextmanager
async def interrupt_on_signal(signalled: asyncio.Event) -> AsyncIterator[Callable[[], None]]:
    """A block that a signal ends until the function it is given was called. Raises ``Interrupted``."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - coroutines run in tasks
    interrupted = False

    async def watch() -> None:
        nonlocal interrupted
        await signalled.wait()
        interrupted = True
        task.cancel()

    watcher = asyncio.create_task(watch(), name="startup-signals")

    def stop_watching() -> None:
        watcher.cancel()

    try:
        yield stop_watching
    except asyncio.CancelledError as cut:
        if not interrupted or task.uncancel():
            raise
        raise Interrupted from cut
    finally:
        watcher.cancel()


async def wait_first(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    await cancel_all(waits)


@asynccontextmanager
async def end_when_still(limit: timedelta) -> AsyncIterator[None]:
    """Inside the block the process ends, with code 1 and the stacks of its threads on standard error, when its event
    loop has stood still for so long, or for ``MIN_STILL``. No signal would reach it: those that end it well are
    heard by the loop. A thread of the interpreter that runs no Python watches, since what keeps the loop may keep the
    interpreter, too.
    """
    limit_s = max(limit, MIN_STILL).total_seconds()

    async def prove() -> None:
        while True:
            faulthandler.dump_traceback_later(limit_s, exit=True, file=_STANDARD_ERROR)
            await asyncio.sleep(_PROOF_INTERVAL_S)

    try:
        async with run_in_background({"proof-of-life": prove()}):
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()


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
    return await run_until_signal(
        settings, lambda _signalled, stopped: run_warm_service(settings, stopped), ends_on_hangup=True
    )


async def run_until_signal(settings: Settings, run: ServiceRun, *, ends_on_hangup: bool = False) -> int:
    """Run a service until a signal ends it, or its start; the exit code of the process. What SIGHUP does is for the
    service to say unless it ``ends_on_hangup``.
    """
    logs.configure(settings.log_level, settings.log_format)
    raise_file_limit()
    for warning in settings.warnings:
        log.warning("setting_doubtful", text=warning)
    signalled, stopped = asyncio.Event(), asyncio.Event()
    handle_signals(signalled, ends_on_hangup=ends_on_hangup)
    try:
        async with (
            end_when_still(settings.drain_window + settings.shutdown_timeout),
            interrupt_on_signal(signalled) as mark_started,
            run(signalled, stopped) as listening,
        ):
            mark_started()
            announce(settings, listening)
            await wait_first(signalled, stopped)
            log.info("shutdown_started")
    except Interrupted:
        log.info("startup_interrupted")
        return 0
    except (StartFailed, StartRefused, OSError) as failure:
        reason = explain_start(settings, str(failure))
        log.error("startup_failed", error=reason)  # noqa: TRY400 - one line; the operator knows the cause
        sys.stderr.write(f"statewright: {reason}\n")
        return 1
    log.info("shutdown_complete")
    return 0


def explain_start(settings: Settings, reason: str) -> str:
    """Why the service did not start, with the setting of a port that another program has."""
    taken = (
        name
        for name in ("http_port", "grpc_port", "admin_port")
        if reason.endswith(f":{getattr(settings, name)}: {os.strerror(errno.EADDRINUSE)}")
    )
    return "; ".join([reason, *(f"{settings.name_variable(name)} chooses another port" for name in taken)])


def announce(settings: Settings, listening: Listening) -> None:
    """Be loud about mock authentication (decision A3), and say where everything is. No banner where it is not wanted,
    or where every line is read as JSON.
    """
    if settings.iam_mode == "mock":
        log.warning("mock_authentication", text="every caller is an administrator of one tenant; never expose this")
    if settings.suppress_banner or settings.log_format == "json":
        return
    scheme = "http" if settings.tls is None else "https"
    base = f"{scheme}://{settings.host}:{listening.http_port}"
    lines = [
        "",
        "  Statewright",
        *([f"  pages  {base}/console/   (the console)"] if settings.console else []),
        f"  REST   {base}{settings.context_path}   (described at /docs)",
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
