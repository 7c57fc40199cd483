"""Jobs: claim, complete, fail, renew (docs/reference/steps.md#jobs, docs/reference/steps.md#workers,
docs/reference/steps.md#when-a-job-fails).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Final, Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions.wire import parse_tags
from statewright.entity import Principal, system_principal
from statewright.failures import (
    ComputationKilled,
    Conflict,
    Failure,
    InstanceTooLarge,
    OutcomeUnknown,
    ProcessBadRequest,
    ProcessConflict,
    ProcessNotFound,
    StorageUnavailable,
)
from statewright.ids import EntityId, TenantId, parse_entity_id
from statewright.instants import to_rfc3339, to_us
from statewright.jsonval.values import JsonObject, JsonValue, quote
from statewright.loop.background import log_failures, run_in_thread, wait_at_most
from statewright.loop.turns import is_large
from statewright.net import uuid_to_ulid
from statewright.operations.active_suspensions import Hold
from statewright.processes.changes import JobPolicy
from statewright.processes.language import (
    LEASE_LOST,
    I,
    InputPayloads,
    InstancePayloads,
    JobPlace,
    LeaseLosses,
    P,
    RunReports,
)
from statewright.services.core import Caller, Core
from statewright.services.processes.advancing import (
    MAX_ATTEMPTS,
    InstanceSuspended,
    advance,
    find_instance,
    judge,
    refuse_joined,
)
from statewright.services.processes.documents import decode_text, encode_text, read_texts, refuse_unstorable
from statewright.services.processes.hosting import HostedLanguage, JobQueue, Processes, ProcessHost, RefusedJob
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
    peer: str | None = None
    """The other end of the worker's connection; None: it is part of the service."""
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


# The record that the workers of the public protocols read, how many jobs they may claim, and for how long.

MAX_CLAIMED_JOBS: Final = 1000
"""Most jobs of one claim."""
MAX_JOB_TYPES: Final = 1_000
"""Most types of jobs of one claim."""
MAX_NAME_CHARS: Final = 512
"""Of the id of a worker, and of a type: jobs have shorter ones."""
DEFAULT_LEASE_S: Final = 30
_MIN_LEASE_S: Final = 5
_MAX_LEASE_S: Final = 3600


def clamp_lease_s(asked: int) -> int:
    """How long a claim lasts: 30 seconds unless the worker asks for something between 5 seconds and an hour."""
    return DEFAULT_LEASE_S if asked == 0 else min(max(asked, _MIN_LEASE_S), _MAX_LEASE_S)


def clamp_batch_size(asked: int, default: int) -> int:
    """How many jobs a claim may take; ``default`` when the worker does not say."""
    return min(asked, MAX_CLAIMED_JOBS) if asked > 0 else default


def to_job_record(job: ClaimedJob, *, node: str = "stepId", execution: str = "stepExecutionId") -> JsonObject:
    """The record clients read."""
    return {
        "id": job.id,
        "instanceId": job.instance_id,
        node: job.node_id,
        execution: job.execution_id,
        "jobType": job.job_type,
        "status": "LOCKED",
        "workerId": job.worker_id,
        "lockedAt": to_rfc3339(job.locked_at),
        "lockExpiresAt": to_rfc3339(job.lock_expires_at),
        "retriesRemaining": job.retries_remaining,
        "variables": job.variables,
        "createdAt": to_rfc3339(job.created_at),
    }


render_job: Final = partial(to_job_record, node="nodeId", execution="executionId")
"""A record of a job for languages that have no form of their own."""


