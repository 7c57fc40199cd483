"""Works on asynchronous searches in the background (storage/search/jobs.py has the protocol).

A job is worked on by a task of its own, a few at a time. While it works, its lease is renewed; when that fails, the job
was cancelled, or another process has taken it over, and the task stops. The cancellation of a job of this process need
not wait for that: ``stop`` ends the task at once.

Builds and drops declared indexes in the background, one at a time (storage/search/indexes.py).
"""

import asyncio
import secrets
from datetime import timedelta
from typing import Final

import msgspec

from statewright.computations import ComputationPool
from statewright.conditions import CompiledSearch, SortKey, compile_search, parse
from statewright.conditions.paths import Path, parse_path
from statewright.failures import Failure, StorageUnavailable
from statewright.ids import TenantId
from statewright.jsonval.codec import decode
from statewright.loop.background import LEASE_TIMEOUT, cancel_all, hold_lease, log_failures, repeat, run_in_thread
from statewright.operations.listings import DeclaredIndex, JobId, SearchJob
from statewright.services.definitions import DefinitionCache, ModelDefinition
from statewright.storage.search.indexes import IndexSpec, SearchIndexes
from statewright.storage.search.jobs import SearchJobs
from statewright.storage.search.statements import FIRST_ARGUMENT
from statewright.telemetry import logs

MAX_CONCURRENT_JOBS: Final = 2
"""Jobs of one process at a time; each holds a connection."""

MAX_ATTEMPTS: Final = 5
"""A job on which so many processes have died is to blame."""

POLL_INTERVAL: Final = timedelta(seconds=1)
"""Pause between two looks for jobs of other processes; jobs submitted here need no look."""

JobKey = tuple[TenantId, JobId]

decode_sort = msgspec.json.Decoder(tuple[SortKey, ...]).decode

log = logs.logger(__name__)


class SearchRunner:
    """The worker on searches of this process."""

    def __init__(
        self,
        jobs: SearchJobs,
        definitions: DefinitionCache,
        *,
        reap_interval: timedelta,
        computations: ComputationPool | None = None,
        lease: timedelta = LEASE_TIMEOUT,
    ) -> None:
        self._jobs = jobs
        self._definitions = definitions
        self._reap_interval = reap_interval
        self._lease = lease
        self._computations = computations
        self._worker = secrets.token_hex(8)
        self._tasks: dict[JobKey, asyncio.Task[None]] = {}
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
            await repeat(self.run_once, POLL_INTERVAL, log=log, failure="search_claim_failed", wake=self._arrived)
        finally:
            await self._release_all()

    async def run_once(self) -> int:
        """Begin with as many jobs as there are and as there is room for; how many."""
        free = MAX_CONCURRENT_JOBS - len(self._tasks)
        if not free:
            return 0
        served = {tenant for tenant, _ in self._tasks}
        claimed = await self._jobs.claim(self._worker, lease=self._lease, most=free, served=served)
        for job in claimed:
            self._start(job)
        return len(claimed)

    async def reap(self) -> None:
        """Remove what has expired, now and then, until cancelled."""
        await repeat(self.reap_once, self._reap_interval, log=log, failure="search_expiry_failed", waits_first=True)

    async def reap_once(self) -> int:
        """Remove everything that has expired; how many jobs."""
        removed = 0
        while some := await self._jobs.expire():
            removed += some
        if removed:
            log.info("search_jobs_expired", count=removed)
        return removed

    def _start(self, job: SearchJob) -> None:
        key = (job.tenant, job.id)
        task = self._tasks[key] = asyncio.create_task(self._process_job(job), name=f"search-{job.id}")

        def forget_task(_task: "asyncio.Task[None]") -> None:
            del self._tasks[key]
            self.wake()  # there is room for another

        task.add_done_callback(forget_task)

    async def _process_job(self, job: SearchJob) -> None:
        """Carry a job out, or see to it that another process does or that its failure is known."""
        try:
            async with hold_lease(lambda: self._jobs.renew(job, self._worker, lease=self._lease), self._lease):
                await self._execute(job)
        except StorageUnavailable as away:
            log.warning("search_job_interrupted", job=job.id, error=str(away))  # begins anew when its lease has ended
        except asyncio.CancelledError:
            await asyncio.shield(self._release(job))
            raise
        except Exception as error:  # whatever stops a job, its owner must be told
            await self._fail(job, error)

    async def _execute(self, job: SearchJob) -> None:
        if job.attempts > MAX_ATTEMPTS:
            await self._jobs.fail(job, self._worker, f"given up after {MAX_ATTEMPTS} attempts")
            return
        definition = await self._definitions.find_by_id(job.tenant, job.model)
        if definition is None:
            await self._jobs.fail(job, self._worker, "its model does not exist any more")
            return
        search = await run_in_thread(lambda: _compile(job, definition))
        query = definition.build_query(search, instant=job.instant, computations=self._computations)
        hits = await self._jobs.execute(job, self._worker, query)
        if hits is not None:
            log.info("search_job_done", tenant=job.tenant, job=job.id, hits=hits)

    async def _fail(self, job: SearchJob, error: Exception) -> None:
        if isinstance(error, Failure):
            reason = error.detail
        else:
            ticket = log.error_with_ticket("search_job_failed", job=job.id, exc_info=error)
            reason = f"internal error [ticket: {ticket}]"
        with log_failures(log, "search_failure_not_recorded"):
            await self._jobs.fail(job, self._worker, reason)

    async def _release(self, job: SearchJob) -> None:
        with log_failures(log, "search_job_not_released"):  # then its lease ends
            await self._jobs.release(job, self._worker)

    async def _release_all(self) -> None:
        await cancel_all([*self._tasks.values()])


