"""What a job does to its instance, for each language alike: its payload, its result, its failure.

Who has claimed jobs within the service, and reports on them as workers do.

Jobs that the service does itself, of one language.

A node claims them like any worker, for all tenants, and does them outside of every transaction: with a lease, so that
another node does what this one leaves undone, and so many at a time in all and of each tenant. What a job amounts to
enters through the use cases of every worker. So each is done at least once; the jobs that a node had claimed when it
was killed are done again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final, Generic, assert_never
from uuid import uuid4

from statewright.failures import Failure, InstanceTooLarge, ProcessConflict, ProcessNotFound
from statewright.ids import EntityId, TenantId
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import repeat
from statewright.net import uuid_to_ulid
from statewright.processes.changes import Backoff, FailureReport
from statewright.processes.language import (
    I,
    InputPayloads,
    InstancePayloads,
    JobPlace,
    LeaseLosses,
    P,
    RunReports,
)
from statewright.services.core import Caller
from statewright.services.processes import advancing, jobs
from statewright.services.processes.documents import decode_text, read_texts
from statewright.services.processes.hosting import JobQueue, ProcessHost, get_own_queue
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.processes.wakeups import TypeListener
from statewright.services.scheduler import system_principal
from statewright.storage.processes import jobs as stored
from statewright.storage.processes.jobs import LockedJob, QueuedJob
from statewright.telemetry import logs


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
            instance = await advancing.find_instance(host, tenant, name)
            return {} if instance is None else build_from_instance(published.process, instance, place, value)
        case _ as never:
            assert_never(never)


async def find_backoff(host: ProcessHost[P, I], tenant: TenantId, job: QueuedJob) -> Backoff | None:
    """How long a failed job rests, by its definition. Raises ``StorageUnavailable``."""
    published = await host.processes.find(tenant, job.definition_id, job.definition_version)
    return None if published is None else host.language.find_backoff(published.process, job.node_id)


async def complete_job(
    host: ProcessHost[P, I], caller: Caller, instance: EntityId, job: str, result: JsonValue, unknown: ProcessNotFound
) -> None:
    """Apply the result of a job, which fails when the result is too much for the instance. Raises ``unknown``,
    ``ProcessBadRequest`` for what the language does not take.
    """
    try:
        await advancing.advance(
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
    if await advancing.judge(host, tenant, instance, complete, given=result) is None:
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
    gone = ProcessNotFound("instance of a job is gone")
    try:
        if not waits:
            with suppress(advancing.InstanceSuspended):
                advanced = await advancing.advance(
                    host, caller, instance, take, kind="instance.report_progress", given=report, unknown=gone
                )
                return reports.describe_taken(advanced.instance, job)
        found = await advancing.judge(host, caller.tenant, instance, take, given=report)
    except ProcessNotFound:
        raise ProcessConflict("the instance is gone") from None
    if found is None:
        raise ProcessConflict("the instance is gone")
    return reports.describe_taken(found, job)


async def fail_lost_job(
    host: ProcessHost[P, I], losses: LeaseLosses[P, I], caller: Caller, instance: EntityId, job: str
) -> None:
    """Apply that a job was lost too often; an instance that is gone has no need of it."""
    with suppress(ProcessNotFound):
        await advancing.advance(
            host,
            caller,
            instance,
            partial(losses.fail_lost_job, job=job),
            kind="instance.fail_job",
            unknown=ProcessNotFound("instance of a job is gone"),
        )


async def fail_job(
    host: ProcessHost[P, I], caller: Caller, instance: EntityId, job: str, reason: str, unknown: ProcessNotFound
) -> None:
    """Apply that a job failed for good. Raises ``unknown``."""
    await advancing.advance(
        host,
        caller,
        instance,
        partial(host.language.fail_job, job=job, reason=reason),
        kind="instance.fail_job",
        unknown=unknown,
    )


class JobHolder:
    """Of jobs of a queue, under a name that nobody else has."""

    def __init__(self, queue: JobQueue, name: str) -> None:
        self.queue = queue
        self.name = name

    async def complete(self, caller: Caller, job: ClaimedJob, result: JsonValue) -> None:
        """Report a result. Raises ``ProcessBadRequest`` for one that the language does not take."""
        await jobs.complete(self.queue, caller, job.id, result, worker_id=self.name)

    async def fail(self, caller: Caller, job: ClaimedJob, message: str, *, retryable: bool) -> None:
        """Report a failure."""
        report = FailureReport(worker_id=self.name, message=message, retryable=retryable)
        await jobs.fail(self.queue, caller, job.id, report)

    async def report_progress(self, caller: Caller, job: ClaimedJob, report: JsonValue) -> JsonObject:
        """What was done so far; what need not be reported again. Raises ``ProcessConflict`` when the job is not this
        worker's any more, ``ProcessBadRequest`` for what the language does not take.
        """
        return await jobs.report_progress(self.queue, caller, job.id, report, worker_id=self.name)

    async def renew(self, caller: Caller, job: ClaimedJob, lease: timedelta) -> None:
        """Keep a job for longer."""
        await jobs.renew(self.queue, caller, job.id, worker_id=self.name, lease=lease)

    async def rest(self, caller: Caller, job: ClaimedJob, until: int) -> None:
        """Give a job back, to be claimed again from an instant on."""
        await jobs.rest(self.queue, caller, job.id, worker_id=self.name, until=until)


MAX_JOBS: Final = 32
"""Jobs of a language that a node does at a time."""
MAX_TENANT_JOBS: Final = 8
"""Those of a tenant among them."""
POLL_INTERVAL: Final = timedelta(seconds=1)

log = logs.logger(__name__)


class ServiceWorker(JobHolder, Generic[P, I]):
    """Claims jobs of some types, for all tenants, and has them done. A background service.

    ``do`` does a job and reports it (``complete``, ``fail``, ``rest``); a ``Failure`` that it raises leaves the job to
    its lease, anything else fails it for good.
    """

    def __init__(
        self,
        host: ProcessHost[P, I],
        types: Sequence[str],
        do: Callable[["ServiceWorker[P, I]", Caller, ClaimedJob], Awaitable[None]],
        *,
        lease: timedelta,
    ) -> None:
        super().__init__(get_own_queue(host), f"service-{uuid4()}")
        self.host = host
        self.lease = lease
        self._types = tuple(types)
        self._work = do
        self._busy: Counter[TenantId] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._listener = TypeListener(host.language.name, self._types)

    async def run(self) -> None:
        """Work until cancelled; what is under way then goes back to the queue."""
        try:
            with self.host.shared.wakeups.listen_to_types(self._listener):
                await repeat(
                    self.run_once, POLL_INTERVAL, log=log, failure="service_jobs_failed", wake=self._listener.heard
                )
        finally:
            for task in self._under_way:
                task.cancel()

    async def run_once(self) -> bool:
        """Begin what can be begun; whether there may be more. Raises ``StorageUnavailable``."""
        tenants = self._listener.take_tenants()
        if not tenants:
            tenants = {*await stored.fetch_tenants(self.host.core.pool, self.host.language.name, self._types)}
        for tenant in sorted(tenants, key=lambda one: self._busy[one]):
            free = min(MAX_JOBS - len(self._under_way), MAX_TENANT_JOBS - self._busy[tenant])
            if free > 0:
                await self._begin_jobs(tenant, free)
        return False

    async def _begin_jobs(self, tenant: TenantId, most: int) -> None:
        claim = JobClaim(worker_id=self.name, job_types=self._types, max_jobs=most, lease=self.lease)
        for job in await jobs.claim(self.queue, Caller(system_principal(tenant)), claim):
            self._busy[tenant] += 1
            task = asyncio.create_task(self._do(tenant, job), name="service-job")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _do(self, tenant: TenantId, job: ClaimedJob) -> None:
        caller = Caller(system_principal(tenant))
        try:
            await self._work(self, caller, job)
        except asyncio.CancelledError:
            self.host.core.start_detached(jobs.release(self.queue, caller, job.id, worker_id=self.name))
            raise
        except Failure as failure:  # its lease ends, and it is done again
            log.warning("service_job_not_reported", job=job.id, error=failure.detail)
        except Exception as defect:
            log.error("service_job_defect", job=job.id, type=job.job_type, error=repr(defect), exc_info=True)
            await self.fail(caller, job, "the service could not do the task", retryable=False)
        finally:
            self._busy[tenant] -= 1
            self._listener.take([(tenant, self.host.language.name, job.job_type)])  # there may be more of it