async def claim(queue: JobQueue, caller: Caller, request: JobClaim) -> tuple[ClaimedJob, ...]:
    """Lock up to ``max_jobs`` of the oldest jobs of any of the types; in order of creation, empty when there are none.

    Fewer where the inputs of the jobs are large. A job is never handed to two workers at once. Where nothing is known
    to be there the database is not asked (``idle_topics``). With ``wait`` the call ends as soon as it has any job. When
    the task that waits is cancelled, either nothing was claimed, or the claim is given back at once; a claim whose
    answer does not reach its worker otherwise comes back when its lease ends. Raises ``ProcessBadRequest`` for names
    that are too long, and for too many.
    """
    _check_names(request)
    types = tuple(dict.fromkeys(request.job_types))
    if not types or request.max_jobs <= 0:
        return ()
    request = replace(request, job_types=types)
    if request.route is None:
        queue.parts.hosts.polling_workers.note(caller.tenant, request.worker_id, types)
    wait = min(request.wait, MAX_WAIT)
    if wait <= timedelta(0):
        idle = queue.parts.hosts.wakeups.idle
        if request.route is None and idle.are_idle(_list_topics(queue, caller.tenant, request)):
            queue.metrics.polls.observe(0)
            return ()
        return await _claim_once(queue, caller.tenant, request)
    return await _claim_with_wait(queue, caller.tenant, request, wait)


def _check_names(request: JobClaim) -> None:
    """Names go to all nodes, which keep them and look for them: what is too much for one request is for all."""
    require_few_types(len(request.job_types))
    for member, name in (("workerId", request.worker_id), *[("jobTypes[]", name) for name in request.job_types]):
        if len(name) > MAX_NAME_CHARS:
            raise ProcessBadRequest(f"{member} must be ≤ {MAX_NAME_CHARS} characters, got {len(name)}")


def require_few_types(count: int) -> None:
    """Of a poll, before its types are read: millions of them would be at work for too long. Raises
    ``ProcessBadRequest``.
    """
    if count > MAX_JOB_TYPES:
        raise ProcessBadRequest(f"jobTypes must be ≤ {MAX_JOB_TYPES}, got {count}")


async def complete(queue: JobQueue, caller: Caller, job_id: str, result: JsonValue = None) -> None:
    """A worker's result; the first one counts, whoever holds the job. Late and repeated ones are accepted without
    effect (J6).

    Raises ``ProcessNotFound`` (``job "X" not found``), ``ProcessBadRequest`` for what cannot be stored or is no result
    in the language of the job, ``StorageUnavailable`` also where it is not known whether it was taken: it counts once.
    """
    refuse_joined(caller)
    await refuse_unstorable(result)
    job, owner = await find_job(queue, caller.tenant, job_id)
    async with count_kills(queue, caller.tenant, job):
        try:
            await apply_or_keep(queue.parts, caller, job, owner, JobReport(outcome="COMPLETED", result=result))
        except OutcomeUnknown as unknown:
            raise StorageUnavailable(f"{unknown.message}: send the result again, it counts once") from unknown
    queue.parts.hosts.owners_of_jobs.discard((caller.tenant, job))


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
        job, owner = await find_job(queue, caller.tenant, job_id)
    except ProcessNotFound:
        raise lost from None
    take_report = queue.get_language(owner.language).take_report
    if take_report is None:
        raise ProcessBadRequest(f"job {quote(job_id)} reports its result only")
    queued = await stored.fetch_queued_job(queue.parts.core.pool, caller.tenant, owner.language, job)
    if queued is None or queued.worker != worker_id or queued.locked_at is None:
        raise lost
    waits = queue.parts.core.guard.find_job_type(caller.tenant, queued.job_type) is not None
    async with count_kills(queue, caller.tenant, job):
        return await take_report(caller, owner.instance, uuid_to_ulid(job), report, queued.locked_at, waits)


@asynccontextmanager
async def count_kills(queue: JobQueue, tenant: TenantId, job: EntityId) -> AsyncIterator[None]:
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
    job, _ = await find_job(queue, caller.tenant, job_id)
    until = queue.parts.core.clock() + to_us(lease)
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
    guard = queue.parts.core.guard
    await guard.ensure_current()
    if not guard.is_idle(tenant):
        types = tuple(each for each in request.job_types if guard.find_job_type(tenant, each) is None)
        if not types or (request.route and guard.find_tags(tenant, parse_tags(request.route.tags or types[0]))):
            return ()
        request = replace(request, job_types=types)
    began = asyncio.get_running_loop().time()
    now = queue.parts.core.clock()
    lease = JobLease(worker=request.worker_id, now=now, until=now + to_us(request.lease))
    if request.route is None:
        found = await _lock_jobs(queue, tenant, request, lease)
    else:
        [language] = queue.languages
        leases, held = [lease] * request.max_jobs, guard.get_held_processes(tenant)
        found = await stored.claim_route(queue.parts.core.pool, tenant, language, request.route, leases, held)
    metrics, took = queue.metrics, asyncio.get_running_loop().time() - began
    metrics.polls.observe(took)
    metrics.waits["job.poll_skip_locked"].observe(took)
    return await _hand_out(queue, tenant, found, lease, request.peer)


