"""Searching over REST (docs/reference/search.md#order-of-checks, docs/reference/search.md#direct-search)."""

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from statewright.api.http.declaration import Subject
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import JSON, LINES, Framing, Response, encode_json, respond_with_envelopes
from statewright.api.http.router import MODEL
from statewright.conditions import SearchCondition, SortKey, parse_sort
from statewright.entity import FoundEntities, ModelKey
from statewright.failures import BadRequest, BodyTooLarge, InvalidParameter
from statewright.instants import to_rfc3339
from statewright.operations.entity_answers import (
    CancelledJob,
    ExplainedSearch,
    FailedJob,
    JobProgress,
    PageNumbers,
    SearchJobProgress,
    SnapshotProgress,
    WantedIndex,
    show_index,
)
from statewright.operations.listings import JobId, SearchJob
from statewright.operations.records import POINT_IN_TIME, SORT, QueryParameter
from statewright.services import search
from statewright.services.auth.clients import require_admin
from statewright.services.search import ResultPage, Search

ProgressT = TypeVar("ProgressT", bound=JobProgress)

EXPLANATIONS: Final = {"plan": False, "analyze": True}
"""Whether the statement is run."""

NDJSON: Final = "application/x-ndjson"

HAL: Final = "application/hal+json"
"""Older clients tell a page of results by it (decision S19)."""

ConditionReader = Callable[[bytes], SearchCondition]

_SEARCH: Final = Subject(tag="Search", recording="nothing")
_JOBS: Final = Subject(tag="Search", recording="nothing", problems=("BAD_REQUEST", "SEARCH_JOB_NOT_FOUND"))
_INDEXES: Final = Subject(tag="Search", recording="transaction")

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

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")


@_SEARCH.declare(
    "POST /search/direct/{entityName}/{modelVersion}",
    "searchEntities",
    is_read=True,
    query=(POINT_IN_TIME, LIMIT, SORT, TRACKING, EXPLAIN),
    body="Condition",
    reply="Envelope",
    other_replies=((JSON, "Explanation"),),
    media_type=NDJSON,
    problems=SEARCH_PROBLEMS,
)
async def search_direct(request: Request) -> Response:
    """Find entities at once: all that match, or an error when there are too many."""
    key = request.model_key()
    explain = request.query("explain")
    if explain is not None:
        return await _explain_search(request, key, explain)
    found = await _run_search(request, key)
    return await respond_with_envelopes(found.take_portions(), key, LINES, media_type=NDJSON)


@_SEARCH.declare(
    "POST /search/{entityName}/{modelVersion}",
    "searchEntitiesAsArray",
    is_read=True,
    query=(POINT_IN_TIME, LIMIT, SORT, TRACKING),
    body="Condition",
    reply="Envelopes",
    problems=SEARCH_PROBLEMS,
)
async def search_as_array(request: Request) -> Response:
    """The same as a JSON array, for older libraries."""
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
    return Response(encode_json(ExplainedSearch(sql=text, arguments=arguments, judged=found.judged, plan=found.plan)))


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


@_SEARCH.declare(
    "POST /search/async/{entityName}/{modelVersion}",
    "submitAsyncSearchJob",
    is_read=True,
    query=(POINT_IN_TIME, SORT),
    body="Condition",
    reply="JobId",
    problems=SUBMIT_PROBLEMS,
)
async def submit_job(request: Request) -> Response:
    """Begin a search whose results are kept; the answer is the id of the job."""
    key, instant = request.model_key(), request.query_instant("pointInTime")
    condition, sort = await read_condition(request), read_sort(request)
    wanted = Search(key=key, condition=condition, sort=sort, instant=instant)
    return Response(encode_json(await search.submit(request.runtime.core, request.caller, wanted)))


submit_snapshot = replace(
    submit_job,
    path="/search/snapshot/{entityName}/{modelVersion}",
    id="createSnapshotSearch",
    summary="Begin a search whose results are kept, for older libraries",
)


@_JOBS.declare("GET /search/async/{jobId}/status", "getAsyncSearchStatus", reply="JobStatus")
async def get_job_status(request: Request) -> Response:
    """How a job is doing."""
    job = await search.find(request.runtime.core, request.caller, _read_job_id(request))
    return _show_progress(request, job, SearchJobProgress)


@_JOBS.declare("GET /search/async/{jobId}", "getAsyncSearchResults", query=RESULT_PAGE, reply="JobResults")
async def get_job_results(request: Request) -> Response:
    """A page of what a job has found, as it was at the job's instant."""
    page = await _read_page(request)
    framing = Framing(b'{"content":[', tail=b'],"page":%b}\n' % _encode_page(page))
    return await respond_with_envelopes(page.found.take_portions(), page.key, framing)


