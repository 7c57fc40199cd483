"""Instances over REST (docs/reference/steps.md#starting-and-reading-instances,
docs/reference/steps.md#user-tasks-and-signals, docs/reference/steps.md#retrying-a-failed-instance).
"""

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta
from typing import Final

from statewright.api.http.preferences import add_wait_headers, read_wish
from statewright.api.http.processes import parameters
from statewright.api.http.processes.bodies import (
    NO_CONTENT,
    encode_items,
    read,
    read_lenient,
    read_optional,
    reply,
    reply_by_size,
    respond_empty,
)
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.failures import Failure, Forbidden, ProcessBadRequest, ProcessNotFound
from statewright.jsonval.quoting import quote
from statewright.net import parse_delay
from statewright.services.ops.awaiting import wait_for_instance
from statewright.services.processes.advancing import AdvanceResult, parse_instance_id
from statewright.services.processes.instances import StartRequest, StreamedPage
from statewright.services.steps import instances
from statewright.services.steps.instances import StreamedHistory
from statewright.steps import Instance, render_history_item, render_instance

ADMIN: Final = "ROLE_ADMIN"


async def start_instance(request: Request) -> Response:
    """Start an instance."""
    body = await read(request)
    start = StartRequest(
        definition_id=body.text("definitionId"),
        definition_version=body.number("definitionVersion"),
        variables=body.object("variables") or {},
        business_key=body.text("businessKey"),
    )
    if not start.definition_id:
        raise ProcessBadRequest("definitionId is required")
    started = await instances.start(request.runtime, request.answer_with(_respond_started), start)
    request.written = started
    return await reply_by_size(render_instance(started), 201)


async def hold_start(request: Request, response: Response) -> Response:
    """Hold the response to the start of an instance until it has ended; it tells how the instance is then."""
    wish, started = read_wish(request.scope), request.written
    if wish is None or not isinstance(started, Instance):
        return response
    unknown = ProcessNotFound(f"instance {quote(started.id)} not found")
    try:
        result, _ = await wait_for_instance(
            request.runtime,
            request.caller,
            parse_instance_id(started.id, unknown),
            until="FINISHED",
            within=timedelta(seconds=wish.seconds),
            unknown=unknown,
        )
        instance = await instances.get_instance(request.runtime, request.caller, started.id)
    except Failure:  # it was started, whatever becomes of the wait
        return add_wait_headers(response, wish, "timeout", "")
    held = await reply_by_size(render_instance(instance), response.status)
    return add_wait_headers(held, wish, result.outcome, instance.status)


async def _respond_started(result: AdvanceResult[Instance]) -> Response:
    return await reply_by_size(render_instance(result.instance), 201)


async def _respond_changed(result: AdvanceResult[Instance]) -> Response:
    return await reply_by_size(render_instance(result.instance))


async def list_instances(request: Request) -> Response:
    """A page of instances."""
    found = await instances.stream_instances(
        request.runtime,
        request.caller,
        definition_id=parameters.read_text(request, "definitionId"),
        status=parameters.read_text(request, "status"),
        business_key=parameters.read_text(request, "businessKey"),
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    parts = _stream_page(found)
    return Response(b"".join([part async for part in parts]) if found.is_small else parts)


async def _stream_page(found: StreamedPage[Instance]) -> AsyncGenerator[bytes]:
    head = b'{"items":['
    async for portion in found.portions:
        yield head + await encode_items([render_instance(instance) for instance in portion])
        head = b","
    numbers = b'],"total":%d,"page":%d,"pageSize":%d}\n' % (found.total, found.page, found.page_size)
    yield numbers if head == b"," else head + numbers


async def get_instance(request: Request) -> Response:
    """An instance."""
    return await reply_by_size(
        render_instance(await instances.get_instance(request.runtime, request.caller, request.path_params["id"]))
    )


async def list_history(request: Request) -> Response:
    """The entries into steps."""
    found = await instances.stream_history(request.runtime, request.caller, request.path_params["id"])
    parts = _stream_history(found)
    begun = [await anext(parts), await anext(parts), await anext(parts, b"")]
    return Response(_join(begun, parts) if begun[-1] else b"".join(begun))


async def _stream_history(found: StreamedHistory) -> AsyncGenerator[bytes]:
    """A part for each portion, and the end."""
    head = b'{"items":['
    async for portion in found.portions:
        yield head + await encode_items([render_history_item(line, found.process) for line in portion])
        head = b","
    yield b"]}\n"


async def _join(begun: list[bytes], parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    while begun:
        yield begun.pop(0)
    async for part in parts:
        yield part


async def draw_instance(request: Request) -> Response:
    """The instance on its definition as a Mermaid flowchart."""
    drawn = await instances.get_instance_diagram(request.runtime, request.caller, request.path_params["id"])
    return Response(drawn.encode(), media_type=TEXT)


async def cancel_instance(request: Request) -> Response:
    """Stop an instance; a body that cannot be read is no reason."""
    body = await read_lenient(request)
    try:
        reason = body.text("reason")
    except ProcessBadRequest:
        reason = ""
    caller = request.answer_with(_respond_changed)
    cancelled = await instances.cancel(request.runtime, caller, request.path_params["id"], reason)
    return await reply_by_size(render_instance(cancelled))


async def retry_step(request: Request) -> Response:
    """Run the step again that failed an instance."""
    variables = (await read_optional(request)).object("variables")
    segments = request.path_params
    caller = request.answer_with(_respond_changed)
    retried = await instances.retry(request.runtime, caller, segments["id"], segments["stepId"], variables)
    return await reply_by_size(render_instance(retried))


async def signal_step(request: Request) -> Response:
    """Resume a WAIT step; the body is the variables themselves."""
    variables = (await read_optional(request)).document
    segments = request.path_params
    caller = request.answer_with(respond_empty)
    await instances.signal(request.runtime, caller, segments["id"], segments["stepId"], variables)
    return NO_CONTENT


async def purge_instances(request: Request) -> Response:
    """Remove finished instances of some age, for a few seconds; whether that was all. Only for administrators."""
    if ADMIN not in request.principal.roles:
        raise Forbidden("admin role required")
    body = await read(request)
    purged = await instances.purge(request.runtime, request.caller, older_than=_read_age(body.text("olderThan")))
    return reply({"purged": purged.removed, "complete": purged.is_complete})


def _read_age(given: str) -> timedelta:
    if not given:
        raise ProcessBadRequest("olderThan is required")
    delay = parse_delay(given)
    if delay is None or delay.months:
        raise ProcessBadRequest("olderThan must be an ISO-8601 duration in weeks, days or less, such as P30D")
    return timedelta(microseconds=delay.microseconds)
