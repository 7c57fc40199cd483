"""Works on asynchronous searches in the background (storage/search_jobs.py has the protocol).

A job is worked on by a task of its own, a few at a time. While it works, its lease is renewed; when that fails, the job
was cancelled, or another process has taken it over, and the task stops. Somebody who cancels a job of this process
need not wait for that: ``stop`` ends the task at once.
"""

import asyncio
import secrets
from contextlib import suppress
from datetime import timedelta
from random import Random
from uuid import uuid4

import msgspec

from statewright import logs
from statewright.conditions import parse, plan_of
from statewright.conditions.sorting import SortKey, resolve_sort
from statewright.failures import Failure, StorageUnavailable
from statewright.identity import TenantId
from statewright.jsonval.codec import decode
from statewright.services.definitions import DefinitionCache
from statewright.services.leases import LEASE, kept, surviving
from statewright.storage.search import Query
from statewright.storage.search_jobs import Job, JobId, SearchJobs

CONCURRENCY = 2
"""Jobs of one process at a time; each holds a connection."""

MAX_ATTEMPTS = 5
"""A job on which so many processes have died is to blame."""

POLL_S = 1.0
"""Pause between two looks for jobs of other processes; jobs submitted here need no look."""

Key = tuple[TenantId, JobId]

read_sort = msgspec.json.Decoder(tuple[SortKey, ...]).decode

_jitter = Random()  # noqa: S311 - our own: tests of laws reset the module's shared state, and compare it
log = logs.logger("search")


class SearchRunner:
    """The worker on searches of this process."""

    def __init__(
        self, jobs: SearchJobs, definitions: DefinitionCache, *, reap_interval: timedelta, lease: timedelta = LEASE
    ) -> None:
        self._jobs = jobs
        self._definitions = definitions
        self._reap_s = reap_interval.total_seconds()
        self._lease = lease
        self._worker = secrets.token_hex(8)
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._arrived = asyncio.Event()

    def wake(self) -> None:
        """There is a new job."""
        self._arrived.set()

    def stop(self, tenant: TenantId, job: JobId) -> None:
        """Stop working on a job that was cancelled, if it is ours."""
        task = self._tasks.get((tenant, job))
        if task is not None:
            task.cancel()

    async def run(self) -> None:
        """Work until cancelled; unfinished jobs are given back."""
        try:
            while True:
                self._arrived.clear()
                with surviving("search_claim_failed"):
                    await self.run_once()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._arrived.wait(), POLL_S * _jitter.uniform(0.8, 1.2))
        finally:
            await self._give_all_back()

    async def run_once(self) -> int:
        """Begin with as many jobs as there are and as there is room for; how many."""
        room = CONCURRENCY - len(self._tasks)
        claimed = await self._jobs.claim(self._worker, lease=self._lease, most=room) if room else []
        for job in claimed:
            self._begin(job)
        return len(claimed)

    async def reap(self) -> None:
        """Remove what has expired, now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._reap_s * _jitter.uniform(0.9, 1.1))
            with surviving("search_expiry_failed"):
                await self.reap_once()

    async def reap_once(self) -> int:
        """Remove everything that has expired; how many jobs."""
        removed = 0
        while some := await self._jobs.expire():
            removed += some
        if removed:
            log.info("search_jobs_expired", count=removed)
        return removed

    def _begin(self, job: Job) -> None:
        key = (job.tenant, job.id)
        task = self._tasks[key] = asyncio.create_task(self._work_on(job), name=f"search-{job.id}")

        def ended(_task: "asyncio.Task[None]") -> None:
            del self._tasks[key]
            self.wake()  # there is room for another

        task.add_done_callback(ended)

    async def _work_on(self, job: Job) -> None:
        """Carry a job out, or see to it that somebody else does or that its failure is known."""
        try:
            async with kept(lambda: self._jobs.renew(job, self._worker, lease=self._lease), self._lease):
                await self._carry_out(job)
        except StorageUnavailable as away:
            log.warning("search_job_interrupted", job=job.id, error=str(away))  # begins anew when its lease has ended
        except asyncio.CancelledError:
            await asyncio.shield(self._give_back(job))
            raise
        except Exception as error:  # whatever stops a job, its owner must be told
            await self._fail(job, error)

    async def _carry_out(self, job: Job) -> None:
        if job.attempts > MAX_ATTEMPTS:
            await self._jobs.fail(job, self._worker, f"given up after {MAX_ATTEMPTS} attempts")
            return
        definition = await self._definitions.by_id(job.tenant, job.model)
        if definition is None:
            await self._jobs.fail(job, self._worker, "its model does not exist any more")
            return
        declared = definition.model.declared
        query = Query(
            tenant=job.tenant,
            model=job.model,
            wanted=plan_of(parse(decode(job.condition)), declared),
            instant=job.instant,
        )
        hits = await self._jobs.carry_out(job, self._worker, query, resolve_sort(read_sort(job.sort), declared))
        if hits is not None:
            log.info("search_job_done", tenant=job.tenant, job=job.id, hits=hits)

    async def _fail(self, job: Job, error: Exception) -> None:
        if isinstance(error, Failure):
            reason = error.detail
        else:
            ticket = uuid4()
            reason = f"internal error [ticket: {ticket}]"
            log.error("search_job_failed", job=job.id, ticket=str(ticket), exc_info=error)
        with surviving("search_failure_not_recorded"):
            await self._jobs.fail(job, self._worker, reason)

    async def _give_back(self, job: Job) -> None:
        with surviving("search_job_not_released"):  # then its lease ends
            await self._jobs.release(job, self._worker)

    async def _give_all_back(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
