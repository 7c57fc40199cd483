"""Jobs that the service itself claims: who holds them reports on them as workers do (``JobHolder``), and jobs of one
language are done by the service (``ServiceWorker``).

A node claims them like any worker, for all tenants, and does them outside of every transaction: with a lease, so that
another node does what this one leaves undone, and so many at a time in all and of each tenant. What a job amounts to
enters through the use cases of every worker. So each is done at least once; the jobs that a node had claimed when it
was killed are done again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, Generic
from uuid import uuid4

from statewright.entity import system_principal
from statewright.failures import Failure
from statewright.ids import TenantId
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.loop.background import repeat
from statewright.processes.changes import FailureReport
from statewright.processes.language import I, P
from statewright.services.core import Caller
from statewright.services.processes import failed_jobs, jobs
from statewright.services.processes.hosting import JobQueue, ProcessHost, get_own_queue
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.processes.wakeups import TypeListener
from statewright.storage.processes import jobs as stored
from statewright.telemetry import logs


class JobHolder:
    """A worker within the service, under a name that nobody else has: what it reports of the jobs that it claimed."""

    def __init__(self, queue: JobQueue, name: str) -> None:
        self.queue = queue
        self.name = name

    async def complete(self, caller: Caller, job: ClaimedJob, result: JsonValue) -> None:
        """Report a result. Raises ``ProcessBadRequest`` for one that the language does not take."""
        await jobs.complete(self.queue, caller, job.id, result)

    async def fail(self, caller: Caller, job: ClaimedJob, message: str, *, retryable: bool) -> None:
        """Report a failure."""
        report = FailureReport(worker_id=self.name, message=message, retryable=retryable)
        await failed_jobs.fail(self.queue, caller, job.id, report)

    async def report_progress(self, caller: Caller, job: ClaimedJob, report: JsonValue) -> JsonObject:
        """What was done so far; what need not be reported again. Raises ``ProcessConflict`` when the job is not this
        worker's any more, ``ProcessBadRequest`` for what the language does not take.
        """
        return await jobs.report_progress(self.queue, caller, job.id, report, worker_id=self.name)

    async def renew(self, caller: Caller, job: ClaimedJob, lease: timedelta) -> None:
        """Keep a job for longer."""
        await jobs.renew(self.queue, caller, job.id, worker_id=self.name, lease=lease)

    async def release(self, caller: Caller, job: ClaimedJob) -> None:
        """Give a job back, to be claimed again at once."""
        await jobs.release(self.queue, caller, job.id, worker_id=self.name)

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
            with self.host.shared.wakeups.listen_to_topics(self._listener):
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
            self.host.core.start_detached(self.release(caller, job))
            raise
        except Failure as failure:  # its lease ends, and it is done again
            log.warning("service_job_not_reported", job=job.id, error=failure.detail)
        except Exception as defect:
            log.error("service_job_defect", job=job.id, type=job.job_type, error=repr(defect), exc_info=True)
            await self.fail(caller, job, "the service could not do the task", retryable=False)
        finally:
            self._busy[tenant] -= 1
            self._listener.take([(tenant, self.host.language.name, job.job_type)])  # there may be more of it
