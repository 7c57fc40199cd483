"""What the step engine does on its own in each process: timers, leases, chains, wake-ups, retention."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from msgspec import Struct

from statewright import logs
from statewright.services.runtime import Runtime
from statewright.services.steps.chains import Chains
from statewright.services.steps.push import Pusher
from statewright.services.steps.timers import Timers
from statewright.services.steps.upkeep import Leases, Retention
from statewright.storage.steps import wakeups

QUIET_S = 0.02
"""Pause between two notifications of other processes."""

log = logs.logger("steps")


class StepPace(Struct, frozen=True, kw_only=True):
    """How often. A ``retention`` of zero keeps finished instances for ever."""

    fires_timers: bool = True
    scan_interval: timedelta = timedelta(seconds=1)
    sweep_interval: timedelta = timedelta(seconds=5)
    retention: timedelta = timedelta(0)


@asynccontextmanager
async def hosting_steps(runtime: Runtime, pace: StepPace, pusher: Pusher | None = None) -> AsyncIterator[None]:
    """The background services run inside the block; jobs are pushed if there is a ``pusher``."""
    services = [
        Chains(runtime, scan_interval=pace.scan_interval).run(),
        Leases(runtime, every=pace.sweep_interval).run(),
        announce(runtime),
    ]
    if pusher is not None:
        services.append(pusher.run())
    if pace.fires_timers:
        services.append(Timers(runtime, scan_interval=pace.scan_interval).run())
    if pace.retention:
        services.append(Retention(runtime, retention=pace.retention).run())
    tasks = [asyncio.create_task(service, name="steps") for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def announce(runtime: Runtime) -> None:
    """Tell other processes of new jobs, all of a moment at once, until cancelled."""
    while True:
        topics = await runtime.steps.wakeups.news()
        try:
            await wakeups.notify(runtime.pool, topics)
        except Exception as error:  # a background loop must outlive it; who waits looks by himself now and then
            log.warning("jobs_not_announced", error=repr(error))
        await asyncio.sleep(QUIET_S)
