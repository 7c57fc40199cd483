"""Executions of playbooks over REST (docs/reference/executions.md#rest)."""

from collections.abc import Sequence
from typing import Final

from statewright.api.http.playbooks.event_stream import EVENT_STREAM, read_last_event_id, stream_events
from statewright.api.http.processes import parameters
from statewright.api.http.processes.bodies import RequestMembers, read, read_optional, reply_by_size
from statewright.api.http.processes.records import describe_abridged, describe_line, reply_page
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response, prime_stream
from statewright.failures import InvalidParameter, ProcessBadRequest
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks.events import render_event
from statewright.playbooks.execution import Execution, render_execution
from statewright.services.playbooks import executions
from statewright.services.playbooks.executions import ExecutionStart
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.processes.event_log import MAX_PAGE, LoggedEvent
from statewright.services.processes.instances import AbridgedInstance

DEFAULT_PAGE: Final = 100


async def start_execution(request: Request) -> Response:
    """Start an execution."""
    body = await read(request)
    started = ExecutionStart(
        path=body.text("path"),
        version=body.number("version"),
        workload=_read_object(body, "workload"),
        ctx=_read_object(body, "ctx"),
        args=_read_object(body, "args"),
        business_key=body.text("businessKey"),
    )
    caller = request.answer_with(_respond_started)
    return await _reply_execution(await executions.start(request.runtime, caller, started), 201)


async def list_executions(request: Request) -> Response:
    """A page of executions."""
    found = await executions.list_executions(
        request.runtime,
        request.caller,
        path=parameters.read_text(request, "path"),
        state=parameters.read_text(request, "state"),
        business_key=parameters.read_text(request, "businessKey"),
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    return await reply_page([_render_item(item) for item in found.items], found)


async def get_execution(request: Request) -> Response:
    """An execution."""
    return await _reply_execution(
        await executions.get_execution(request.runtime, request.caller, request.path_params["id"])
    )


async def list_history(request: Request) -> Response:
    """A page of the runs of steps."""
    page = await executions.get_history(
        request.runtime,
        request.caller,
        request.path_params["id"],
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    return await reply_page([describe_line(line, {"step": line.node_id}) for line in page.lines], page)


async def list_events(request: Request) -> Response:
    """Events behind a number: a page, or a stream of those that come, by ``Accept: text/event-stream``."""
    id_, after = request.path_params["id"], _read_after(request)
    if EVENT_STREAM in (request.header(b"accept") or ""):
        pages = executions.follow_events(request.runtime, request.caller, id_, after=read_last_event_id(request, after))
        parts = await prime_stream(stream_events(pages, lambda events: _render_events(id_, events)))
        return Response(parts, media_type=EVENT_STREAM, headers=((b"cache-control", b"no-store"),))
    limit = parameters.read_number(request, "limit") or DEFAULT_PAGE
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidParameter("limit")
    found = await executions.list_events(request.runtime, request.caller, id_, after=after, limit=limit)
    items: list[JsonValue] = [*_render_events(id_, found.events)]
    onward = found.events[-1].number if found.events else after
    return await reply_by_size({"items": items, "next": onward, "ended": found.has_ended})


async def read_value(request: Request) -> Response:
    """A value that events name rather than have."""
    params = request.path_params
    value = await executions.read_value(request.runtime, request.caller, params["id"], params["value"])
    return await reply_by_size({"value": value})


async def draw_execution(request: Request) -> Response:
    """The playbook of an execution as a Mermaid flowchart, coloured."""
    drawn = await executions.get_execution_diagram(
        request.runtime, request.caller, request.path_params["id"], is_vertical=parameters.read_direction(request)
    )
    return Response(drawn.encode(), media_type=TEXT)


async def patch_execution(request: Request) -> Response:
    """Change members of ``ctx``."""
    body = await read(request)
    ctx = _read_object(body, "ctx")
    return await _reply_execution(
        await executions.patch(
            request.runtime, request.answer_with(_respond_changed), request.path_params["id"], ctx, body.text("reason")
        )
    )


async def inject_token(request: Request) -> Response:
    """One more token for a step."""
    body = await read(request)
    step, args = body.text("step"), _read_object(body, "args")
    if not step:
        raise ProcessBadRequest("step is required")
    return await _reply_execution(
        await executions.inject(
            request.runtime, request.answer_with(_respond_changed), request.path_params["id"], step, args
        )
    )


async def evaluate_execution(request: Request) -> Response:
    """Ask about all denied tokens once more."""
    caller, id_ = request.answer_with(_respond_changed), request.path_params["id"]
    return await _reply_execution(await executions.evaluate(request.runtime, caller, id_))


async def cancel_execution(request: Request) -> Response:
    """Stop an execution for good."""
    reason = (await read_optional(request)).text("reason")
    return await _reply_execution(
        await executions.cancel(
            request.runtime, request.answer_with(_respond_changed), request.path_params["id"], reason
        )
    )


async def restart_execution(request: Request) -> Response:
    """Begin the runs that failed again."""
    caller, id_ = request.answer_with(_respond_changed), request.path_params["id"]
    return await _reply_execution(await executions.restart(request.runtime, caller, id_))


async def _respond_started(result: AdvanceResult[Execution]) -> Response:
    return await _reply_execution(result.instance, 201)


async def _respond_changed(result: AdvanceResult[Execution]) -> Response:
    return await _reply_execution(result.instance)


async def _reply_execution(execution: Execution, status: int = 200) -> Response:
    return await reply_by_size(render_execution(execution), status)


def _render_events(execution_id: str, events: Sequence[LoggedEvent]) -> list[JsonObject]:
    return [render_event(one.event, execution_id, one.number, one.at) for one in events]


def _read_object(body: RequestMembers, name: str) -> JsonObject:
    return body.object(name) or {}


def _read_after(request: Request) -> int:
    after = parameters.read_number(request, "after")
    if after < 0:
        raise InvalidParameter("after")
    return after


def _render_item(execution: Execution | AbridgedInstance) -> JsonObject:
    if isinstance(execution, Execution):
        return render_execution(execution)
    return describe_abridged(execution, definition_member="path", status_member="state")
