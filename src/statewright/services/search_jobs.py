"""Use cases of asynchronous searches (docs/reference/search.md#asynchronous-search)."""

from typing import Final

import msgspec
from msgspec import Struct

from statewright.conditions import serialise
from statewright.entity import FoundEntities, ModelKey
from statewright.failures import BadRequest, SearchJobAlreadyTerminal, SearchJobNotFound
from statewright.jsonval.codec import encode
from statewright.searches import JobId, SearchJob
from statewright.services.runtime import Caller, Runtime
from statewright.services.search import Search, prepare, run_for_condition
from statewright.storage.search.jobs import NewSearchJob

MAX_PAGE_SIZE: Final = 10_000
DEFAULT_PAGE_SIZE: Final = 1000
MAX_PAGE_NUMBER: Final = 214_748

_encode_sort = msgspec.json.Encoder().encode


class ResultPage(Struct, frozen=True, kw_only=True):
    """A page of a finished job, and how much there is altogether."""

    key: ModelKey
    found: FoundEntities
    number: int
    size: int
    total: int

    @property
    def total_pages(self) -> int:
        return -(-self.total // self.size)


async def submit(runtime: Runtime, caller: Caller, search: Search) -> JobId:
    """Have a search carried out in the background on committed data. Raises the failures of ``prepare``."""
    query = await prepare(runtime, caller.tenant, search)
    condition = search.condition
    text = await run_for_condition(condition, lambda: encode(serialise(condition.tree)).decode())
    job = NewSearchJob(
        tenant=caller.tenant,
        id=JobId(runtime.ids()),
        model=query.model,
        key=search.key,
        condition=text,
        sort=_encode_sort(search.sort).decode(),
        instant=search.instant,
    )
    await runtime.search_jobs.submit(job)
    runtime.search_runner.wake()
    return job.id


async def find(runtime: Runtime, caller: Caller, job_id: JobId) -> SearchJob:
    """The job as it is now. Raises ``SearchJobNotFound``."""
    job = await runtime.search_jobs.find(caller.tenant, job_id)
    if job is None:
        raise SearchJobNotFound(job_id)
    return job


async def cancel(runtime: Runtime, caller: Caller, job_id: JobId) -> None:
    """End a running job. Raises ``SearchJobNotFound``, ``SearchJobAlreadyTerminal``."""
    if await runtime.search_jobs.cancel(caller.tenant, job_id):
        runtime.search_runner.stop(caller.tenant, job_id)
        return
    job = await find(runtime, caller, job_id)
    raise SearchJobAlreadyTerminal(job.id, job.status)


def check_page(*, size: int, number: int) -> int:
    """The size that is meant: nothing or less asks for the default. Raises ``BadRequest``, naming the parameter."""
    if size > MAX_PAGE_SIZE:
        raise BadRequest(f"pageSize exceeds maximum {MAX_PAGE_SIZE}")
    if number < 0:
        raise BadRequest("invalid pageNumber: must not be negative")
    if number > MAX_PAGE_NUMBER:
        raise BadRequest(f"pageNumber exceeds maximum {MAX_PAGE_NUMBER}")
    return size if size > 0 else DEFAULT_PAGE_SIZE


async def read_page(runtime: Runtime, caller: Caller, job_id: JobId, *, size: int, number: int) -> ResultPage:
    """A page of the matches, each as it was at the job's instant.

    Raises ``BadRequest`` for the page and for a job that was not successful (yet), ``SearchJobNotFound``.
    """
    size = check_page(size=size, number=number)
    job = await find(runtime, caller, job_id)
    if job.status != "SUCCESSFUL":
        raise BadRequest(f"search job {job_id} is not complete (status: {job.status})")
    offset = size * number
    found = await runtime.search_jobs.list_page(caller.tenant, job.id, offset=offset, size=min(size, job.hits - offset))
    return ResultPage(key=job.key, found=found, number=number, size=size, total=job.hits)
