"""Routes that find entities, at once or by a job, and the indexes that help (spec/search.md)."""

from statewright.api.http.endpoints import search, search_indexes, search_jobs
from statewright.api.http.exchange import JSON
from statewright.api.http.routes.parameters import MODEL, POINT_IN_TIME
from statewright.api.http.routes.route import Query, Route

SORT = Query("sort", "string", "`path` or `@field`, then `:asc` or `:desc`; in order of precedence", repeatable=True)
LIMIT = Query("limit", "string", "most matches, 1 to 10000, 1000 when absent; more of them are an error", "int32")
EXPLAIN = Query(
    "explain", "string", "`plan` or `analyze`: the answer is the SQL statement and PostgreSQL's plan for it, as JSON"
)
TRACKING = Query("trackingRead", "boolean", "a joined transaction relies on what is returned")
RESULT_PAGE = (
    Query("pageSize", "string", "1000 when absent or not positive, at most 10000", "int32"),
    Query("pageNumber", "string", "from 0", "int32"),
)
SUBMIT_PROBLEMS = (
    "BAD_REQUEST",
    "INVALID_CONDITION",
    "INVALID_FIELD_PATH",
    "CONDITION_TYPE_MISMATCH",
    "MODEL_NOT_FOUND",
)
SEARCH_PROBLEMS = (
    *SUBMIT_PROBLEMS,
    "HISTORY_PRUNED",
    "SEARCH_RESULT_LIMIT",
    "SCAN_BUDGET_EXHAUSTED",
    "SEARCH_SHARD_TIMEOUT",
)
JOB_PROBLEMS = ("BAD_REQUEST", "SEARCH_JOB_NOT_FOUND")

SEARCH: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/search/direct/{entityName}/{modelVersion}",
        endpoint=search.direct,
        id="searchEntities",
        tag="Search",
        summary="Find entities at once: all that match, or an error when there are too many",
        query=(POINT_IN_TIME, LIMIT, SORT, TRACKING, EXPLAIN),
        body="Condition",
        reply="Envelope",
        other_replies=((JSON, "Explanation"),),
        media_type=search.NDJSON,
        problems=SEARCH_PROBLEMS,
    ),
    Route(
        method="POST",
        path="/search/{entityName}/{modelVersion}",
        endpoint=search.direct_as_array,
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
        endpoint=search_indexes.declare,
        id="declareSearchIndex",
        tag="Search",
        summary="Have an index on a field built in the background; for administrators",
        body="WantedIndex",
        reply="SearchIndex",
        problems=("BAD_REQUEST", "INVALID_FIELD_PATH", "FORBIDDEN", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="GET",
        path=f"{MODEL}/index",
        endpoint=search_indexes.listing,
        id="getSearchIndexes",
        tag="Search",
        summary="List the declared indexes of a model with the progress of their builds",
        reply="SearchIndexes",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="DELETE",
        path=f"{MODEL}/index/{{indexId}}",
        endpoint=search_indexes.withdraw,
        id="withdrawSearchIndex",
        tag="Search",
        summary="Have a declared index dropped in the background; for administrators",
        reply="Success",
        problems=("BAD_REQUEST", "FORBIDDEN", "MODEL_NOT_FOUND", "SEARCH_INDEX_NOT_FOUND"),
    ),
    Route(
        method="POST",
        path="/search/async/{entityName}/{modelVersion}",
        endpoint=search_jobs.submit,
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
        endpoint=search_jobs.status,
        id="getAsyncSearchStatus",
        tag="Search",
        summary="How a job is doing",
        reply="JobStatus",
        problems=JOB_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/search/async/{jobId}",
        endpoint=search_jobs.results,
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
        endpoint=search_jobs.cancel,
        id="cancelAsyncSearch",
        tag="Search",
        summary="Stop a running job",
        reply="JobCancellation",
        problems=(*JOB_PROBLEMS, "SEARCH_JOB_ALREADY_TERMINAL"),
    ),
    Route(
        method="GET",
        path="/search/async/{jobId}/failure",
        endpoint=search_jobs.failure,
        id="getAsyncSearchFailure",
        tag="Search",
        summary="Why a job failed",
        reply="JobFailure",
        problems=JOB_PROBLEMS,
    ),
    Route(
        method="POST",
        path="/search/snapshot/{entityName}/{modelVersion}",
        endpoint=search_jobs.submit,
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
        endpoint=search_jobs.snapshot_status,
        id="getSnapshotStatus",
        tag="Search",
        summary="How a job is doing, for older libraries",
        reply="SnapshotStatus",
        problems=JOB_PROBLEMS,
    ),
    Route(
        method="GET",
        path="/search/snapshot/{jobId}",
        endpoint=search_jobs.snapshot_results,
        id="getSnapshotResults",
        tag="Search",
        summary="A page of what a job has found, for older libraries",
        query=RESULT_PAGE,
        reply="SnapshotResults",
        problems=JOB_PROBLEMS,
    ),
)
