"""Searching over REST (docs/reference/search.md#order-of-checks, docs/reference/search.md#direct-search)."""

import re
from collections.abc import Callable
from typing import Final

from statewright.api.http import search_indexes
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import JSON, LINES, Framing, Response, encode_json, respond_with_envelopes
from statewright.api.http.router import MODEL, Route
from statewright.conditions import SearchCondition, SortKey, parse_sort
from statewright.entity import FoundEntities, ModelKey
from statewright.failures import BadRequest, BodyTooLarge, InvalidParameter
from statewright.instants import to_rfc3339
from statewright.operations.listings import JobId, SearchJob
from statewright.operations.records import POINT_IN_TIME, SORT, QueryParameter
from statewright.services import search
from statewright.services.search import ResultPage, Search

EXPLANATIONS: Final = {"plan": False, "analyze": True}
"""Whether the statement is run."""

NDJSON: Final = "application/x-ndjson"

HAL: Final = "application/hal+json"
"""Older clients tell a page of results by it (decision S19)."""

ConditionReader = Callable[[bytes], SearchCondition]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")


async def search_direct(request: Request) -> Response:
    """Everything that matches, as lines of JSON; with ``explain``, how that is found out."""
    key = request.model_key()
    explain = request.query("explain")
    if explain is not None:
        return await _explain_search(request, key, explain)
    found = await _run_search(request, key)
    return await respond_with_envelopes(found.take_portions(), key, LINES, media_type=NDJSON)


async def search_as_array(request: Request) -> Response:
    """The same as one JSON array, for older clients (docs/reference/search.md#paths-for-older-clients)."""
    key = request.model_key()
    found = await _run_search(request, key, search.read_older_condition)
    return await respond_with_envelopes(found.take_portions(), key)


async def _explain_search(request: Request, key: ModelKey, kind: str) -> Response:
    if kind not in EXPLANATIONS:
        raise InvalidParameter("explain")
    wanted, limit = await _read_search(request, key)
    found = await search.explain(request.runtime.core, request.caller, wanted, limit=limit, analyze=EXPLANATIONS[kind])
    text = " ".join(found.statement.text.split())
    arguments = [str(argument) for argument in found.statement.args]
    return Response(encode_json({"sql": text, "arguments": arguments, "judged": found.judged, "plan": found.plan}))


async def _run_search(request: Request, key: ModelKey, read: ConditionReader = search.read_condition) -> FoundEntities:
    tracking = request.query_flag("trackingRead")
    wanted, limit = await _read_search(request, key, read)
    return await search.run_direct_search(request.runtime.core, request.caller, wanted, limit=limit, tracking=tracking)


async def _read_search(
    request: Request, key: ModelKey, read: ConditionReader = search.read_condition
) -> tuple[Search, int]:
    instant = request.query_instant("pointInTime")
    condition, sort = await read_condition(request, read), read_sort(request)
    limit = _read_limit(request)
    return Search(key=key, condition=condition, sort=sort, instant=instant), limit


async def read_condition(request: Request, read: ConditionReader = search.read_condition) -> SearchCondition:
    """The condition in the body."""
    try:
        return await request.read(read)
    except BodyTooLarge as refused:
        raise BodyTooLarge(f"failed to read request body: {refused.message}") from refused


def read_sort(request: Request) -> tuple[SortKey, ...]:
    """The keys of the query."""
    return parse_sort(request.query_all("sort"), max_keys=request.runtime.core.max_sort_keys)


def _read_limit(request: Request) -> int:
    text = request.query("limit")
    if text is None:
        return search.DEFAULT_LIMIT
    if not _INTEGER.fullmatch(text):
        raise BadRequest(f'invalid limit: "{text}" is no integer')
    return search.check_limit(int(text))


# Asynchronous searches over REST (docs/reference/search.md#asynchronous-search).

_US_PER_MS: Final = 1000


async def submit_job(request: Request) -> Response:
    """Begin a search; the answer is the id of its job."""
    key, instant = request.model_key(), request.query_instant("pointInTime")
    condition, sort = await read_condition(request), read_sort(request)
    wanted = Search(key=key, condition=condition, sort=sort, instant=instant)
    return Response(encode_json(await search.submit(request.runtime.core, request.caller, wanted)))


async def get_job_status(request: Request) -> Response:
    """How a job is doing."""
    job = await search.find(request.runtime.core, request.caller, _read_job_id(request))
    return Response(encode_json({"searchJobStatus": job.status, **_describe_progress(request, job)}))


