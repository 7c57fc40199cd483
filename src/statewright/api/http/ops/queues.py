"""Workers and queues as clients read them (docs/reference/operations.md#members,
docs/reference/operations.md#queues).
"""

from datetime import timedelta
from typing import Final

from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import OPERATOR, OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.failures import InvalidParameter
from statewright.instants import to_rfc3339
from statewright.net.durations import parse_delay
from statewright.services.ops import members, queues
from statewright.services.ops.members import Worker, WorkerKind
from statewright.services.ops.queues import NameKey, Queue, QueueKind, WorkerFilter

KINDS: Final[dict[str, WorkerKind]] = {"STREAM": "STREAM", "POLL": "POLL"}
QUEUE_KINDS: Final[dict[str, QueueKind]] = {"JOB_TYPE": "JOB_TYPE", "TAG": "TAG"}

STALE_AFTER: Final = timedelta(seconds=20)
"""Two intervals of keep-alive messages."""

DEFAULT_DRAIN: Final = timedelta(minutes=5)
MAX_DRAIN: Final = timedelta(hours=24)
WITHIN: Final = Query("within", "string", "ISO 8601, until the stream ends in any case; `PT5M` when absent", "duration")

MEMBER_FILTERS: Final = (
    Query("tag", "string", "declares the tag", repeatable=True),
    Query("kind", "string", "`STREAM` or `POLL`", repeatable=True),
    Query("node", "string", "id of the node it is connected to", repeatable=True),
    Query("stale", "boolean", "nothing was heard of it for 20 seconds"),
)
QUEUE_FILTERS: Final = (
    Query("kind", "string", "`JOB_TYPE` or `TAG`", repeatable=True),
    Query("withoutWorker", "boolean", "only queues that nobody serves"),
)


async def list_members(request: Request) -> Response:
    """The calculation members of all nodes, and workers that hold jobs."""
    kinds = request.query_all("kind")
    stale = None if request.query("stale") is None else request.query_flag("stale")
    limit = request.runtime.clock() - STALE_AFTER // timedelta(microseconds=1)
    if not set(kinds) <= KINDS.keys():
        raise InvalidParameter("kind")
    wanted = WorkerFilter(
        tags=frozenset(tag.lower() for tag in request.query_all("tag")) or None,
        kinds=frozenset(KINDS[kind] for kind in kinds) or None,
        nodes=frozenset(request.query_all("node")) or None,
        seen_before=limit if stale is True else None,
        seen_since=limit if stale is False else None,
    )
    page = read_page_request(request, MEMBER_FILTERS, NameKey)
    found = await queues.list_workers(request.runtime, request.caller, wanted, page)
    return build_list_response(request, MEMBER_FILTERS, found, _describe_worker)


async def list_queues(request: Request) -> Response:
    """What has unfinished jobs or callouts."""
    kinds = request.query_all("kind")
    if not set(kinds) <= QUEUE_KINDS.keys():
        raise InvalidParameter("kind")
    page = read_page_request(request, QUEUE_FILTERS, NameKey)
    found = await queues.list_queues(
        request.runtime,
        request.caller,
        page,
        without_worker=request.query_flag("withoutWorker"),
        kinds=[QUEUE_KINDS[kind] for kind in kinds] or None,
    )
    return build_list_response(request, QUEUE_FILTERS, found, _describe_queue)


async def get_job_queue(request: Request) -> Response:
    """The queue of a job type, which may be empty."""
    return await _get_queue(request, "JOB_TYPE", "jobType")


async def get_tag_queue(request: Request) -> Response:
    """The callouts that need some tags; there may be none."""
    return await _get_queue(request, "TAG", "tags")


async def _get_queue(request: Request, kind: QueueKind, parameter: str) -> Response:
    name = request.path_params[parameter]
    if "\0" in name:
        raise InvalidParameter(parameter)
    queue = await queues.get_queue(request.runtime, request.caller, name, kind=kind)
    return Response(encode_json(_describe_queue(queue)))


