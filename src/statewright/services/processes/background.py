"""What the host of processes does on its own in each process: timers, leases, chains, wake-ups, retention.

Leases that ended, and instances that finished long ago, are looked after by every node, each row by one of them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final

from msgspec import Struct

from statewright.entity import system_principal
from statewright.failures import ProcessBadRequest
from statewright.ids import EntityId
from statewright.instants import to_us
from statewright.loop.background import log_failures, repeat, run_in_background
from statewright.operations.service import Act
from statewright.processes.language import I, P
from statewright.services.core import Caller, Core
from statewright.services.processes.failed_jobs import build_audit_line
from statewright.services.processes.hosting import HostedLanguage, Processes, ProcessHost
from statewright.services.processes.installing import BackgroundService
from statewright.services.processes.jobs import JobReport, apply_or_keep
from statewright.services.processes.kept_reports import ReportKeeper
from statewright.services.processes.successors import build_end_teller, build_successor_starter
from statewright.services.processes.timers import TimerScanner
from statewright.services.processes.writing import build_entry_event
from statewright.storage.ops.service import record_act_ahead
from statewright.storage.processes import instances, jobs, leases
from statewright.storage.processes.jobs import WorkOwner
from statewright.storage.processes.leases import LostJob
from statewright.storage.work import LOSSES
from statewright.telemetry import logs

MAX_SWEEP_BATCH: Final = 1_000
PURGE_INTERVAL: Final = timedelta(minutes=1)

log = logs.logger(__name__)


async def sweep_leases(processes: Processes) -> int:
    """Return jobs whose lease has ended to the queue, without using a retry (docs/reference/steps.md#the-contract); how
    many. Those that were lost as often as their language or definition permits fail. Raises ``StorageUnavailable``.
    """
    core, hosts = processes.core, processes.hosts
    line = build_audit_line(core, build_entry_event("lease-expired", {}), core.clock())
    lost = {hosted.name: hosted.lost_jobs for hosted in hosts.hosted if hosted.lost_jobs is not None}
    limits = {name: of_language.limit for name, of_language in lost.items() if of_language.limit is not None}
    free = await leases.sweep_expired(core.pool, limit=MAX_SWEEP_BATCH, line=line, loss_limits=limits)
    if free:
        for _, language, _ in free:
            hosts.count_expired_lease(language)
        hosts.wakeups.announce(set(free))
        log.info("leases_expired", count=len(free))
    fail_lost, arguments = partial(_fail_lost, processes), (list(hosts.names), list(limits), list(limits.values()))
    await core.takings.run_round(LOSSES, core.clock, fail_lost, *arguments, limit=MAX_SWEEP_BATCH)
    return len(free)


async def _fail_lost(processes: Processes, lost_jobs: Sequence[LostJob], taker: str) -> None:
    """Fail the jobs that were lost too often. Until that is done they stay with the worker they were lost by."""
    takings, clock = processes.core.takings, processes.core.clock
    for lost in lost_jobs:
        processes.hosts.count_expired_lease(lost.language)
        caller, owner = Caller(system_principal(lost.tenant)), WorkOwner(lost.language, lost.instance)
        with log_failures(log, "lost_job_not_failed", job=lost.id):  # a later round finds it again
            async with takings.attempt(LOSSES, lost.tenant, (lost.id,), taker, clock=clock):
                await apply_or_keep(processes, caller, EntityId(lost.id), owner, JobReport(outcome="LOST"))


REST_INTERVAL: Final = timedelta(milliseconds=500)


async def end_rests(processes: Processes) -> int:
    """Let jobs be claimed again that have rested for long enough after a failure (docs/reference/steps.md#backoff); how
    many. Raises ``StorageUnavailable``.
    """
    core = processes.core
    free = await leases.end_rests(core.pool, now=core.clock(), limit=MAX_SWEEP_BATCH)
    if free:
        processes.hosts.wakeups.announce(set(free))
    return len(free)


# Removing finished instances by age, with everything that belongs to them. Ours.

MAX_PURGE_BATCH: Final = 200
"""Instances removed by one statement: few enough not to be noticed."""

REQUEST_WINDOW: Final = timedelta(seconds=5)
"""How long one request works; who wants more asks again."""


async def purge_expired(core: Core, language: HostedLanguage, retention: timedelta) -> int:
    """Remove a batch of instances of a language, of all tenants, that finished longer ago than ``retention``; how many.
    Raises ``StorageUnavailable``.
    """
    count = await instances.delete_finished_instances(
        core.pool,
        language.name,
        finished_before=core.clock() - to_us(retention),
        tenant=None,
        limit=MAX_PURGE_BATCH,
        task_types=language.task_types,
    )
    if count:
        log.info("step_instances_purged", count=count)
    return count


class PurgeResult(Struct, frozen=True, kw_only=True):
    """How many instances were removed, and whether that was all."""

    removed: int
    is_complete: bool


async def purge(
    host: ProcessHost[P, I], caller: Caller, *, older_than: timedelta, within: timedelta = REQUEST_WINDOW
) -> PurgeResult:
    """Remove instances of the caller's tenant that finished so long ago, for a few seconds.

    Their entities, history, audit trail, executions and user tasks are gone for good. COMPLETED and CANCELLED ones are
    removed; FAILED ones stay, since they can be retried. Raises ``ProcessBadRequest`` for a negative age.
    """
    if older_than < timedelta(0):
        raise ProcessBadRequest("olderThan must not be negative")
    core = host.core
    details = {"language": host.language.name, "olderThanSeconds": round(older_than.total_seconds())}
    act = Act(action="instances.purge", target_kind="TENANT", target_id=caller.tenant, details=details)
    await record_act_ahead(core.pool, caller.tenant, caller.principal.actor, act)
    before = core.clock() - to_us(older_than)
    ends = time.monotonic() + within.total_seconds()
    removed, count = 0, MAX_PURGE_BATCH
    while count == MAX_PURGE_BATCH and (not removed or time.monotonic() < ends):
        count = await instances.delete_finished_instances(
            core.pool,
            host.language.name,
            finished_before=before,
            tenant=caller.tenant,
            limit=MAX_PURGE_BATCH,
            task_types=host.language.models.task_types,
        )
        removed += count
    return PurgeResult(removed=removed, is_complete=count < MAX_PURGE_BATCH)


NOTIFY_INTERVAL_S: Final = 0.02
"""Pause between two notifications of other processes."""


class ProcessHostConfig(Struct, frozen=True, kw_only=True):
    """Which services run, and at what intervals. Finished instances of a language without a retention are kept."""

    fires_timers: bool = True
    scan_interval: timedelta = timedelta(seconds=1)
    sweep_interval: timedelta = timedelta(seconds=5)
    retentions: Mapping[str, timedelta] = {}
    """By language."""


@asynccontextmanager
async def run_process_services(
    processes: Processes, config: ProcessHostConfig, pushers: Sequence[BackgroundService] = ()
) -> AsyncIterator[None]:
    """The background services run inside the block; jobs are pushed where there are ``pushers``."""
    hosts = processes.hosts
    work = {
        "process-successors": build_successor_starter(processes, scan_interval=config.scan_interval).run(),
        "process-ends": build_end_teller(processes, scan_interval=config.scan_interval).run(),
        "process-leases": _repeat_batches(
            partial(sweep_leases, processes), MAX_SWEEP_BATCH, config.sweep_interval, failure="lease_sweep_failed"
        ),
        "process-resting-jobs": _repeat_batches(
            partial(end_rests, processes), MAX_SWEEP_BATCH, REST_INTERVAL, failure="job_rests_not_ended"
        ),
        "process-kept-reports": ReportKeeper(processes).run(),
        "process-announcements": announce_jobs(processes),
    }
    work |= {f"process-push-{number}": pusher.run() for number, pusher in enumerate(pushers)}
    if config.fires_timers:
        work["process-timers"] = TimerScanner(processes, scan_interval=config.scan_interval).run()
    for hosted in hosts.hosted:
        if retention := config.retentions.get(hosted.name):
            remove = partial(purge_expired, processes.core, hosted, retention)
            work[f"process-purge-{hosted.name}"] = _repeat_batches(
                remove, MAX_PURGE_BATCH, PURGE_INTERVAL, failure="step_purge_failed"
            )
    async with run_in_background(work):
        yield


async def _repeat_batches(
    do_batch: Callable[[], Awaitable[int]], full: int, interval: timedelta, *, failure: str
) -> None:
    """Do batches until cancelled, at once after one that was ``full``."""

    async def run_round() -> bool:
        return await do_batch() == full

    await repeat(run_round, interval, log=log, failure=failure)


async def announce_jobs(processes: Processes) -> None:
    """Tell other processes of new jobs, all of a moment at once, until cancelled."""
    wakeups = processes.hosts.wakeups
    while True:
        topics = await wakeups.take_announcements()
        try:
            await jobs.notify(processes.core.pool, topics)
        except Exception as error:  # a background loop must outlive it; who waits looks by himself now and then
            log.warning("jobs_not_announced", error=repr(error))
        await asyncio.sleep(NOTIFY_INTERVAL_S)