@_JOBS.declare(
    "PUT /search/async/{jobId}/cancel",
    "cancelAsyncSearch",
    reply="JobCancellation",
    problems=("SEARCH_JOB_ALREADY_TERMINAL",),
)
async def cancel_job(request: Request) -> Response:
    """Stop a running job."""
    await search.cancel(request.runtime.core, request.caller, _read_job_id(request))
    return Response(encode_json(CancelledJob(is_cancelled=True, cancelled=True, current_search_job_status="CANCELLED")))


@_JOBS.declare("GET /search/async/{jobId}/failure", "getAsyncSearchFailure", reply="JobFailure")
async def get_job_failure(request: Request) -> Response:
    """Why a job failed."""
    job = await search.find(request.runtime.core, request.caller, _read_job_id(request))
    return Response(encode_json(FailedJob(search_job_status=job.status, reason=job.failure)))


@_JOBS.declare("GET /search/snapshot/{jobId}/status", "getSnapshotStatus", reply="SnapshotStatus")
async def get_snapshot_status(request: Request) -> Response:
    """How a job is doing, for older libraries."""
    job = await search.find(request.runtime.core, request.caller, _read_job_id(request))
    return _show_progress(request, job, SnapshotProgress)


@_JOBS.declare(
    "GET /search/snapshot/{jobId}", "getSnapshotResults", query=RESULT_PAGE, media_type=HAL, reply="SnapshotResults"
)
async def get_snapshot_results(request: Request) -> Response:
    """A page of what a job has found, for older libraries."""
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


def _show_progress(request: Request, job: SearchJob, kind: type[ProgressT]) -> Response:
    took_us = 0 if job.finished_at is None else job.finished_at - job.created_at
    progress = kind(
        status=job.status,
        create_time=to_rfc3339(job.created_at),
        finish_time=None if job.finished_at is None else to_rfc3339(job.finished_at),
        entities_count=job.hits,
        calculation_time_millis=took_us // _US_PER_MS,
        expiration_date=to_rfc3339(job.created_at + request.runtime.core.search_jobs.retention_us),
    )
    return Response(encode_json(progress))


def _encode_page(page: ResultPage) -> bytes:
    numbers = PageNumbers(number=page.number, size=page.size, total_elements=page.total, total_pages=page.total_pages)
    return encode_json(numbers).rstrip(b"\n")


# Declared indexes: an extension of ours.


@_INDEXES.declare(
    f"POST {MODEL}/index",
    "declareSearchIndex",
    is_ours=True,
    body="WantedIndex",
    reply="SearchIndex",
    problems=("BAD_REQUEST", "INVALID_FIELD_PATH", "FORBIDDEN", "MODEL_NOT_FOUND"),
)
async def declare_index(request: Request) -> Response:
    """Have an index on a field built in the background; for administrators."""
    require_admin(request.principal)  # an index slows the writes of all tenants down
    key = request.model_key()
    try:
        wanted = msgspec.json.decode(await request.body(), type=WantedIndex)
    except (msgspec.DecodeError, UnicodeDecodeError) as malformed:
        raise BadRequest(f"invalid index: {malformed}") from malformed
    index = await search.declare(
        request.runtime.core, request.caller, key, path=wanted.path, kind=wanted.type, state=wanted.state
    )
    return Response(encode_json(show_index(index)))


@_INDEXES.declare(
    f"GET {MODEL}/index",
    "getSearchIndexes",
    is_ours=True,
    reply="SearchIndexes",
    problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
)
async def list_indexes(request: Request) -> Response:
    """List the declared indexes of a model with the progress of their builds."""
    found = await search.list_indexes(request.runtime.core, request.caller, request.model_key())
    return Response(encode_json([*map(show_index, found)]))


@_INDEXES.declare(
    f"DELETE {MODEL}/index/{{indexId}}",
    "withdrawSearchIndex",
    is_ours=True,
    reply="Success",
    problems=("BAD_REQUEST", "FORBIDDEN", "MODEL_NOT_FOUND", "SEARCH_INDEX_NOT_FOUND"),
)
async def drop_index(request: Request) -> Response:
    """Have a declared index dropped in the background; for administrators."""
    require_admin(request.principal)  # an index slows the writes of all tenants down
    key = request.model_key()
    await search.withdraw(request.runtime.core, request.caller, key, request.path_params["indexId"])
    return Response(encode_json({"success": True}))
