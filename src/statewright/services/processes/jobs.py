"""Jobs: claim, complete, fail, renew (docs/reference/steps.md#jobs, docs/reference/steps.md#workers,
docs/reference/steps.md#when-a-job-fails).
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions.wire import parse_tags
from statewright.engine.events import Event
from statewright.failures import ComputationKilled, Conflict, ProcessBadRequest, ProcessConflict, ProcessNotFound
from statewright.ids import EntityId, TenantId, parse_entity_id
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject, JsonValue, quote
from statewright.loop.background import log_failures, wait_at_most
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
from statewright.services.processes import audit
from statewright.services.processes.advancing import MAX_ATTEMPTS, refuse_joined
from statewright.services.processes.documents import cut_reason, refuse_unstorable
from statewright.services.processes.hosting import JobQueue
from statewright.services.processes.kept_reports import JobReport, apply_or_keep
from statewright.services.processes.wakeups import Topic
from statewright.services.processes.writing import to_entity_id
from statewright.storage.pool import Pool
from statewright.storage.processes import jobs as stored
from statewright.storage.processes import leases
from statewright.storage.processes.jobs import (
    JobKind,
    JobLease,
    LockedJob,
    PushRoute,
    QueuedJob,
    WorkOwner,
)
from statewright.storage.processes.leases import AuditLine
from statewright.telemetry import logs

log = logs.logger(__name__)

MAX_WAIT: Final = timedelta(seconds=60)
"""Most that a claim waits for a job."""


class JobClaim(Struct, frozen=True, kw_only=True):
    """What a worker asks for, its numbers in range."""

    worker_id: str
    job_types: tuple[str, ...]
    max_jobs: int
    """1 … 1,000."""
    lease: timedelta = timedelta(seconds=30)
    wait: timedelta = timedelta(0)
    """How long to wait for the first job when there is none; at most ``MAX_WAIT``."""
    route: PushRoute | None = None
    """Only jobs that are pushed this way, of a queue of one language; None: all of the types."""


class ClaimedJob(Struct, frozen=True, kw_only=True):
    """A job that is locked for a worker. Instants are epoch microseconds; ``render_job`` is a neutral record of it."""

    id: str
    instance_id: str
    definition_id: str
    definition_version: int
    node_id: str
    execution_id: str
    job_type: str
    worker_id: str
    locked_at: int
    lock_expires_at: int
    retries_remaining: int
    variables: JsonObject
    """What the language gives the worker: of a step all variables, as they were when the job was made."""
    created_at: int


def render_job(job: ClaimedJob) -> JsonObject:
    """A record of a job for languages that have no form of their own."""
    return {
        "id": job.id,
        "instanceId": job.instance_id,
        "nodeId": job.node_id,
        "executionId": job.execution_id,
        "jobType": job.job_type,
        "status": "LOCKED",
        "workerId": job.worker_id,
        "lockedAt": format_instant(job.locked_at),
        "lockExpiresAt": format_instant(job.lock_expires_at),
        "retriesRemaining": job.retries_remaining,
        "variables": job.variables,
        "createdAt": format_instant(job.created_at),
    }


async def claim(queue: JobQueue, caller: Caller, request: JobClaim) -> tuple[ClaimedJob, ...]:
    """Lock up to ``max_jobs`` of the oldest jobs of any of the types; in order of creation, empty when there are none.

    Fewer where the inputs of the jobs are large. A job is never handed to two workers at once. Where nothing is known
    to be there the database is not asked (``idle_topics``). With ``wait`` the call ends as soon as it has any job. When
    the task that waits is cancelled, either nothing was claimed, or the claim is given back at once; a claim whose
    answer does not reach its worker otherwise comes back when its lease ends.
    """
    types = tuple(dict.fromkeys(request.job_types))
    if not types or request.max_jobs <= 0:
        return ()
    request = replace(request, job_types=types)
    if request.route is None:
        queue.parts.hosts.polling_workers.note(caller.tenant, request.worker_id, types)
    wait = min(request.wait, MAX_WAIT)
    if wait <= timedelta(0):
        topics = _list_topics(queue, caller.tenant, request)
        if request.route is None and queue.parts.hosts.wakeups.idle.are_idle(topics):
            queue.metrics.polls.observe(0)
            return ()
        return await _claim_once(queue, caller.tenant, request)
    return await _claim_with_wait(queue, caller.tenant, request, wait)


async def complete(
    queue: JobQueue, caller: Caller, job_id: str, result: JsonValue = None, *, worker_id: str = ""
) -> None:
    """A worker's result; the first one counts. Late, repeated and foreign ones are accepted without effect (J6).

    Raises ``ProcessNotFound`` (``job "X" not found``), ``ProcessBadRequest`` for what cannot be stored or is no result
    in the language of the job.
    """
    refuse_joined(caller)
    await refuse_unstorable(result)
    job, owner = await _find_job(queue, caller.tenant, job_id)
    async with _count_kills(queue, caller.tenant, job):
        await apply_or_keep(queue.parts, caller, job, owner, JobReport(outcome="COMPLETED", result=result))
    queue.parts.hosts.owners_of_jobs.discard((caller.tenant, job))


async def fail(queue: JobQueue, caller: Caller, job_id: str, report: FailureReport) -> None:
    """A worker's failure: another try, or the end of the instance (docs/reference/steps.md#when-a-job-fails). Without
    effect when it is late (J6).

    Raises ``ProcessNotFound`` (``job "X" not found``).
    """
    refuse_joined(caller)
    report = replace(report, message=cut_reason(report.message))
    await refuse_unstorable({"errorMessage": report.message})
    job, owner = await _find_job(queue, caller.tenant, job_id)
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
                async with _count_kills(queue, caller.tenant, job):
                    await apply_or_keep(queue.parts, caller, job, owner, JobReport(outcome="FAILED", reason=reason))
                queue.parts.hosts.owners_of_jobs.discard((caller.tenant, job))
                return
            case _ as never:
                assert_never(never)
    raise Conflict("too many others change this job")


async def report_progress(
    queue: JobQueue, caller: Caller, job_id: str, report: JsonValue, *, worker_id: str
) -> JsonObject:
    """What a worker has done of a job that it goes on with; what it need not report again.

    Raises ``ProcessConflict`` when the worker does not hold the job (any more) or there is no such job, so that it can
    stop; ``ProcessBadRequest`` for a report that is none, and for a job that is not to report.
    """
    refuse_joined(caller)
    await refuse_unstorable(report)
    lost = ProcessConflict(f"job {quote(job_id)} is not locked by worker {quote(worker_id)}")
    try:
        job, owner = await _find_job(queue, caller.tenant, job_id)
    except ProcessNotFound:
        raise lost from None
    take_report = queue.get_language(owner.language).take_report
    if take_report is None:
        raise ProcessBadRequest(f"job {quote(job_id)} reports its result only")
    queued = await stored.fetch_queued_job(queue.parts.core.pool, caller.tenant, owner.language, job)
    if queued is None or queued.worker != worker_id or queued.locked_at is None:
        raise lost
    waits = queue.parts.core.suspensions.find_job_type(caller.tenant, queued.job_type) is not None
    async with _count_kills(queue, caller.tenant, job):
        return await take_report(caller, owner.instance, uuid_to_ulid(job), report, queued.locked_at, waits)


@asynccontextmanager
async def _count_kills(queue: JobQueue, tenant: TenantId, job: EntityId) -> AsyncIterator[None]:
    """A report of which the effect is killed while it is computed fails, and counts: so many park the job."""
    try:
        yield
    except ComputationKilled:
        core = queue.parts.core
        with log_failures(log, "killed_report_not_counted", job=job):
            await leases.count_kill(core.pool, tenant, job, core.takings.sign(core.clock()))
        raise


async def renew(queue: JobQueue, caller: Caller, job_id: str, *, worker_id: str, lease: timedelta) -> int:
    """Lengthen a lease, from now on; when it ends, in epoch microseconds. Ours.

    Raises ``ProcessNotFound``, and ``ProcessConflict`` when the worker does not hold the job (any more).
    """
    job, _ = await _find_job(queue, caller.tenant, job_id)
    until = queue.parts.core.clock() + lease // timedelta(microseconds=1)
    if not await leases.renew_lease(queue.parts.core.pool, caller.tenant, job, worker=worker_id, until=until):
        raise ProcessConflict(f"job {quote(job_id)} is not locked by worker {quote(worker_id)}")
    return until


async def release(queue: JobQueue, caller: Caller, job_id: str, *, worker_id: str) -> None:
    """Give a claimed job back without using a retry. Without effect when the worker does not hold it (any more)."""
    job = parse_entity_id(job_id)
    if job is not None:
        await _release_jobs(queue, caller.tenant, [job], worker_id)


async def rest(queue: JobQueue, caller: Caller, job_id: str, *, worker_id: str, until: int) -> None:
    """Give a claimed job back that is not to be claimed before an instant, in epoch microseconds. Without effect when
    the worker does not hold it (any more).
    """
    job = parse_entity_id(job_id)
    if job is not None:
        await leases.release_jobs(
            queue.parts.core.pool, caller.tenant, queue.languages, [job], worker=worker_id, rests_until=until
        )


def build_not_found(job_id: str) -> ProcessNotFound:
    """What is said of an unknown job."""
    return ProcessNotFound(f"job {quote(job_id)} not found")


POLL_INTERVAL_S: Final = 1.0
"""Pause after which a waiting claim looks by itself: wake-ups of other processes can be lost."""


async def _claim_with_wait(
    queue: JobQueue, tenant: TenantId, request: JobClaim, wait: timedelta
) -> tuple[ClaimedJob, ...]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait.total_seconds()
    topics = _list_topics(queue, tenant, request)
    with queue.parts.hosts.wakeups.listen(topics) as woken:
        while True:
            woken.clear()
            found = await _claim_once(queue, tenant, request)
            if len(found) == request.max_jobs:
                queue.parts.hosts.wakeups.wake(topics)
            left = deadline - loop.time()
            if found or left <= 0:
                return found
            await wait_at_most(woken.wait(), min(left, POLL_INTERVAL_S))


async def _claim_once(queue: JobQueue, tenant: TenantId, request: JobClaim) -> tuple[ClaimedJob, ...]:
    """Claim now; when the task is cancelled meanwhile, the claim ends first, and is given back."""
    claiming = asyncio.ensure_future(_claim_now(queue, tenant, request))
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        queue.parts.core.start_detached(_undo_claim(queue, tenant, claiming, request.worker_id))
        raise


async def _undo_claim(
    queue: JobQueue, tenant: TenantId, claiming: "asyncio.Future[tuple[ClaimedJob, ...]]", worker_id: str
) -> None:
    claimed = await claiming
    if claimed:
        await _release_jobs(queue, tenant, [to_entity_id(job.id) for job in claimed], worker_id)


async def _release_jobs(queue: JobQueue, tenant: TenantId, jobs: list[EntityId], worker_id: str) -> None:
    free = await leases.release_jobs(queue.parts.core.pool, tenant, queue.languages, jobs, worker=worker_id)
    if free:
        queue.parts.hosts.wakeups.announce(free)


async def _claim_now(queue: JobQueue, tenant: TenantId, request: JobClaim) -> tuple[ClaimedJob, ...]:
    suspensions = queue.parts.core.suspensions
    if not suspensions.is_current():
        await suspensions.ensure_current()
    if not suspensions.is_idle(tenant):
        types = tuple(each for each in request.job_types if suspensions.find_job_type(tenant, each) is None)
        if not types or (request.route and suspensions.find_tags(tenant, parse_tags(request.route.tags or types[0]))):
            return ()
        request = replace(request, job_types=types)
    began = asyncio.get_running_loop().time()
    now = queue.parts.core.clock()
    lease = JobLease(worker=request.worker_id, now=now, until=now + request.lease // timedelta(microseconds=1))
    if request.route is None:
        found = await _lock_jobs(queue, tenant, request, lease)
    else:
        [language] = queue.languages
        held = suspensions.get_held_processes(tenant)
        found = await stored.claim_route(
            queue.parts.core.pool, tenant, language, request.route, request.max_jobs, lease, held
        )
    took = asyncio.get_running_loop().time() - began
    queue.metrics.polls.observe(took)
    queue.metrics.waits["job.poll_skip_locked"].observe(took)
    return await _hand_out(queue, tenant, found, lease)


async def _lock_jobs(queue: JobQueue, tenant: TenantId, request: JobClaim, lease: JobLease) -> list[LockedJob]:
    """Lock jobs of the types that are not known to be idle; of all when they are."""
    idle = queue.parts.hosts.wakeups.idle
    topics = _list_topics(queue, tenant, request)
    topics = [topic for topic in topics if not idle.are_idle([topic])] or topics
    with idle.look(topics) as look:
        wanted = [JobKind(job_type, language) for _, language, job_type in topics]
        held = queue.parts.core.suspensions.get_held_processes(tenant)
        found = await stored.claim_jobs(queue.parts.core.pool, tenant, wanted, request.max_jobs, lease, held)
        if len(found) < request.max_jobs and not stored.is_cut_short(found):
            idle.prove(look)
    return found


async def _hand_out(
    queue: JobQueue, tenant: TenantId, found: list[LockedJob], lease: JobLease
) -> tuple[ClaimedJob, ...]:
    """Claimed jobs with their payloads. When one cannot be made, all jobs go back."""
    handed_out = []
    try:
        for job in found:
            language = queue.get_language(job.language)
            handed_out.append(_to_claimed_job(job, lease, await language.build_payload(tenant, job)))
            queue.parts.hosts.handed_out.count((tenant, job.job_type))
            queue.parts.hosts.owners_of_jobs.put((tenant, job.id), WorkOwner(job.language, job.instance))
            language.metrics.pickup.observe(max(lease.now - job.created_at, 0) / 1_000_000)
    except BaseException:
        jobs = [EntityId(job.id) for job in found]
        queue.parts.core.start_detached(_release_jobs(queue, tenant, jobs, lease.worker))
        raise
    return tuple(handed_out)


def _list_topics(queue: JobQueue, tenant: TenantId, request: JobClaim) -> list[Topic]:
    return [(tenant, language, job_type) for job_type in request.job_types for language in queue.languages]


async def _find_job(queue: JobQueue, tenant: TenantId, job_id: str) -> tuple[EntityId, WorkOwner]:
    """The row of a job and whose it is, whether finished or not. Raises ``ProcessNotFound``."""
    job = parse_entity_id(job_id)
    if job is None:
        raise build_not_found(job_id)
    owner = queue.parts.hosts.owners_of_jobs.get((tenant, job))
    if owner is None or owner.language not in queue.languages:
        owner = await stored.fetch_owner_of_work(queue.parts.core.pool, tenant, queue.languages, job)
    if owner is None:
        raise build_not_found(job_id)
    return job, owner


async def _requeue(
    queue: JobQueue, caller: Caller, job: EntityId, language: str, judged: QueuedJob, report: FailureReport
) -> bool:
    pause_us = await _compute_pause_us(queue, caller.tenant, language, judged, report)
    at = queue.parts.core.clock()
    detail: JsonObject = {"jobId": uuid_to_ulid(job), "retriesRemaining": judged.retries - 1, "error": report.message}
    if pause_us:
        detail["delayMs"] = pause_us // 1000
    line = build_audit_line(queue.parts.core, audit.build_entry_event("job-retried", detail), at)
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
    backoff = await queue.get_language(language).find_backoff(tenant, judged)
    return 0 if backoff is None else backoff.compute_pause_us(judged.retries, random.random())  # noqa: S311 - spreads load


def build_audit_line(core: Core, event: Event, at: int) -> AuditLine:
    """An event for statements that change jobs only."""
    return AuditLine(at=at, transaction=core.ids.new_transaction_id(), events=audit.encode_events([event], at))


def _to_job_state(job: QueuedJob) -> JobState:
    return JobState(
        status="UNLOCKED" if job.lock_expires_at is None else "LOCKED",
        worker_id=job.worker or None,
        retries_remaining=job.retries,
        is_held=job.held,
    )


def _to_claimed_job(job: LockedJob, lease: JobLease, payload: JsonObject) -> ClaimedJob:
    return ClaimedJob(
        id=uuid_to_ulid(job.id),
        instance_id=uuid_to_ulid(job.instance),
        definition_id=job.definition_id,
        definition_version=job.definition_version,
        node_id=job.node_id,
        execution_id=uuid_to_ulid(job.execution),
        job_type=job.job_type,
        worker_id=lease.worker,
        locked_at=lease.now,
        lock_expires_at=lease.until,
        retries_remaining=job.retries,
        variables=payload,
        created_at=job.created_at,
    )
