"""Signals of the operator: the first one ends what runs, or what is being started, in good order."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from statewright import logs
from statewright.background import cancel_all

log = logs.logger(__name__)


class Interrupted(Exception):
    """A signal came before the service was up."""


def handle_signals(stopped: asyncio.Event, at_once: Callable[[], None] | None = None) -> None:
    """The first signal drains, the second one ends the process at once, after ``at_once``.

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
    for number in (signal.SIGINT, signal.SIGTERM):
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
