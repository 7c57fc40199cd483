"""Jobs: claim, complete, fail, renew (docs/reference/steps.md#jobs, docs/reference/steps.md#workers,
docs/reference/steps.md#when-a-job-fails).
"""

import asyncio
from datetime import timedelta
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.background import wait_at_most
from statewright.engine.events import Event
from statewright.failures import Conflict, ProcessConflict, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.instants import format_instant
from statewright.jsonval.quoting import quote
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.processes.language import I, P
from statewright.processes.retries import FailureReport, GivenUp, Ignored, JobState, Requeued, decide_retry
from statewright.services.processes import advancing, audit
from statewright.services.processes.advancing import refuse_joined
from statewright.services.processes.documents import read_object, refuse_unstorable
from statewright.services.processes.hosting import ProcessHost
from statewright.services.processes.idle_topics import Topic
from statewright.services.processes.writing import parse_entity_id, to_entity_id
from statewright.services.runtime import Caller, Runtime
from statewright.storage.processes import jobs as queue
from statewright.storage.processes.jobs import AuditLine, JobLease, LockedJob, PushRoute, QueuedJob

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
    """Only jobs that are pushed this way; None: all of the types."""


class ClaimedJob(Struct, frozen=True, kw_only=True):
    """A job that is locked for a worker. Instants are epoch microseconds; ``render_job`` is a neutral record of it."""

    id: str
    instance_id: str
    definition_id: str
    node_id: str
    execution_id: str
    job_type: str
    worker_id: str
    locked_at: int
    lock_expires_at: int
    retries_remaining: int
    variables: JsonObject
    """All variables as they were when the job was made."""
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


async def claim(host: ProcessHost[P, I], caller: Caller, request: JobClaim) -> tuple[ClaimedJob, ...]:
    """Lock up to ``max_jobs`` of the oldest jobs of any of the types; in order of creation, empty when there are none.

    A job is never handed to two workers at once. Where nothing is known to be there the database is not asked
    (``idle_topics``). With ``wait`` the call ends as soon as it has any job. When the task that waits is cancelled,
    either nothing was claimed, or the claim is given back at once; a claim whose answer does not reach its worker
    otherwise comes back when its lease ends.
    """
    types = tuple(dict.fromkeys(request.job_types))
    if not types or request.max_jobs <= 0:
        return ()
    request = replace(request, job_types=types)
    wait = min(request.wait, MAX_WAIT)
    if wait <= timedelta(0):
        if request.route is None and host.shared.wakeups.idle.are_idle(_list_topics(host, caller.tenant, request)):
            host.metrics.polls.observe(0)
            return ()
        return await _claim_once(host, caller.tenant, request)
    return await _claim_with_wait(host, caller.tenant, request, wait)


async def complete(
    host: ProcessHost[P, I], caller: Caller, job_id: str, variables: "JsonObject | None" = None, *, worker_id: str = ""
) -> None:
    """A worker's result; the first one counts. Late, repeated and foreign ones are accepted without effect (J6).

    Raises ``ProcessNotFound`` (``job "X" not found``), ``ProcessBadRequest`` for variables that cannot be stored.
    """
    refuse_joined(caller)
    await refuse_unstorable(variables)
    job, instance = await _find_job(host, caller.tenant, job_id)
    name = uuid_to_ulid(job)
    await advancing.advance(
        host,
        caller,
        instance,
        lambda process, current, moment: host.language.complete_job(process, current, name, variables, moment),
        kind="instance.complete_job",
        given=variables,
        unknown=build_not_found(job_id),
    )


