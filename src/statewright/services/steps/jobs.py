"""Jobs: claim, complete, fail, renew (spec/step-engine.md §11.6, §13, §14.1)."""

import asyncio
from datetime import timedelta
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.engine.events import Event
from statewright.failures import Conflict, StepConflict, StepNotFound
from statewright.identity import EntityId, TenantId
from statewright.jsonval.values import JsonObject
from statewright.net import uuid_to_ulid
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import hosting, trail
from statewright.services.steps.documents import read_object, refuse_unstorable
from statewright.services.steps.hosting import refuse_joined
from statewright.services.steps.writing import entity_id, uuid
from statewright.steps.core import (
    FailureReport,
    GivenUp,
    Ignored,
    JobState,
    Requeued,
    complete_job,
    fail_job,
    judge_failure,
)
from statewright.steps.core.texts import quoted
from statewright.steps.core.times import instant_text
from statewright.storage.steps import jobs as queue
from statewright.storage.steps.jobs import AuditLine, Claimed, Lease, QueuedJob, Route

LONGEST_WAIT: Final = timedelta(seconds=60)
"""Most that a claim waits for a job."""


class Claim(Struct, frozen=True, kw_only=True):
    """What a worker asks for. Bring numbers into range with ``steps.core.jobs.batch_size`` and ``lease_seconds``."""

    worker_id: str
    job_types: tuple[str, ...]
    max_jobs: int
    """1 … 1,000."""
    lease: timedelta = timedelta(seconds=30)
    wait: timedelta = timedelta(0)
    """How long to wait for the first job when there is none; at most ``LONGEST_WAIT``."""
    route: Route | None = None
    """Only jobs that are pushed this way; None: all of the types."""


class ClaimedJob(Struct, frozen=True, kw_only=True):
    """A job that is locked for a worker. Instants are epoch microseconds; render it with ``job_record``."""

    id: str
    instance_id: str
    definition_id: str
    step_id: str
    step_execution_id: str
    job_type: str
    worker_id: str
    locked_at: int
    lock_expires_at: int
    retries_remaining: int
    variables: JsonObject
    """All variables as they were when the job was made."""
    created_at: int


def job_record(job: ClaimedJob) -> JsonObject:
    """The record clients read (§11.6)."""
    return {
        "id": job.id,
        "instanceId": job.instance_id,
        "stepId": job.step_id,
        "stepExecutionId": job.step_execution_id,
        "jobType": job.job_type,
        "status": "LOCKED",
        "workerId": job.worker_id,
        "lockedAt": instant_text(job.locked_at),
        "lockExpiresAt": instant_text(job.lock_expires_at),
        "retriesRemaining": job.retries_remaining,
        "variables": job.variables,
        "createdAt": instant_text(job.created_at),
    }


async def claim(runtime: Runtime, caller: Caller, request: Claim) -> tuple[ClaimedJob, ...]:
    """Lock up to ``max_jobs`` of the oldest jobs of any of the types; in order of creation, empty when there are none.

    A job is never handed to two workers at once. With ``wait`` the call ends as soon as it has any job. When the task
    that waits is cancelled, either nothing was claimed, or the claim is given back at once; a claim whose answer does
    not reach its worker otherwise comes back when its lease ends.
    """
    types = tuple(dict.fromkeys(request.job_types))
    if not types or request.max_jobs <= 0:
        return ()
    request = replace(request, job_types=types)
    wait = min(request.wait, LONGEST_WAIT)
    if wait <= timedelta(0):
        return await _claim_once(runtime, caller.tenant, request)
    return await _claim_in_time(runtime, caller.tenant, request, wait)


