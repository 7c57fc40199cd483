"""Jobs that fail: another try, or the end of the instance (docs/reference/steps.md#when-a-job-fails)."""

import random
from typing import assert_never

from msgspec.structs import replace

from statewright.entity import Event
from statewright.failures import Conflict
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.processes.changes import (
    MAX_RETRY_AFTER_S,
    FailureReport,
    GivenUp,
    Ignored,
    JobState,
    Requeued,
    decide_retry,
)
from statewright.services.core import Caller, Core
from statewright.services.processes.advancing import MAX_ATTEMPTS, refuse_joined
from statewright.services.processes.documents import cut_reason, refuse_unstorable
from statewright.services.processes.hosting import JobQueue
from statewright.services.processes.jobs import JobReport, apply_or_keep, count_kills, find_job
from statewright.services.processes.writing import build_entry_event, encode_events
from statewright.storage.pool import Pool
from statewright.storage.processes import jobs as stored
from statewright.storage.processes import leases
from statewright.storage.processes.jobs import QueuedJob
from statewright.storage.processes.leases import AuditLine


async def fail(queue: JobQueue, caller: Caller, job_id: str, report: FailureReport) -> None:
    """A worker's failure: another try, or the end of the instance (docs/reference/steps.md#when-a-job-fails). Without
    effect when it is late (J6).

    Raises ``ProcessNotFound`` (``job "X" not found``).
    """
    refuse_joined(caller)
    report = replace(report, message=cut_reason(report.message))
    await refuse_unstorable({"errorMessage": report.message})
    job, owner = await find_job(queue, caller.tenant, job_id)
    for _ in range(MAX_ATTEMPTS):
        queued = await stored.fetch_queued_job(queue.parts.core.pool, caller.tenant, owner.language, job)
        if queued is None or queued.kept:  # finished, or reported on
            return
        match decide_retry(_to_job_state(queued), report):
            case Ignored():
                return
            case Requeued():
                if await _requeue(queue, caller, job, owner.language, queued, report):
                    return
            case GivenUp(reason):
                async with count_kills(queue, caller.tenant, job):
                    await apply_or_keep(queue.parts, caller, job, owner, JobReport(outcome="FAILED", reason=reason))
                queue.parts.hosts.owners_of_jobs.discard((caller.tenant, job))
                return
            case _ as never:
                assert_never(never)
    raise Conflict("too many others change this job")


async def _requeue(
    queue: JobQueue, caller: Caller, job: EntityId, language: str, judged: QueuedJob, report: FailureReport
) -> bool:
    pause_us = await _compute_pause_us(queue, caller.tenant, language, judged, report)
    at = queue.parts.core.clock()
    detail: JsonObject = {"jobId": uuid_to_ulid(job), "retriesRemaining": judged.retries - 1, "error": report.message}
    if pause_us:
        detail["delayMs"] = pause_us // 1000
    line = build_audit_line(queue.parts.core, build_entry_event("job-retried", detail), at)
    rests_until = at + pause_us if pause_us else None

    async def requeue(pool: Pool) -> bool:
        return await leases.requeue_job(pool, caller.tenant, job, judged, line, rests_until=rests_until)

    done = await caller.carry_out(queue.parts.core.pool, requeue, lambda _: None)
    if done:
        metrics = queue.get_language(language).metrics
        metrics.job_retries += 1
        metrics.delayed_retries += bool(pause_us)
    if done and not pause_us:
        queue.parts.hosts.wakeups.announce([(caller.tenant, language, judged.job_type)])
    return done


async def _compute_pause_us(
    queue: JobQueue, tenant: TenantId, language: str, judged: QueuedJob, report: FailureReport
) -> int:
    """How long the job is to rest: as the worker says, else as the definition does."""
    if report.retry_after_s is not None:
        return min(max(report.retry_after_s, 0), MAX_RETRY_AFTER_S) * 1_000_000
    policy = await queue.get_language(language).find_policy(tenant, judged)
    return 0 if policy.backoff is None else policy.backoff.compute_pause_us(judged.retries, random.random())  # noqa: S311 - spreads load


def build_audit_line(core: Core, event: Event, at: int) -> AuditLine:
    """An event for statements that change jobs only."""
    return AuditLine(at=at, transaction=core.ids.new_transaction_id(), events=encode_events([event], at))


def _to_job_state(job: QueuedJob) -> JobState:
    return JobState(
        status="UNLOCKED" if job.lock_expires_at is None else "LOCKED",
        worker_id=job.worker or None,
        retries_remaining=job.retries,
        is_held=job.held,
    )