async def get_job_results(request: Request) -> Response:
    """A page of the matches."""
    page = await _read_page(request)
    framing = Framing(b'{"content":[', tail=b'],"page":%b}\n' % _encode_page(page))
    return await respond_with_envelopes(page.found.take_portions(), page.key, framing)


async def cancel_job(request: Request) -> Response:
    """Stop a running job."""
    await search.cancel(request.runtime.core, request.caller, _read_job_id(request))
    return Response(encode_json({"isCancelled": True, "cancelled": True, "currentSearchJobStatus": "CANCELLED"}))


async def get_job_failure(request: Request) -> Response:
    """Why a job failed; no reason for one that did not."""
    job = await search.find(request.runtime.core, request.caller, _read_job_id(request))
    return Response(encode_json({"searchJobStatus": job.status, "reason": job.failure}))


async def get_snapshot_status(request: Request) -> Response:
    """How a job is doing, for older clients."""
    job = await search.find(request.runtime.core, request.caller, _read_job_id(request))
    return Response(encode_json({"snapshotStatus": job.status, **_describe_progress(request, job)}))


async def get_snapshot_results(request: Request) -> Response:
    """A page of the matches, for older clients."""
    page = await _read_page(request)
    framing = Framing(b'{"_embedded":{"objectNodes":[', tail=b']},"page":%b}\n' % _encode_page(page))
    return await respond_with_envelopes(page.found.take_portions(), page.key, framing, media_type=HAL)


def _read_job_id(request: Request) -> JobId:
    return JobId(uuid_text("jobId", request.path_params["jobId"]))


async def _read_page(request: Request) -> ResultPage:
    job = _read_job_id(request)
    size = request.query_int32("pageSize", search.DEFAULT_PAGE_SIZE)
    number = request.query_int32("pageNumber", 0)
    return await search.read_page(request.runtime.core, request.caller, job, size=size, number=number)


def _describe_progress(request: Request, job: SearchJob) -> dict[str, object]:
    end: dict[str, object] = {} if job.finished_at is None else {"finishTime": to_rfc3339(job.finished_at)}
    took_us = 0 if job.finished_at is None else job.finished_at - job.created_at
    return end | {
        "createTime": to_rfc3339(job.created_at),
        "entitiesCount": job.hits,
        "calculationTimeMillis": took_us // _US_PER_MS,
        "expirationDate": to_rfc3339(job.created_at + request.runtime.core.search_jobs.retention_us),
    }


def _encode_page(page: ResultPage) -> bytes:
    numbers = {"number": page.number, "size": page.size, "totalElements": page.total, "totalPages": page.total_pages}
    return encode_json(numbers).rstrip(b"\n")


# Routes that find entities, at once or by a job, and the indexes that help (docs/reference/search.md#search).

LIMIT: Final = QueryParameter(
    "limit", "string", "most matches, 1 to 10000, 1000 when absent; more of them are an error", "int32"
)
EXPLAIN: Final = QueryParameter(
    "explain", "string", "`plan` or `analyze`: the answer is the SQL statement and PostgreSQL's plan for it, as JSON"
)
TRACKING: Final = QueryParameter("trackingRead", "boolean", "a joined transaction relies on what is returned")
RESULT_PAGE: Final = (
    QueryParameter("pageSize", "string", "1000 when absent or not positive, at most 10000", "int32"),
    QueryParameter("pageNumber", "string", "from 0", "int32"),
)
SUBMIT_PROBLEMS: Final = (
    "BAD_REQUEST",
    "INVALID_CONDITION",
    "INVALID_FIELD_PATH",
    "CONDITION_TYPE_MISMATCH",
    "MODEL_NOT_FOUND",
)
SEARCH_PROBLEMS: Final = (
    *SUBMIT_PROBLEMS,
    "HISTORY_PRUNED",
    "SEARCH_RESULT_LIMIT",
    "SCAN_BUDGET_EXHAUSTED",
    "SEARCH_SHARD_TIMEOUT",
)
JOB_PROBLEMS: Final = ("BAD_REQUEST", "SEARCH_JOB_NOT_FOUND")

