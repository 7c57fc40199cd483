"""Messages and search jobs as clients list them (docs/reference/operations.md#messages-and-search-jobs)."""

from typing import Final, get_args

from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import Query
from statewright.failures import InvalidParameter
from statewright.ids import find_time
from statewright.instants import to_rfc3339
from statewright.searches import JobStatus
from statewright.services.ops import listings
from statewright.services.ops.listings import ListedMessage, ListedSearchJob, MessageKey, SearchJobKey

STATUSES: Final[tuple[str, ...]] = get_args(JobStatus)

JOB_FILTERS: Final = (
    Query("status", "string", ", ".join(STATUSES), repeatable=True),
    Query("model", "string", "name of the model"),
)
LISTING: Final = tuple(query for query in PAGING if query.name != "count")


async def list_messages(request: Request) -> Response:
    """Edge messages, the newest first, without their payloads."""
    page = read_page_request(request, (), MessageKey)
    found = await listings.list_messages(request.runtime, request.caller, page)
    return build_list_response(request, (), found, _describe_message)


async def list_search_jobs(request: Request) -> Response:
    """Search jobs, the newest first."""
    statuses = request.query_all("status")
    if not {*statuses} <= {*STATUSES}:
        raise InvalidParameter("status")
    page = read_page_request(request, JOB_FILTERS, SearchJobKey)
    found = await listings.list_search_jobs(
        request.runtime, request.caller, page, statuses=statuses or None, model=request.query("model")
    )
    return build_list_response(request, JOB_FILTERS, found, _describe_job)


def _describe_message(message: ListedMessage) -> dict[str, object]:
    made_at = find_time(message.id)
    shown: dict[str, object] = {"id": message.id, "header": message.header}
    return shown if made_at is None else shown | {"createdAt": to_rfc3339(made_at)}


def _describe_job(job: ListedSearchJob) -> dict[str, object]:
    optional: dict[str, object] = {
        "finishedAt": None if job.finished_at is None else to_rfc3339(job.finished_at),
        "expiresAt": None if job.expires_at is None else to_rfc3339(job.expires_at),
        "failure": job.failure,
        "condition": job.condition,
    }
    shown: dict[str, object] = {
        "id": job.id,
        "model": {"name": job.key.name, "version": job.key.version},
        "status": job.status,
        "createdAt": to_rfc3339(job.created_at),
        "hits": job.hits,
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


LISTINGS: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/messages",
        endpoint=list_messages,
        id="listMessages",
        summary="Edge messages, the newest first, without their payloads",
        query=LISTING,
        reply="OpsMessages",
        problems=("BAD_REQUEST",),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/search-jobs",
        endpoint=list_search_jobs,
        id="listSearchJobs",
        summary="Search jobs whose results are kept, the newest first",
        query=(*JOB_FILTERS, *LISTING),
        reply="OpsSearchJobs",
        problems=("BAD_REQUEST",),
    ),
)