async def complete(
    runtime: Runtime, caller: Caller, job_id: str, variables: "JsonObject | None" = None, *, worker_id: str = ""
) -> None:
    """A worker's result; the first one counts. Late, repeated and foreign ones are accepted without effect (J6).

    Raises ``StepNotFound`` (``job "X" not found``), ``StepBadRequest`` for variables that cannot be stored.
    """
    refuse_joined(caller)
    refuse_unstorable(variables)
    job, instance = await _job(runtime, caller.tenant, job_id)
    name = uuid_to_ulid(job)
    await hosting.advance(
        runtime,
        caller,
        instance,
        lambda process, current, moment: complete_job(process, current, name, variables, moment),
        kind="instance.complete_job",
        unknown=not_found(job_id),
    )


async def fail(runtime: Runtime, caller: Caller, job_id: str, report: FailureReport) -> None:
    """A worker's failure: another try, or the end of the instance (§14.1). Without effect when it is late (J6).

    Raises ``StepNotFound`` (``job "X" not found``).
    """
    refuse_joined(caller)
    refuse_unstorable({"errorMessage": report.message})
    job, instance = await _job(runtime, caller.tenant, job_id)
    for _ in range(hosting.ATTEMPTS):
        queued = await queue.queued(runtime.pool, caller.tenant, job)
        if queued is None:  # finished
            return
        match judge_failure(_state(queued), report):
            case Ignored():
                return
            case Requeued():
                if await _requeue(runtime, caller, job, queued, report):
                    return
            case GivenUp(reason):
                await _give_up(runtime, caller, job, instance, reason, job_id=job_id)
                return
            case _ as never:
                assert_never(never)
    raise Conflict("too many others change this job")


async def renew(runtime: Runtime, caller: Caller, job_id: str, *, worker_id: str, lease: timedelta) -> int:
    """Lengthen a lease, from now on; when it ends, in epoch microseconds. Ours.

    Raises ``StepNotFound``, and ``StepConflict`` when the worker does not hold the job (any more).
    """
    job, _ = await _job(runtime, caller.tenant, job_id)
    until = runtime.clock() + lease // timedelta(microseconds=1)
    if not await queue.renew(runtime.pool, caller.tenant, job, worker=worker_id, until=until):
        raise StepConflict(f"job {quoted(job_id)} is not locked by worker {quoted(worker_id)}")
    return until


async def release(runtime: Runtime, caller: Caller, job_id: str, *, worker_id: str) -> None:
    """Give a claimed job back without using a retry. Without effect when the worker does not hold it (any more)."""
    job = entity_id(job_id)
    if job is not None:
        await _give_back(runtime, caller.tenant, [job], worker_id)


def not_found(job_id: str) -> StepNotFound:
    """What is said of an unknown job."""
    return StepNotFound(f"job {quoted(job_id)} not found")


LOOK_EVERY_S: Final = 1.0
"""Pause after which a waiting claim looks by itself: wake-ups of other processes can be lost."""


async def _claim_in_time(runtime: Runtime, tenant: TenantId, request: Claim, wait: timedelta) -> tuple[ClaimedJob, ...]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait.total_seconds()
    with runtime.steps.wakeups.listening(tenant, request.job_types) as woken:
        while True:
            woken.clear()
            found = await _claim_once(runtime, tenant, request)
            if len(found) == request.max_jobs:
                runtime.steps.wakeups.wake([(tenant, job_type) for job_type in request.job_types])
            left = deadline - loop.time()
            if found or left <= 0:
                return found
            try:
                async with asyncio.timeout(min(left, LOOK_EVERY_S)):
                    await woken.wait()
            except TimeoutError:
                pass


async def _claim_once(runtime: Runtime, tenant: TenantId, request: Claim) -> tuple[ClaimedJob, ...]:
    """Claim now; when the task is cancelled meanwhile, the claim ends first, and is given back."""
    claiming = asyncio.ensure_future(_claim(runtime, tenant, request))
    try:
        return await asyncio.shield(claiming)
    except asyncio.CancelledError:
        runtime.begin(_undo(runtime, tenant, claiming, request.worker_id))
        raise


async def _undo(
    runtime: Runtime, tenant: TenantId, claiming: "asyncio.Future[tuple[ClaimedJob, ...]]", worker_id: str
) -> None:
    claimed = await claiming
    if claimed:
        await _give_back(runtime, tenant, [uuid(job.id) for job in claimed], worker_id)


