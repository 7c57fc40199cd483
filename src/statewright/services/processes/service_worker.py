"""Jobs that the service does itself, of one language.

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

from statewright import logs
from statewright.background import repeat
from statewright.failures import Failure
from statewright.ids import TenantId
from statewright.processes.language import I, P
from statewright.services.processes import jobs
from statewright.services.processes.hosting import ProcessHost
from statewright.services.processes.job_holder import JobHolder
from statewright.services.processes.jobs import ClaimedJob, JobClaim
from statewright.services.processes.queues import get_own_queue
from statewright.services.processes.wakeups import TypeListener
from statewright.services.runtime import Caller
from statewright.services.scheduler import system_principal
from statewright.storage.processes import jobs as stored

MAX_JOBS: Final = 32
"""Jobs of a language that a node does at a time."""
MAX_TENANT_JOBS: Final = 8
"""Those of a tenant among them."""
POLL_INTERVAL: Final = timedelta(seconds=1)

log = logs.logger("processes")


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
            tenants = {*await stored.fetch_tenants(self.host.runtime.pool, self.host.language.name, self._types)}
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
            self.host.runtime.start_detached(jobs.release(self.queue, caller, job.id, worker_id=self.name))
            raise
        except Failure as failure:  # its lease ends, and it is done again
            log.warning("service_job_not_reported", job=job.id, error=failure.detail)
        except Exception as defect:
            log.error("service_job_defect", job=job.id, type=job.job_type, error=repr(defect), exc_info=True)
            await self.fail(caller, job, "the service could not do the task", retryable=False)
        finally:
            self._busy[tenant] -= 1
            self._listener.take([(tenant, self.host.language.name, job.job_type)])  # there may be more of it