async def fail(host: ProcessHost[P, I], caller: Caller, job_id: str, report: FailureReport) -> None:
    """A worker's failure: another try, or the end of the instance (docs/reference/steps.md#when-a-job-fails). Without
    effect when it is late (J6).

    Raises ``ProcessNotFound`` (``job "X" not found``).
    """
    refuse_joined(caller)
    await refuse_unstorable({"errorMessage": report.message})
    job, instance = await _find_job(host, caller.tenant, job_id)
    for _ in range(advancing.MAX_ATTEMPTS):
        queued = await queue.fetch_queued_job(host.runtime.pool, caller.tenant, host.language.name, job)
        if queued is None:  # finished
            return
        match decide_retry(_to_job_state(queued), report):
            case Ignored():
                return
            case Requeued():
                if await _requeue(host, caller, job, queued, report):
                    return
            case GivenUp(reason):
                await _give_up(host, caller, job, instance, reason, job_id=job_id)
                return
            case _ as never:
                assert_never(never)
    raise Conflict("too many others change this job")


async def renew(host: ProcessHost[P, I], caller: Caller, job_id: str, *, worker_id: str, lease: timedelta) -> int:
    """Lengthen a lease, from now on; when it ends, in epoch microseconds. Ours.

    Raises ``ProcessNotFound``, and ``ProcessConflict`` when the worker does not hold the job (any more).
    """
    job, _ = await _find_job(host, caller.tenant, job_id)
    until = host.runtime.clock() + lease // timedelta(microseconds=1)
    if not await queue.renew_lease(host.runtime.pool, caller.tenant, job, worker=worker_id, until=until):
        raise ProcessConflict(f"job {quote(job_id)} is not locked by worker {quote(worker_id)}")
    return until


async def release(host: ProcessHost[P, I], caller: Caller, job_id: str, *, worker_id: str) -> None:
    """Give a claimed job back without using a retry. Without effect when the worker does not hold it (any more)."""
    job = parse_entity_id(job_id)
    if job is not None:
        await _release_jobs(host, caller.tenant, [job], worker_id)


def build_not_found(job_id: str) -> ProcessNotFound:
    """What is said of an unknown job."""
    return ProcessNotFound(f"job {quote(job_id)} not found")


POLL_INTERVAL_S: Final = 1.0
"""Pause after which a waiting claim looks by itself: wake-ups of other processes can be lost."""


async def _claim_with_wait(
    host: ProcessHost[P, I], tenant: TenantId, request: JobClaim, wait: timedelta
) -> tuple[ClaimedJob, ...]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait.total_seconds()
    topics = _list_topics(host, tenant, request)
    with host.shared.wakeups.listen(topics) as woken:
        while True:
            woken.clear()
            found = await _claim_once(host, tenant, request)
            if len(found) == request.max_jobs:
                host.shared.wakeups.wake(topics)
            left = deadline - loop.time()
            if found or left <= 0:
                return found
            await wait_at_most(woken.wait(), min(left, POLL_INTERVAL_S))


async def _claim_once(host: ProcessHost[P, I], tenant: TenantId, request: JobClaim) -> tuple[ClaimedJob, ...]:
    """Claim now; when the task is cancelled meanwhile, the claim ends first, and is given back."""
    claiming = asyncio.ensure_future(_claim_now(host, tenant, request))
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        host.runtime.start_detached(_undo_claim(host, tenant, claiming, request.worker_id))
        raise


async def _undo_claim(
    host: ProcessHost[P, I], tenant: TenantId, claiming: "asyncio.Future[tuple[ClaimedJob, ...]]", worker_id: str
) -> None:
    claimed = await claiming
    if claimed:
        await _release_jobs(host, tenant, [to_entity_id(job.id) for job in claimed], worker_id)


async def _release_jobs(host: ProcessHost[P, I], tenant: TenantId, jobs: list[EntityId], worker_id: str) -> None:
    free = await queue.release_jobs(host.runtime.pool, tenant, host.language.name, jobs, worker=worker_id)
    if free:
        host.shared.wakeups.announce(free)


