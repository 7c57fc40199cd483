"""What a service does on its own once callers can reach it: scheduled transitions, and the step engine's work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from statewright.app import runtime as languages
from statewright.cluster.node import ClusterNode
from statewright.compute.members import Members
from statewright.flows.process_language import FLOWS
from statewright.loop.background import run_in_background
from statewright.metrics import Metrics
from statewright.playbooks.process_language import PLAYBOOKS
from statewright.services.flows.service_tasks import ServiceTasks
from statewright.services.playbooks.service_runs import MemberTasks, ServiceRuns
from statewright.services.processes.background import ProcessHostConfig, run_process_services
from statewright.services.processes.installing import BackgroundService
from statewright.services.processes.push import DoJob
from statewright.services.runtime import Runtime
from statewright.services.scheduler import ScheduleConfig, Scheduler
from statewright.settings import Settings
from statewright.steps.process_language import STEPS


@asynccontextmanager
async def run_scheduler(settings: Settings, runtime: Runtime, metrics: Metrics) -> AsyncIterator[None]:
    """Scheduled transitions fire inside the block, if this process is to fire them.

    Those under way at its end are outliving runs like others.
    """
    if not settings.scheduler_enabled:
        yield
        return
    pace = ScheduleConfig(
        scan_interval=settings.scheduler_scan_interval,
        batch_size=settings.scheduler_batch_size,
        backoff=settings.scheduler_redispatch_backoff,
        expiry_grace=settings.scheduler_expiry_grace,
        max_attempts=settings.scheduler_max_attempts,
    )
    scheduler = Scheduler(runtime.core, pace)
    metrics.register_scheduler(scheduler.metrics)
    async with run_in_background({"scheduler": scheduler.run()}):
        yield


@asynccontextmanager
async def run_step_engine(
    settings: Settings, runtime: Runtime, members: Members, node: ClusterNode
) -> AsyncIterator[None]:
    """The step engine goes on by itself inside the block, and pushes jobs to members if it is to do so."""
    pace = ProcessHostConfig(
        fires_timers=settings.scheduler_enabled,
        scan_interval=settings.scheduler_scan_interval,
        sweep_interval=settings.steps_sweep_interval,
        retentions={
            STEPS.name: settings.steps_retention,
            FLOWS.name: settings.flows_retention,
            PLAYBOOKS.name: settings.playbooks_retention,
        },
    )
    pushes = settings.steps_dispatch == "both"
    tasks = ServiceTasks(runtime.processes, sends_requests=settings.flows_requests)
    asked = MemberTasks(runtime.core, node.callouts, wait=settings.dispatch_wait_timeout)
    runs = ServiceRuns(runtime.processes, asked)
    pipelines: dict[str, DoJob] = {PLAYBOOKS.name: runs.do}
    pushers: list[BackgroundService] = (
        [
            each.build_pusher(runtime.processes, members, node.local, pipelines.get(each.name))
            for each in languages.LANGUAGES
        ]
        if pushes
        else []
    )
    async with (
        run_process_services(runtime.processes, pace, pushers),
        run_in_background({"flow-tasks": tasks.run(), "playbook-runs": runs.run()}),
    ):
        yield
