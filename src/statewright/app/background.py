"""What a service does on its own once callers can reach it: scheduled transitions, and the step engine's work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from statewright.api.metrics import Metrics
from statewright.app.tasks import cancelled
from statewright.cluster.node import ClusterNode
from statewright.compute.members import Members
from statewright.services.runtime import Runtime
from statewright.services.scheduler import Pace, Scheduler
from statewright.services.steps.background import StepPace, hosting_steps
from statewright.services.steps.push import Pusher
from statewright.settings import Settings


@asynccontextmanager
async def scheduling(settings: Settings, runtime: Runtime, metrics: Metrics) -> AsyncIterator[None]:
    """Scheduled transitions fire inside the block, if this process is to fire them.

    Those under way at its end are outliving runs like others.
    """
    if not settings.scheduler_enabled:
        yield
        return
    pace = Pace(
        scan_interval=settings.scheduler_scan_interval,
        batch_size=settings.scheduler_batch_size,
        backoff=settings.scheduler_redispatch_backoff,
        expiry_grace=settings.scheduler_expiry_grace,
    )
    scheduler = Scheduler(runtime, pace)
    metrics.watch_scheduler(scheduler.tally)
    task = asyncio.create_task(scheduler.run(), name="scheduler")
    try:
        yield
    finally:
        await cancelled([task])


@asynccontextmanager
async def stepping(settings: Settings, runtime: Runtime, members: Members, node: ClusterNode) -> AsyncIterator[None]:
    """The step engine goes on by itself inside the block, and pushes jobs to members if it is to do so."""
    pace = StepPace(
        fires_timers=settings.scheduler_enabled,
        scan_interval=settings.scheduler_scan_interval,
        sweep_interval=settings.steps_sweep_interval,
        retention=settings.steps_retention,
    )
    pusher = Pusher(runtime, members, node.local) if settings.steps_dispatch == "both" else None
    async with hosting_steps(runtime, pace, pusher):
        yield