async def _lock_jobs(queue: JobQueue, tenant: TenantId, request: JobClaim, lease: JobLease) -> list[LockedJob]:
    """Lock jobs of the types that are not known to be idle; of all when they are."""
    core, hosts, known = queue.parts.core, queue.parts.hosts, _list_topics(queue, tenant, request)
    topics = hosts.wakeups.idle.list_busy(known) or known

    async def lock(leases: Sequence[JobLease]) -> list[LockedJob]:
        find = core.guard.find_job_type  # a type may have been suspended while the claim waited
        if not (wanted := [JobKind(name, language) for _, language, name in topics if find(tenant, name) is None]):
            return []
        with hosts.wakeups.idle.look(topics) as look:
            found = await stored.claim_jobs(core.pool, tenant, wanted, leases, core.guard.get_held_processes(tenant))
            if len(found) < len(leases) and len(wanted) == len(topics) and not stored.is_cut_short(found):
                hosts.wakeups.idle.prove(look)
        return found

    return await hosts.claims.lock_jobs(tuple(topics), lease, request.max_jobs, lock, core.start_detached)


async def _hand_out(
    queue: JobQueue, tenant: TenantId, found: list[LockedJob], lease: JobLease, peer: str | None
) -> tuple[ClaimedJob, ...]:
    """Claimed jobs with their payloads. When one cannot be made for now, all jobs go back; one whose secrets cannot be
    had ends, and one that meets a defect is left to its lease.
    """
    handed_out = []
    try:
        for job in found:
            language = queue.get_language(job.language)
            payload: JsonObject | RefusedJob
            try:
                payload = await language.build_payload(tenant, job)
                if language.add_secrets is not None:
                    payload = await language.add_secrets(queue.parts, tenant, job, payload, peer)
            except Failure:
                raise
            except Exception as defect:  # it would keep all others from being claimed
                log.error("job_not_handed_out", job=job.id, type=job.job_type, error=repr(defect), exc_info=True)
                continue
            if isinstance(payload, RefusedJob):
                queue.parts.core.start_detached(_end_refused(queue, tenant, job, payload))
                continue
            handed_out.append(_to_claimed_job(job, lease, payload))
            queue.parts.hosts.handed_out.count((tenant, job.job_type))
            queue.parts.hosts.owners_of_jobs.put((tenant, job.id), WorkOwner(job.language, job.instance))
            language.metrics.pickup.observe(max(lease.now - job.created_at, 0) / 1_000_000)
    except BaseException:
        jobs = [EntityId(job.id) for job in found]
        queue.parts.core.start_detached(_release_jobs(queue, tenant, jobs, lease.worker))
        raise
    return tuple(handed_out)


async def _end_refused(queue: JobQueue, tenant: TenantId, job: LockedJob, refused: RefusedJob) -> None:
    """Report the end of a job that was not handed out; without success its lease ends, and it comes again."""
    with log_failures(log, "refused_job_not_reported", job=job.id):
        caller = Caller(system_principal(tenant))
        await complete(queue, caller, uuid_to_ulid(job.id), refused.result)


def _list_topics(queue: JobQueue, tenant: TenantId, request: JobClaim) -> list[Topic]:
    return [(tenant, language, job_type) for job_type in request.job_types for language in queue.languages]


async def find_job(queue: JobQueue, tenant: TenantId, job_id: str) -> tuple[EntityId, WorkOwner]:
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


# Reports: how a job ended. What is said of one that is suspended is kept (``kept_reports.py``).