async def drain_member(request: Request) -> Response:
    """Send a member nothing any more, and end its stream when it is idle."""
    text = request.query("within")
    delay = None if text is None else parse_delay(text)
    if text is not None and (delay is None or delay.months or timedelta(microseconds=delay.microseconds) > MAX_DRAIN):
        raise InvalidParameter("within", "an ISO 8601 duration of at most 24 hours")
    within = DEFAULT_DRAIN if delay is None else timedelta(microseconds=delay.microseconds)
    member = await members.drain(request.runtime, request.caller, request.path_params["memberId"], within=within)
    return Response(encode_json(_describe_worker(member)), 202)


def _describe_worker(worker: Worker) -> dict[str, object]:
    optional: dict[str, object] = {
        "node": worker.node,
        "software": worker.software,
        "tags": sorted(worker.tags) if worker.kind == "STREAM" else None,
        "jobTypes": worker.job_types if worker.kind == "POLL" else None,
        "connectedAt": None if worker.connected_at is None else to_rfc3339(worker.connected_at),
        "lastSeenAt": None if worker.last_seen_at is None else to_rfc3339(worker.last_seen_at),
        "inFlight": worker.in_flight,
    }
    if worker.calls is not None:
        calls = worker.calls
        optional |= {"succeeded": calls.succeeded, "failed": calls.failed, "timedOut": calls.timed_out}
    known = {name: value for name, value in optional.items() if value is not None}
    return {"id": worker.id, "kind": worker.kind, "draining": worker.is_draining} | known


def _describe_queue(queue: Queue) -> dict[str, object]:
    shown: dict[str, object] = {
        "kind": queue.kind,
        "name": queue.name,
        "depth": queue.depth,
        "inFlight": queue.in_flight,
        "delayed": queue.delayed,
        "held": queue.held,
        "oldestAgeSeconds": None if queue.oldest_age_us is None else queue.oldest_age_us // 1_000_000,
        "workers": queue.workers,
        "wanted": queue.wanted,
        "ratePerMinute": queue.handed_out,
        "suspended": queue.is_suspended,
        "since": None if queue.since is None else to_rfc3339(queue.since),
    }
    return shown | {"isLowerBound": True} if queue.is_lower_bound else shown


QUEUES: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/members",
        endpoint=list_members,
        id="listMembers",
        summary="The calculation members of all nodes, and workers that hold jobs, by id",
        query=(*MEMBER_FILTERS, *PAGING),
        reply="OpsMembers",
        problems=("BAD_REQUEST",),
    ),
    OpsRoute(
        method="POST",
        path="/ops/v1/members/{memberId}/drain",
        endpoint=drain_member,
        id="drainMember",
        summary="Send a member nothing any more, and end its stream when it is idle",
        role=OPERATOR,
        query=(WITHIN,),
        status=202,
        reply="OpsMember",
        problems=("BAD_REQUEST", "FORBIDDEN", "MEMBER_NOT_FOUND", "COMPUTE_MEMBER_DISCONNECTED"),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/queues",
        endpoint=list_queues,
        id="listQueues",
        summary="The job types that have unfinished jobs, and the tags that callouts need, by kind and name",
        query=(*QUEUE_FILTERS, *PAGING),
        reply="OpsQueues",
        problems=("BAD_REQUEST",),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/queues/JOB_TYPE/{jobType}",
        endpoint=get_job_queue,
        id="getQueue",
        summary="The queue of a job type; an empty one where there are no jobs",
        reply="OpsQueue",
        problems=("BAD_REQUEST",),
    ),
    OpsRoute(
        method="GET",
        path="/ops/v1/queues/TAG/{tags}",
        endpoint=get_tag_queue,
        id="getCalloutQueue",
        summary="The callouts that need some tags, which are joined by commas; there may be none",
        reply="OpsQueue",
        problems=("BAD_REQUEST",),
    ),
)
