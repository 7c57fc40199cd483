"""Asynchronous searches over REST (spec/search.md §14, §20)."""

from statewright.api.http.bodies import json_body
from statewright.api.http.endpoints.search import enveloped, read_question, read_sort
from statewright.api.http.exchange import Answer, Exchange, uuid_text
from statewright.instants import to_rfc3339
from statewright.services import search_jobs
from statewright.services.search import Search
from statewright.services.search_jobs import ResultPage
from statewright.storage.search_jobs import Job, JobId

_US_PER_MS = 1000


async def submit(exchange: Exchange) -> Answer:
    """Begin a search; the answer is the id of its job."""
    key, instant = exchange.model_key(), exchange.query_instant("pointInTime")
    question, sort = await read_question(exchange), read_sort(exchange)
    wanted = Search(key=key, question=question, sort=sort, instant=instant)
    return Answer(json_body(await search_jobs.submit(exchange.runtime, exchange.caller, wanted)))


async def status(exchange: Exchange) -> Answer:
    """How a job is doing."""
    job = await search_jobs.find(exchange.runtime, exchange.caller, _job_id(exchange))
    return Answer(json_body({"searchJobStatus": job.status, **_progress(exchange, job)}))


async def results(exchange: Exchange) -> Answer:
    """A page of the matches."""
    page = await _page(exchange)
    return Answer(b'{"content":[%b],"page":%b}\n' % (await _content(page), _numbers(page)))


async def cancel(exchange: Exchange) -> Answer:
    """Stop a running job."""
    await search_jobs.cancel(exchange.runtime, exchange.caller, _job_id(exchange))
    return Answer(json_body({"isCancelled": True, "cancelled": True, "currentSearchJobStatus": "CANCELLED"}))


async def failure(exchange: Exchange) -> Answer:
    """Why a job failed; no reason for one that did not."""
    job = await search_jobs.find(exchange.runtime, exchange.caller, _job_id(exchange))
    return Answer(json_body({"searchJobStatus": job.status, "reason": job.failure}))


async def snapshot_status(exchange: Exchange) -> Answer:
    """How a job is doing, for older clients."""
    job = await search_jobs.find(exchange.runtime, exchange.caller, _job_id(exchange))
    return Answer(json_body({"snapshotStatus": job.status, **_progress(exchange, job)}))


async def snapshot_results(exchange: Exchange) -> Answer:
    """A page of the matches, for older clients."""
    page = await _page(exchange)
    return Answer(b'{"_embedded":{"objectNodes":[%b]},"page":%b}\n' % (await _content(page), _numbers(page)))


def _job_id(exchange: Exchange) -> JobId:
    return JobId(uuid_text("jobId", exchange.segments["jobId"]))


async def _page(exchange: Exchange) -> ResultPage:
    job = _job_id(exchange)
    size = exchange.query_int32("pageSize", search_jobs.DEFAULT_PAGE_SIZE)
    number = exchange.query_int32("pageNumber", 0)
    return await search_jobs.page(exchange.runtime, exchange.caller, job, size=size, number=number)


def _progress(exchange: Exchange, job: Job) -> dict[str, object]:
    end: dict[str, object] = {} if job.finished_at is None else {"finishTime": to_rfc3339(job.finished_at)}
    took_us = 0 if job.finished_at is None else job.finished_at - job.created_at
    return end | {
        "createTime": to_rfc3339(job.created_at),
        "entitiesCount": job.hits,
        "calculationTimeMillis": took_us // _US_PER_MS,
        "expirationDate": to_rfc3339(job.created_at + exchange.runtime.search_jobs.retention_us),
    }


async def _content(page: ResultPage) -> bytes:
    return b",".join(await enveloped(page.entities, page.key))


def _numbers(page: ResultPage) -> bytes:
    numbers = {"number": page.number, "size": page.size, "totalElements": page.total, "totalPages": page.total_pages}
    return json_body(numbers).rstrip(b"\n")
