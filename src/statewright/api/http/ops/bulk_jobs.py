"""Bulk jobs (docs/reference/operations.md#bulk-jobs)."""

from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import UUID

from statewright.api.http.ops.paging import build_list_response, read_page_request
from statewright.api.http.ops.route import read_exact_body, read_id, refuse_member, serve, serve_act
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.failures import InvalidParameter
from statewright.loop.background import run_by_size
from statewright.operations.bulk_jobs import (
    ITEM_STATUSES,
    OPERATIONS,
    STATUSES,
    BulkJob,
    BulkOrder,
    BulkPace,
    BulkStart,
    NoMembers,
)
from statewright.operations.table import (
    CANCEL_BULK_JOB,
    CHANGE_BULK_JOB,
    CREATE_BULK_JOB,
    GET_BULK_JOB,
    LIST_BULK_ITEMS,
    LIST_BULK_JOBS,
    PAUSE_BULK_JOB,
    RESUME_BULK_JOB,
    RETRY_BULK_JOB,
    START_BULK_JOB,
)
from statewright.services.core import Caller
from statewright.services.ops import bulk_jobs
from statewright.services.ops.bulk_jobs import BulkKey, ItemFilter, ItemKey
from statewright.services.runtime import Runtime

ID_CHARS: Final = 36


@serve(CREATE_BULK_JOB)
async def create_bulk_job(request: Request) -> Response:
    """Do one thing to many entities."""
    body = await read_exact_body(request, BulkOrder)
    _check_order(body)
    ids = None if body.ids is None else await run_by_size(len(body.ids) * ID_CHARS, partial(_read_ids, body.ids))

    async def respond(job: BulkJob) -> Response:
        return Response(encode_json(job), 201)

    caller = request.answer_with(respond)
    return await respond(await bulk_jobs.create_job(request.runtime.operations, caller, body, ids))


def _check_order(body: BulkOrder) -> None:
    """Raises ``BadRequest`` for members that do not go together."""
    if body.operation not in OPERATIONS:
        raise refuse_member("/operation", f"one of {', '.join(OPERATIONS)}")
    given, operation = body.arguments, body.operation
    patches = [one for one in (given.merge_patch, given.json_patch) if one is not None]
    if body.ids is None:
        for member, value in (("model", body.model), ("condition", body.condition)):
            if value is None:
                raise refuse_member(f"/{member}", "required where there are no ids")
    elif body.model is not None or body.condition is not None:
        raise refuse_member("/ids", "not beside model and condition")
    if body.recheck and body.condition is None:
        raise refuse_member("/recheck", "there is no condition")
    if operation == "TRANSITION" and given.transition is None:
        raise refuse_member("/arguments/transition", "required with the operation TRANSITION")
    if operation in ("LOOPBACK", "DELETE") and given.transition is not None:
        raise refuse_member("/arguments/transition", f"not an argument of {operation}")
    if operation == "PATCH" and len(patches) != 1:
        raise refuse_member("/arguments", "mergePatch or jsonPatch is required with the operation PATCH")
    if operation in ("LOOPBACK", "DELETE") and given.merge_patch is not None:
        raise refuse_member("/arguments/mergePatch", f"not an argument of {operation}")
    if operation != "PATCH" and given.json_patch is not None:
        raise refuse_member("/arguments/jsonPatch", f"not an argument of {operation}")


def _read_ids(texts: Sequence[str]) -> list[UUID]:
    """Each once, in their order. Raises ``BadRequest``."""
    found: dict[UUID, None] = {}
    for place, text in enumerate(texts):
        try:
            found[UUID(text)] = None
        except ValueError:
            raise refuse_member(f"/ids/{place}", "not a UUID") from None
    return [*found]


@serve(LIST_BULK_JOBS)
async def list_bulk_jobs(request: Request) -> Response:
    """Bulk jobs, newest first."""
    statuses = _read_words(request, "status", STATUSES)
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
    codes = request.query_all("code")
    wanted = ItemFilter(statuses=_read_words(request, "status", ITEM_STATUSES), codes=tuple(codes) or None)
    page = read_page_request(request, LIST_BULK_ITEMS, ItemKey)
    id_ = read_id(request, LIST_BULK_ITEMS)
    found = await bulk_jobs.list_items(request.runtime.core, request.caller, id_, wanted, page)
    return build_list_response(request, LIST_BULK_ITEMS, found, lambda item: item[1])


def _read_words(request: Request, name: str, known: Sequence[str]) -> tuple[str, ...] | None:
    given = request.query_all(name)
    if any(word not in known for word in given):
        raise InvalidParameter(name)
    return tuple(given) or None


async def _start(runtime: Runtime, caller: Caller, id_: str, body: BulkStart) -> BulkJob:
    return await bulk_jobs.start_job(runtime.operations, caller, id_, body.expected_count)


async def _set_pace(runtime: Runtime, caller: Caller, id_: str, body: BulkPace) -> BulkJob:
    return await bulk_jobs.set_pace(runtime.operations, caller, id_, body.rate_per_second, body.concurrency)


async def _change(action: str, runtime: Runtime, caller: Caller, id_: str, _body: NoMembers) -> BulkJob:
    return await bulk_jobs.change_status(runtime.operations, caller, id_, action)


async def _retry(runtime: Runtime, caller: Caller, id_: str, _body: NoMembers) -> BulkJob:
    return await bulk_jobs.retry_failed(runtime.operations, caller, id_)


start_bulk_job = serve_act(START_BULK_JOB, BulkStart, _start)
pause_bulk_job = serve_act(PAUSE_BULK_JOB, NoMembers, partial(_change, "pause"))
resume_bulk_job = serve_act(RESUME_BULK_JOB, NoMembers, partial(_change, "resume"))
cancel_bulk_job = serve_act(CANCEL_BULK_JOB, NoMembers, partial(_change, "cancel"))
retry_bulk_job = serve_act(RETRY_BULK_JOB, NoMembers, _retry)
change_bulk_job = serve_act(CHANGE_BULK_JOB, BulkPace, _set_pace)
