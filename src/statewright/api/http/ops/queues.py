"""Workers and queues as clients read them (docs/reference/operations.md#members,
docs/reference/operations.md#queues), nodes (docs/reference/operations.md#nodes), and how much was written in the last
hour (docs/reference/operations.md#rates).
"""

from datetime import timedelta
from typing import Final, get_args

from statewright.api.http.ops.paging import build_list_response, read_page_request, read_words, serve_list
from statewright.api.http.ops.route import serve
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.failures import InvalidParameter
from statewright.instants import to_us
from statewright.net.durations import parse_exact
from statewright.operations.queues import QueueKind, WorkerKind
from statewright.operations.table import (
    DRAIN_MEMBER,
    GET_CALLOUT_QUEUE,
    GET_QUEUE,
    LIST_MEMBERS,
    LIST_NODES,
    LIST_QUEUES,
    SHOW_RATES,
)
from statewright.services.ops import queues
from statewright.services.ops.queues import NameKey, NodeKey, WorkerFilter, show_queue, show_worker

KINDS: Final[tuple[WorkerKind, ...]] = get_args(WorkerKind)
QUEUE_KINDS: Final[tuple[QueueKind, ...]] = get_args(QueueKind)

STALE_AFTER: Final = timedelta(seconds=20)
"""Two intervals of keep-alive messages."""

DEFAULT_DRAIN: Final = timedelta(minutes=5)
MAX_DRAIN: Final = timedelta(hours=24)


@serve(LIST_MEMBERS)
async def list_members(request: Request) -> Response:
    """The calculation members of all nodes, and workers that hold jobs."""
    stale = None if request.query("stale") is None else request.query_flag("stale")
    limit = request.runtime.core.clock() - to_us(STALE_AFTER)
    kinds = read_words(request, "kind", KINDS)
    wanted = WorkerFilter(
        tags=frozenset(tag.lower() for tag in request.query_all("tag")) or None,
        kinds=frozenset(kinds) if kinds else None,
        nodes=frozenset(request.query_all("node")) or None,
        seen_before=limit if stale is True else None,
        seen_since=limit if stale is False else None,
    )
    page = read_page_request(request, LIST_MEMBERS, NameKey)
    found = await queues.list_workers(request.runtime.operations.work, request.caller, wanted, page)
    return build_list_response(request, LIST_MEMBERS, found, show_worker)


@serve(LIST_QUEUES)
async def list_queues(request: Request) -> Response:
    """What has unfinished jobs or callouts."""
    kinds = read_words(request, "kind", QUEUE_KINDS)
    page = read_page_request(request, LIST_QUEUES, NameKey)
    found = await queues.list_queues(
        request.runtime.operations.work,
        request.caller,
        page,
        without_worker=request.query_flag("withoutWorker"),
        kinds=kinds,
    )
    return build_list_response(request, LIST_QUEUES, found, show_queue)


@serve(GET_QUEUE)
async def get_job_queue(request: Request) -> Response:
    """The queue of a job type, which may be empty."""
    return await _get_queue(request, "JOB_TYPE", "jobType")


@serve(GET_CALLOUT_QUEUE)
async def get_tag_queue(request: Request) -> Response:
    """The callouts that need some tags; there may be none."""
    return await _get_queue(request, "TAG", "tags")


async def _get_queue(request: Request, kind: QueueKind, parameter: str) -> Response:
    name = request.path_text(parameter)
    queue = await queues.get_queue(request.runtime.operations.work, request.caller, name, kind=kind)
    return Response(encode_json(show_queue(queue)))


@serve(DRAIN_MEMBER)
async def drain_member(request: Request) -> Response:
    """Send a member nothing any more, and end its stream when it is idle."""
    text = request.query("within")
    within = DEFAULT_DRAIN if text is None else parse_exact(text, MAX_DRAIN)
    if within is None:
        raise InvalidParameter("within", "an ISO 8601 duration of at most 24 hours")
    member = await queues.drain(
        request.runtime.core,
        request.runtime.operations.members,
        request.runtime.operations.drains,
        request.caller,
        request.path_params["memberId"],
        within=within,
    )
    return Response(encode_json(show_worker(member)), 202)


list_nodes = serve_list(LIST_NODES, NodeKey, queues.list_nodes)


@serve(SHOW_RATES)
async def show_rates(request: Request) -> Response:
    """What the tenant has written in each minute of the last hour."""
    return Response(encode_json(await queues.show_rates(request.runtime.operations.rates, request.caller)))
