"""Bulk jobs (docs/reference/operations.md#bulk-jobs)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from statewright.api.http.ops.paging import build_list_response, read_page_request, read_words
from statewright.api.http.ops.route import read_body, read_id, refuse_member, serve, serve_act
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.ids import parse_entity_id
from statewright.loop.background import run_by_size
from statewright.operations.bulk_jobs import (
    ARGUMENTS,
    ITEM_STATUSES,
    NEEDS_REASON,
    OF_INCIDENTS,
    OPERATIONS,
    STATUSES,
    BulkArguments,
    BulkJob,
    BulkOperation,
    BulkOrder,
    BulkPace,
    BulkStart,
    GroupRetry,
    NoMembers,
)
from statewright.operations.incidents import IncidentResolution
from statewright.operations.table import (
    CANCEL_BULK_JOB,
    CHANGE_BULK_JOB,
    CREATE_BULK_JOB,
    GET_BULK_JOB,
    LIST_BULK_ITEMS,
    LIST_BULK_JOBS,
    PAUSE_BULK_JOB,
    RESOLVE_INCIDENT_GROUP,
    RESUME_BULK_JOB,
    RETRY_BULK_JOB,
    RETRY_INCIDENT_GROUP,
    START_BULK_JOB,
)
from statewright.services.core import Caller
from statewright.services.ops import bulk_incidents, bulk_jobs
from statewright.services.ops.bulk_jobs import BulkKey, ItemFilter, ItemKey
from statewright.services.runtime import Runtime

ID_CHARS: Final = 36

_BY_NAME: Final[Mapping[str, BulkOperation]] = {each: each for each in OPERATIONS}


@serve(CREATE_BULK_JOB)
async def create_bulk_job(request: Request) -> Response:
    """Do one thing to many entities."""
    body = await read_body(request, BulkOrder)
    _check_order(body)
    ids = None if body.ids is None else await run_by_size(len(body.ids) * ID_CHARS, partial(_read_ids, body.ids))

    async def respond(job: BulkJob) -> Response:
        return Response(encode_json(job), 201)

    caller = request.answer_with(respond)
    return await respond(await bulk_jobs.create_job(request.runtime.operations, caller, body, ids))


def _check_order(body: BulkOrder) -> None:
    """Raises ``BadRequest`` for members that do not go together."""
    operation = _BY_NAME.get(body.operation)
    if operation is None:
        raise refuse_member("/operation", f"one of {', '.join(OPERATIONS)}")
    _check_selection(body, operation)
    _check_arguments(body.arguments, operation)
    if body.recheck and body.condition is None:
        raise refuse_member("/recheck", "there is no condition")
    if operation in NEEDS_REASON and body.reason is None:
        raise refuse_member("/reason", f"required with the operation {operation}")
    if body.incidents is not None:
        bulk_incidents.read_incident_filter(body.incidents)


def _check_selection(body: BulkOrder, operation: BulkOperation) -> None:
    given = [name for name in ("ids", "model", "condition", "incidents") if getattr(body, name) is not None]
    possible = ("incidents",) if operation in OF_INCIDENTS else ("model", "condition")
    for name in given:
        if name != "ids" and name not in possible:
            raise refuse_member(f"/{name}", f"not with the operation {operation}")
    if body.ids is not None:
        if given != ["ids"]:
            raise refuse_member("/ids", f"not beside {' and '.join(given[1:])}")
        return
    for name in possible:
        if name not in given:
            raise refuse_member(f"/{name}", "required where there are no ids")


def _check_arguments(given: BulkArguments, operation: BulkOperation) -> None:
    names = [
        rename
        for name, rename in zip(given.__struct_fields__, given.__struct_encode_fields__, strict=True)
        if getattr(given, name) is not None
    ]
    for name in names:
        if name not in ARGUMENTS.get(operation, ()):
            raise refuse_member(f"/arguments/{name}", f"not an argument of {operation}")
    if operation == "TRANSITION" and given.transition is None:
        raise refuse_member("/arguments/transition", "required with the operation TRANSITION")
    if operation == "PATCH" and (given.merge_patch is None) is (given.json_patch is None):
        raise refuse_member("/arguments", "mergePatch or jsonPatch is required with the operation PATCH")


def _read_ids(texts: Sequence[str]) -> list[UUID]:
    """Each once, in their order, from UUIDs or ULIDs. Raises ``BadRequest``."""
    found: dict[UUID, None] = {}
    for place, text in enumerate(texts):
        id_ = parse_entity_id(text)
        if id_ is None:
            raise refuse_member(f"/ids/{place}", "not a UUID")
        found[UUID(id_)] = None
    return [*found]


@serve(LIST_BULK_JOBS)
async def list_bulk_jobs(request: Request) -> Response:
    """Bulk jobs, newest first."""
    statuses = read_words(request, "status", STATUSES)
    page = read_page_request(request, LIST_BULK_JOBS, BulkKey)
    found = await bulk_jobs.list_jobs(request.runtime.core, request.caller, statuses, page)
    return build_list_response(request, LIST_BULK_JOBS, found)


@serve(GET_BULK_JOB)
async def get_bulk_job(request: Request) -> Response:
    """One bulk job."""
    id_ = read_id(request, GET_BULK_JOB)
    return Response(encode_json(await bulk_jobs.get_job(request.runtime.core, request.caller, id_)))


@serve(LIST_BULK_ITEMS)
async def list_bulk_items(request: Request) -> Response:
    """The items of a job, and what became of them."""
    statuses = read_words(request, "status", ITEM_STATUSES)
    wanted = ItemFilter(statuses=statuses, codes=request.query_all("code") or None)
    page = read_page_request(request, LIST_BULK_ITEMS, ItemKey)
    id_ = read_id(request, LIST_BULK_ITEMS)
    found = await bulk_jobs.list_items(request.runtime.core, request.caller, id_, wanted, page)
    return build_list_response(request, LIST_BULK_ITEMS, found, lambda item: item[1])


async def _start(runtime: Runtime, caller: Caller, id_: str, body: BulkStart) -> BulkJob:
    return await bulk_jobs.start_job(runtime.operations, caller, id_, body.expected_count)


async def _set_pace(runtime: Runtime, caller: Caller, id_: str, body: BulkPace) -> BulkJob:
    return await bulk_jobs.set_pace(runtime.operations, caller, id_, body.rate_per_second, body.concurrency)


async def _change(action: str, runtime: Runtime, caller: Caller, id_: str, _body: NoMembers) -> BulkJob:
    return await bulk_jobs.change_status(runtime.operations, caller, id_, action)


async def _retry(runtime: Runtime, caller: Caller, id_: str, _body: NoMembers) -> BulkJob:
    return await bulk_jobs.retry_failed(runtime.operations, caller, id_)


async def _retry_group(runtime: Runtime, caller: Caller, cause: str, body: GroupRetry) -> BulkJob:
    return await bulk_incidents.act_on_group(
        runtime.operations, caller, "RETRY_INCIDENTS", cause, reason=None, force=body.force or False
    )


async def _resolve_group(runtime: Runtime, caller: Caller, cause: str, body: IncidentResolution) -> BulkJob:
    return await bulk_incidents.act_on_group(
        runtime.operations, caller, "RESOLVE_INCIDENTS", cause, reason=body.reason, force=False
    )


start_bulk_job = serve_act(START_BULK_JOB, BulkStart, _start)
pause_bulk_job = serve_act(PAUSE_BULK_JOB, NoMembers, partial(_change, "pause"))
resume_bulk_job = serve_act(RESUME_BULK_JOB, NoMembers, partial(_change, "resume"))
cancel_bulk_job = serve_act(CANCEL_BULK_JOB, NoMembers, partial(_change, "cancel"))
retry_bulk_job = serve_act(RETRY_BULK_JOB, NoMembers, _retry)
change_bulk_job = serve_act(CHANGE_BULK_JOB, BulkPace, _set_pace)
retry_incident_group = serve_act(RETRY_INCIDENT_GROUP, GroupRetry, _retry_group)
resolve_incident_group = serve_act(RESOLVE_INCIDENT_GROUP, IncidentResolution, _resolve_group)