async def _claim_now(host: ProcessHost[P, I], tenant: TenantId, request: JobClaim) -> tuple[ClaimedJob, ...]:
    began = asyncio.get_running_loop().time()
    now = host.runtime.clock()
    lease = JobLease(worker=request.worker_id, now=now, until=now + request.lease // timedelta(microseconds=1))
    pool, language = host.runtime.pool, host.language.name
    if request.route is None:
        with host.shared.wakeups.idle.look(_list_topics(host, tenant, request)) as look:
            found = await queue.claim_jobs(pool, tenant, language, request.job_types, request.max_jobs, lease)
            if len(found) < request.max_jobs:
                host.shared.wakeups.idle.prove(look)
    else:
        found = await queue.claim_route(pool, tenant, language, request.route, request.max_jobs, lease)
    for job in found:
        host.instances_of_jobs.put((tenant, job.id), job.instance)
        host.metrics.pickup.observe(max(now - job.created_at, 0) / 1_000_000)
    took = asyncio.get_running_loop().time() - began
    host.metrics.polls.observe(took)
    host.metrics.waits["job.poll_skip_locked"].observe(took)
    return tuple(_to_claimed_job(job, lease) for job in found)


def _list_topics(host: ProcessHost[P, I], tenant: TenantId, request: JobClaim) -> list[Topic]:
    return [(tenant, host.language.name, job_type) for job_type in request.job_types]


async def _find_job(host: ProcessHost[P, I], tenant: TenantId, job_id: str) -> tuple[EntityId, EntityId]:
    """The row of a job and its instance, whether finished or not. Raises ``ProcessNotFound``."""
    job = parse_entity_id(job_id)
    if job is None:
        raise build_not_found(job_id)
    instance = host.instances_of_jobs.get((tenant, job))
    if instance is None:
        instance = await queue.fetch_instance_of_work(host.runtime.pool, tenant, host.language.name, job)
    if instance is None:
        raise build_not_found(job_id)
    return job, instance


async def _requeue(
    host: ProcessHost[P, I], caller: Caller, job: EntityId, judged: QueuedJob, report: FailureReport
) -> bool:
    at = host.runtime.clock()
    detail: JsonObject = {"jobId": uuid_to_ulid(job), "retriesRemaining": judged.retries - 1, "error": report.message}
    line = build_audit_line(host.runtime, audit.build_entry_event("job-retried", detail), at)
    done = await queue.requeue_job(host.runtime.pool, caller.tenant, job, judged, line)
    if done:
        host.metrics.job_retries += 1
        host.shared.wakeups.announce([(caller.tenant, host.language.name, judged.job_type)])
    return done


async def _give_up(
    host: ProcessHost[P, I], caller: Caller, job: EntityId, instance: EntityId, reason: str, *, job_id: str
) -> None:
    name = uuid_to_ulid(job)
    await advancing.advance(
        host,
        caller,
        instance,
        lambda process, current, moment: host.language.fail_job(process, current, name, reason, moment),
        kind="instance.fail_job",
        unknown=build_not_found(job_id),
    )


def build_audit_line(runtime: Runtime, event: Event, at: int) -> AuditLine:
    """An event for statements that change jobs only."""
    return AuditLine(at=at, transaction=runtime.ids.new_transaction_id(), events=audit.encode_events([event], at))


def _to_job_state(job: QueuedJob) -> JobState:
    return JobState(
        status="UNLOCKED" if job.lock_expires_at is None else "LOCKED",
        worker_id=job.worker or None,
        retries_remaining=job.retries,
        is_held=job.held,
    )


def _to_claimed_job(job: LockedJob, lease: JobLease) -> ClaimedJob:
    return ClaimedJob(
        id=uuid_to_ulid(job.id),
        instance_id=uuid_to_ulid(job.instance),
        definition_id=job.definition_id,
        node_id=job.node_id,
        execution_id=uuid_to_ulid(job.execution),
        job_type=job.job_type,
        worker_id=lease.worker,
        locked_at=lease.now,
        lock_expires_at=lease.until,
        retries_remaining=job.retries,
        variables=read_object(job.input),
        created_at=job.created_at,
    )