def _compile(job: SearchJob, definition: ModelDefinition) -> CompiledSearch:
    search = compile_search(parse(decode(job.condition)), definition.model.declared, decode_sort(job.sort))
    return search.precompile(first=FIRST_ARGUMENT)


INDEX_BUILDER_POLL_INTERVAL: Final = timedelta(seconds=5)
"""Pause between two looks for work of other processes; what is declared here needs no look."""


class IndexBuilder:
    """The worker on indexes of this process."""

    def __init__(self, indexes: SearchIndexes, *, lease: timedelta = LEASE_TIMEOUT) -> None:
        self._indexes = indexes
        self._lease = lease
        self._worker = secrets.token_hex(8)
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """There is something new to do."""
        self._changed.set()

    async def run(self) -> None:
        """Work until cancelled; what is unfinished is left to the next process."""
        await repeat(
            self.run_once, INDEX_BUILDER_POLL_INTERVAL, log=log, failure="index_work_failed", wake=self._changed
        )

    async def run_once(self) -> bool:
        """Build or drop one index, if there is any to be built or dropped."""
        index = await self._indexes.claim(self._worker, lease=self._lease)
        if index is None:
            return False
        work = asyncio.create_task(self._process_index(index), name=f"index-{index.id}")
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()  # a task of its own, so that a withdrawal can end it without ending the loop
        return True

    async def _process_index(self, index: DeclaredIndex) -> None:
        try:
            async with hold_lease(lambda: self._indexes.renew(index, self._worker, lease=self._lease), self._lease):
                await (self._indexes.drop(index) if index.status == "DROPPING" else self._build(index))
        except asyncio.CancelledError:
            await asyncio.shield(self._release(index))
            raise
        except Exception as error:  # the row must not stay BUILDING for ever
            log.warning("index_failed", index=index.id, status=index.status, error=repr(error))
            with log_failures(log, "index_failure_not_recorded"):
                await self._indexes.end(index, self._worker, failure=str(error) or type(error).__name__)

    async def _build(self, index: DeclaredIndex) -> None:
        wanted = IndexSpec(
            tenant=index.tenant,
            model=index.model,
            path=parse_path(index.path) or Path(()),
            path_text=index.path,
            kind=index.kind,
            state=index.state,
        )
        await self._indexes.build(wanted)
        if await self._indexes.end(index, self._worker):
            log.info("index_built", index=index.id, tenant=index.tenant, path=index.path, kind=index.kind)

    async def _release(self, index: DeclaredIndex) -> None:
        with log_failures(log, "index_not_released"):  # then its lease ends
            await self._indexes.release(index, self._worker)