Outcome = Literal["COMPLETED", "FAILED", "LOST"]


class JobReport(Struct, frozen=True, kw_only=True):
    """How a job ended: with a result, or for a reason, or with its worker, of which nothing is heard any more."""

    outcome: Outcome
    result: JsonValue = None
    reason: str = ""


async def _find_type_hold(core: Core, tenant: TenantId, language: str, job: EntityId) -> Hold | None:
    """What holds the type of a job. Reads the job only where a type is suspended."""
    await core.guard.ensure_current()
    if not core.guard.has_job_types(tenant):
        return None
    queued = await stored.fetch_queued_job(core.pool, tenant, language, job)
    return None if queued is None else core.guard.find_job_type(tenant, queued.job_type)


async def apply_or_keep(
    processes: Processes,
    caller: Caller,
    job: EntityId,
    owner: WorkOwner,
    report: JobReport,
    *,
    instead_of: str | None = None,
) -> None:
    """Let a report take its effect, or keep it where the job is suspended; ``instead_of`` the suspension under which it
    is kept already. Raises ``ProcessNotFound`` when there is no such instance, ``ProcessBadRequest`` for a result that
    the language does not take.
    """
    language, name = processes.hosts.get_hosted(owner.language), uuid_to_ulid(job)
    unknown = ProcessNotFound(f'job "{name}" not found')  # a ULID has nothing to escape
    for _ in range(MAX_ATTEMPTS):
        hold = await _find_type_hold(processes.core, caller.tenant, owner.language, job)
        if hold is None:
            try:
                await _apply(language, caller, name, owner, report, unknown)
            except InstanceSuspended as waits:
                hold = waits.hold
            else:
                return
        if report.outcome == "COMPLETED" and instead_of is None:
            await language.check_result(caller.tenant, owner.instance, name, report.result, unknown)
        if await _keep(processes.core, caller, job, report, hold, instead_of=instead_of):
            return
        await processes.core.guard.load_anew()  # it has ended meanwhile
    raise Conflict("what the job belongs to is suspended and resumed all the time")


async def _apply(
    language: HostedLanguage, caller: Caller, name: str, owner: WorkOwner, report: JobReport, unknown: ProcessNotFound
) -> None:
    if report.outcome == "COMPLETED":
        await language.complete_job(caller, owner.instance, name, report.result, unknown)
    elif report.outcome == "LOST" and language.lost_jobs is not None:
        await language.lost_jobs.fail(caller, owner.instance, name)
    else:
        await language.fail_job(caller, owner.instance, name, report.reason, unknown)


async def _keep(
    core: Core, caller: Caller, job: EntityId, report: JobReport, hold: Hold, *, instead_of: str | None
) -> bool:
    text = await _encode_report(caller.principal, report)

    async def keep(pool: Pool) -> bool:
        return await leases.keep_report(pool, caller.tenant, job, hold.id, text, instead_of=instead_of)

    is_kept = await caller.carry_out(core.pool, keep, lambda _: None)
    if is_kept:
        log.info("job_report_kept", job=job, **hold.describe())
    return is_kept


async def _encode_report(principal: Principal, report: JobReport) -> str:
    document: JsonObject = {
        "outcome": report.outcome,
        "result": report.result,
        "reason": report.reason,
        "by": {"id": principal.id, "name": principal.name, "kind": principal.kind},
    }
    if is_large(report.result):
        return await run_in_thread(lambda: encode_text(document))
    return encode_text(document, is_small=True)


# What a job does to its instance, for each language alike: its payload, its result, its failure.