SEARCH: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/search/direct/{entityName}/{modelVersion}",
        endpoint=search_direct,
        recording="nothing",
        is_read=True,
        id="searchEntities",
        tag="Search",
        summary="Find entities at once: all that match, or an error when there are too many",
        query=(POINT_IN_TIME, LIMIT, SORT, TRACKING, EXPLAIN),
        body="Condition",
        reply="Envelope",
        other_replies=((JSON, "Explanation"),),
        media_type=NDJSON,
        problems=SEARCH_PROBLEMS,
    ),
    Route(
        method="POST",
        path="/search/{entityName}/{modelVersion}",
        endpoint=search_as_array,
        recording="nothing",
        is_read=True,
        id="searchEntitiesAsArray",
        tag="Search",
        summary="The same as a JSON array, for older libraries",
        query=(POINT_IN_TIME, LIMIT, SORT, TRACKING),
        body="Condition",
        reply="Envelopes",
        problems=SEARCH_PROBLEMS,
    ),
    Route(
        method="POST",
        path=f"{MODEL}/index",
        endpoint=search_indexes.declare_index,
        recording="transaction",
        id="declareSearchIndex",
        is_ours=True,
        tag="Search",
        summary="Have an index on a field built in the background; for administrators",
        body="WantedIndex",
        reply="SearchIndex",
        problems=("BAD_REQUEST", "INVALID_FIELD_PATH", "FORBIDDEN", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="GET",
        path=f"{MODEL}/index",
        endpoint=search_indexes.list_indexes,
        id="getSearchIndexes",
        is_ours=True,
        tag="Search",
        summary="List the declared indexes of a model with the progress of their builds",
        reply="SearchIndexes",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="DELETE",
        path=f"{MODEL}/index/{{indexId}}",
        endpoint=search_indexes.drop_index,
        recording="transaction",
        id="withdrawSearchIndex",
        is_ours=True,
        tag="Search",
        summary="Have a declared index dropped in the background; for administrators",
        reply="Success",
        problems=("BAD_REQUEST", "FORBIDDEN", "MODEL_NOT_FOUND", "SEARCH_INDEX_NOT_FOUND"),
    ),
    Route(
        method="POST",
        path="/search/async/{entityName}/{modelVersion}",
        endpoint=submit_job,
        recording="nothing",
        is_read=True,
        id="submitAsyncSearchJob",
        tag="Search",
        summary="Begin a search whose results are kept; the answer is the id of the job",
        query=(POINT_IN_TIME, SORT),
        body="Condition",
        reply="JobId",
        problems=SUBMIT_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/search/async/{jobId}/status",
        endpoint=get_job_status,
        id="getAsyncSearchStatus",
        tag="Search",
        summary="How a job is doing",
        reply="JobStatus",
        problems=JOB_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/search/async/{jobId}",
        endpoint=get_job_results,
        id="getAsyncSearchResults",
        tag="Search",
        summary="A page of what a job has found, as it was at the job's instant",
        query=RESULT_PAGE,
        reply="JobResults",
        problems=JOB_PROBLEMS,
    ),
    Route(
        method="PUT",
        path="/search/async/{jobId}/cancel",
        endpoint=cancel_job,
        recording="nothing",
        id="cancelAsyncSearch",
        tag="Search",
        summary="Stop a running job",
        reply="JobCancellation",
        problems=(*JOB_PROBLEMS, "SEARCH_JOB_ALREADY_TERMINAL"),
    ),
    Route(
        method="GET",
        path="/search/async/{jobId}/failure",
        endpoint=get_job_failure,
        id="getAsyncSearchFailure",
        tag="Search",
        summary="Why a job failed",
        reply="JobFailure",
        problems=JOB_PROBLEMS,
    ),
    Route(
        method="POST",
        path="/search/snapshot/{entityName}/{modelVersion}",
        endpoint=submit_job,
        recording="nothing",
        is_read=True,
        id="createSnapshotSearch",
        tag="Search",
        summary="Begin a search whose results are kept, for older libraries",
        query=(POINT_IN_TIME, SORT),
        body="Condition",
        reply="JobId",
        problems=SUBMIT_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/search/snapshot/{jobId}/status",
        endpoint=get_snapshot_status,
        id="getSnapshotStatus",
        tag="Search",
        summary="How a job is doing, for older libraries",
        reply="SnapshotStatus",
        problems=JOB_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/search/snapshot/{jobId}",
        endpoint=get_snapshot_results,
        id="getSnapshotResults",
        tag="Search",
        summary="A page of what a job has found, for older libraries",
        query=RESULT_PAGE,
        media_type=HAL,
        reply="SnapshotResults",
        problems=JOB_PROBLEMS,
    ),
)