async def _give_back(runtime: Runtime, tenant: TenantId, jobs: list[EntityId], worker_id: str) -> None:
    free = await queue.release(runtime.pool, tenant, jobs, worker=worker_id)
    if free:
        runtime.steps.wakeups.announce(free)


async def _claim(runtime: Runtime, tenant: TenantId, request: Claim) -> tuple[ClaimedJob, ...]:
    began, parts = asyncio.get_running_loop().time(), runtime.steps
    now = runtime.clock()
    lease = Lease(worker=request.worker_id, now=now, until=now + request.lease // timedelta(microseconds=1))
    if request.route is None:
        found = await queue.claim(runtime.pool, tenant, request.job_types, request.max_jobs, lease)
    else:
        found = await queue.claim_route(runtime.pool, tenant, request.route, request.max_jobs, lease)
    for job in found:
        parts.instances_of_jobs.put(tenant, job.id, job.instance)
        parts.tally.pickup.observe(max(now - job.created_at, 0) / 1_000_000)
    took = asyncio.get_running_loop().time() - began
    parts.tally.polls.observe(took)
    parts.tally.waits["job.poll_skip_locked"].observe(took)
    return tuple(_claimed(job, lease) for job in found)


async def _job(runtime: Runtime, tenant: TenantId, job_id: str) -> tuple[EntityId, EntityId]:
    """The row of a job and its instance, whether finished or not. Raises ``StepNotFound``."""
    job = entity_id(job_id)
    if job is None:
        raise not_found(job_id)
    instance = runtime.steps.instances_of_jobs.get(tenant, job)
    if instance is None:
        instance = await queue.instance_of(runtime.pool, tenant, job)
    if instance is None:
        raise not_found(job_id)
    return job, instance


async def _requeue(runtime: Runtime, caller: Caller, job: EntityId, judged: QueuedJob, report: FailureReport) -> bool:
    at = runtime.clock()
    detail: JsonObject = {"jobId": uuid_to_ulid(job), "retriesRemaining": judged.retries - 1, "error": report.message}
    line = audit_line(runtime, trail.entry_event("job-retried", detail), at)
    done = await queue.requeue(runtime.pool, caller.tenant, job, judged, line)
    if done:
        runtime.steps.tally.job_retries += 1
        runtime.steps.wakeups.announce([(caller.tenant, judged.job_type)])
    return done


async def _give_up(
    runtime: Runtime, caller: Caller, job: EntityId, instance: EntityId, reason: str, *, job_id: str
) -> None:
    name = uuid_to_ulid(job)
    await hosting.advance(
        runtime,
        caller,
        instance,
        lambda process, current, moment: fail_job(process, current, name, reason, moment),
        kind="instance.fail_job",
        unknown=not_found(job_id),
    )


def audit_line(runtime: Runtime, event: Event, at: int) -> AuditLine:
    """An event for statements that change jobs only."""
    return AuditLine(at=at, transaction=runtime.ids.transaction(), events=trail.encoded([event], at))


def _state(job: QueuedJob) -> JobState:
    return JobState(
        status="UNLOCKED" if job.lock_expires_at is None else "LOCKED",
        worker_id=job.worker or None,
        retries_remaining=job.retries,
        is_held=job.held,
    )


def _claimed(job: Claimed, lease: Lease) -> ClaimedJob:
    return ClaimedJob(
        id=uuid_to_ulid(job.id),
        instance_id=uuid_to_ulid(job.instance),
        definition_id=job.definition_id,
        step_id=job.step_id,
        step_execution_id=uuid_to_ulid(job.execution),
        job_type=job.job_type,
        worker_id=lease.worker,
        locked_at=lease.now,
        lock_expires_at=lease.until,
        retries_remaining=job.retries,
        variables=read_object(job.input),
        created_at=job.created_at,
    )