async def build_payload(host: ProcessHost[P, I], tenant: TenantId, job: LockedJob) -> JsonObject:
    """What the worker is given that claimed a job. Raises ``StorageUnavailable``."""
    value = await read_texts([job.input], partial(decode_text, job.input))
    if job.definition_version == 0:  # made by a node of an earlier version, which knew one kind of payload only
        return value if isinstance(value, dict) else {}
    published = await host.processes.find(tenant, job.definition_id, job.definition_version)
    assert published is not None, "versions of definitions are never deleted"  # noqa: S101
    name = uuid_to_ulid(job.instance)
    place = JobPlace(name, job.node_id, job.element, uuid_to_ulid(job.execution))
    match host.language.payloads:
        case InputPayloads(build):
            return build(published.process, place, value)
        case InstancePayloads(build=build_from_instance):
            instance = await find_instance(host, tenant, name)
            return {} if instance is None else build_from_instance(published.process, instance, place, value)
        case _ as never:
            assert_never(never)


async def find_policy(host: ProcessHost[P, I], tenant: TenantId, job: QueuedJob) -> JobPolicy:
    """How a job is done, by its definition. Raises ``StorageUnavailable``."""
    published = await host.processes.find(tenant, job.definition_id, job.definition_version)
    return JobPolicy() if published is None else host.language.find_policy(published.process, job.node_id)


async def complete_job(
    host: ProcessHost[P, I], caller: Caller, instance: EntityId, job: str, result: JsonValue, unknown: ProcessNotFound
) -> None:
    """Apply the result of a job, which fails when the result is too much for the instance. Raises ``unknown``,
    ``ProcessBadRequest`` for what the language does not take.
    """
    try:
        await advance(
            host,
            caller,
            instance,
            partial(host.language.complete_job, job=job, result=result),
            kind="instance.complete_job",
            given=result,
            unknown=unknown,
        )
    except InstanceTooLarge as too_large:
        await fail_job(host, caller, instance, job, too_large.message, unknown)


async def check_result(
    host: ProcessHost[P, I], tenant: TenantId, instance: EntityId, job: str, result: JsonValue, unknown: ProcessNotFound
) -> None:
    """Whether a result could be applied now, without doing so. Raises ``unknown``, ``ProcessBadRequest`` for what the
    language does not take.
    """
    complete = partial(host.language.complete_job, job=job, result=result)
    if await judge(host, tenant, instance, complete, given=result) is None:
        raise unknown


async def take_report(
    host: ProcessHost[P, I],
    reports: RunReports[P, I],
    caller: Caller,
    instance: EntityId,
    job: str,
    report: JsonValue,
    lease: int,
    waits: bool,
) -> JsonObject:
    """Apply what a job reports that goes on; what need not be reported again. Where the instance, or the type of the
    job (``waits``), is suspended, nothing is applied: it comes again with the result. Raises ``ProcessConflict`` for a
    job that is over, ``ProcessBadRequest`` for what the language does not take.
    """
    take = partial(reports.take_report, job=job, report=report, lease=lease)
    gone = host.build_gone()
    try:
        if not waits:
            with suppress(InstanceSuspended):
                advanced = await advance(
                    host, caller, instance, take, kind="instance.report_progress", given=report, unknown=gone
                )
                return reports.describe_taken(advanced.instance, job)
        found = await judge(host, caller.tenant, instance, take, given=report)
    except ProcessNotFound:
        raise ProcessConflict(f"the {host.noun} is gone") from None
    if found is None:
        raise ProcessConflict(f"the {host.noun} is gone")
    return reports.describe_taken(found, job)


async def fail_lost_job(
    host: ProcessHost[P, I], losses: LeaseLosses[P, I], caller: Caller, instance: EntityId, job: str
) -> None:
    """Apply that a job was lost too often; an instance that is gone has no need of it."""
    unknown = host.build_gone()
    with suppress(ProcessNotFound):
        if losses.fail is None:
            await fail_job(host, caller, instance, job, LEASE_LOST, unknown)
        else:
            operation = partial(losses.fail, job=job)
            await advance(host, caller, instance, operation, kind="instance.fail_job", unknown=unknown)


async def fail_job(
    host: ProcessHost[P, I], caller: Caller, instance: EntityId, job: str, reason: str, unknown: ProcessNotFound
) -> None:
    """Apply that a job failed for good. Raises ``unknown``."""
    await advance(
        host,
        caller,
        instance,
        partial(host.language.fail_job, job=job, reason=reason),
        kind="instance.fail_job",
        unknown=unknown,
    )
