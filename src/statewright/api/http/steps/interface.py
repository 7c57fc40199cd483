"""What the step dialect does otherwise than the interfaces of other languages: uploads and lists in the form of the
public engine, streamed, user tasks (docs/reference/steps.md#user-tasks-and-signals), and what is ours
beside it, such as the inbox (docs/reference/steps.md#operations).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Annotated, Final, TypeVar

from msgspec import Meta, to_builtins

from statewright.api.http.processes import bodies
from statewright.api.http.processes.bodies import (
    NO_CONTENT,
    build_error,
    encode_items,
    read,
    read_optional,
    reply,
    reply_by_size,
    respond_empty,
)
from statewright.api.http.processes.interface import ProcessInterface
from statewright.api.http.request import Request, add_wait_headers, read_wish
from statewright.api.http.response import Response
from statewright.failures import Failure, ProcessBadRequest, ProcessNotFound
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue, quote
from statewright.loop.background import collect_in_turns
from statewright.net import parse_exact
from statewright.operations.records import ClosedRecord, Instant, Int32
from statewright.services.auth.clients import require_admin
from statewright.services.ops.history import wait_for_instance
from statewright.services.processes import background, dialects, tasks
from statewright.services.processes.advancing import parse_instance_id
from statewright.services.processes.definitions import Summary, UploadedDefinition
from statewright.services.processes.hosting import PublishedDefinition
from statewright.services.processes.instances import StreamedPage
from statewright.services.processes.tasks import TaskQuery
from statewright.services.steps.definitions import StepSource
from statewright.services.steps.dialect import STEP_DIALECT, StreamedHistory, stream_history
from statewright.steps import Instance, Process, render_history_item, render_instance
from statewright.steps.upload import iterate_warnings

T = TypeVar("T")

_XML: Final = ("application/xml", "text/xml")


class UploadAnswer(ClosedRecord, frozen=True, kw_only=True):
    """What an upload came to."""

    id: str
    version: Int32
    name: str
    uploaded_at: Instant
    warnings: Annotated[Sequence[str], Meta(description="only with ?warnings=true")] | None = None


class DefinitionSummary(ClosedRecord, frozen=True, kw_only=True):
    """A definition in a list, in its latest version."""

    id: str
    version: Int32
    name: str
    uploaded_at: Instant
    versions: Sequence[Int32]


class DefinitionWarnings(ClosedRecord, frozen=True, kw_only=True):
    """What looks like a mistake in the latest version of a definition."""

    version: Int32
    warnings: Sequence[str]


class PurgeAnswer(ClosedRecord, frozen=True, kw_only=True):
    """How many instances were removed, and whether that was all."""

    purged: Int32
    complete: bool


class StepInterface(ProcessInterface[StepSource, Process, Instance]):
    """The endpoints of definitions and instances."""

    async def upload(self, request: Request) -> Response:
        """Store a definition."""
        content_type = request.header(b"content-type") or ""
        if any(kind in content_type.lower() for kind in _XML):
            return build_error(415, "Only JSON workflow definitions are accepted")
        raw = await request.body()
        wants_warnings = bodies.read_flag(request, "warnings")

        async def respond(stored: UploadedDefinition) -> Response:
            return _respond_uploaded(stored, with_warnings=wants_warnings)

        caller = request.answer_with(respond)
        return await respond(await dialects.upload_definition(self.dialect, request.runtime.processes, caller, raw))

    async def list_definitions(self, request: Request) -> Response:
        """A page of definitions."""
        found = await self.find_definitions(request)
        items: list[JsonValue] = [_summarize(summary) for summary in found.items]
        return await reply_by_size(
            {"items": items, "page": found.page, "pageSize": found.page_size, "total": found.total}
        )

    def read_text(self, request: Request, name: str) -> str:
        """As the public engine reads it, which refuses nothing in a query."""
        return bodies.read_text(request, name)

    def read_number(self, request: Request, name: str) -> int:
        """As the public engine reads it: what is no number is absent."""
        return bodies.read_number(request, name)

    def render_version(self, found: PublishedDefinition[Process]) -> JsonObject:
        """A version as the public engine shows it."""
        return self.dialect.render_definition(found.process)

    async def list_warnings(self, request: Request) -> Response:
        """What looks like a mistake in the latest version."""
        id_ = request.path_text("id")
        found = await dialects.get_version(self.dialect, request.runtime.processes, request.caller, id_)
        warnings = await collect_in_turns(iterate_warnings(found.process.definition))
        return reply(to_builtins(DefinitionWarnings(version=found.version, warnings=warnings)))

    async def list_instances(self, request: Request) -> Response:
        """A page of instances."""
        wanted = self.read_query(request)
        found = await dialects.stream_instances(self.dialect, request.runtime.processes, request.caller, wanted)
        return await _reply_page(found, render_instance)

    async def list_history(self, request: Request) -> Response:
        """The entries into steps."""
        found = await stream_history(request.runtime.processes, request.caller, request.path_params["id"])
        parts = _stream_history(found)
        begun = [await anext(parts), await anext(parts), await anext(parts, b"")]
        return Response(_join(begun, parts) if begun[-1] else b"".join(begun))

    async def hold_start(self, request: Request, response: Response) -> Response:
        """Hold the response to the start of an instance until it has ended; it tells how the instance is then."""
        wish, started = read_wish(request.scope), request.written
        if wish is None or not isinstance(started, Instance):
            return response
        unknown = ProcessNotFound(f"instance {quote(started.id)} not found")
        try:
            result, _ = await wait_for_instance(
                request.runtime.operations,
                request.caller,
                parse_instance_id(started.id, unknown),
                until="FINISHED",
                within=timedelta(seconds=wish.seconds),
                unknown=unknown,
            )
            instance = await dialects.get_instance(self.dialect, request.runtime.processes, request.caller, started.id)
        except Failure:  # it was started, whatever becomes of the wait
            return add_wait_headers(response, wish, "timeout", "")
        held = await reply_by_size(render_instance(instance), response.status)
        return add_wait_headers(held, wish, result.outcome, instance.status)

    async def purge(self, request: Request) -> Response:
        """Remove finished instances of some age, for a few seconds; whether that was all. Only for administrators."""
        require_admin(request.principal)
        body = await read(request)
        host = self.dialect.find_host(request.runtime.processes)
        purged = await background.purge(host, request.caller, older_than=_read_age(body.text("olderThan")))
        return reply(to_builtins(PurgeAnswer(purged=purged.removed, complete=purged.is_complete)))


STEP_INTERFACE: Final = StepInterface(STEP_DIALECT, Request.body)


async def list_inbox(request: Request) -> Response:
    """A page of open tasks."""
    found = await tasks.stream_open_tasks(
        request.runtime.processes,
        request.caller,
        TaskQuery(
            language=bodies.read_text(request, "language"),
            job_type=bodies.read_text(request, "jobType"),
            definition_id=bodies.read_text(request, "definitionId"),
            assignee=bodies.read_text(request, "assignee"),
            group=bodies.read_text(request, "group"),
            older_than=timedelta(seconds=max(bodies.read_number(request, "olderThanSeconds"), 0)),
            page=bodies.read_number(request, "page"),
            page_size=bodies.read_number(request, "pageSize"),
        ),
    )
    return await _reply_page(found, lambda item: item)


async def complete_task_by_id(request: Request) -> Response:
    """Take a person's result, for a task by its own id."""
    body = await read_optional(request)
    variables = body.object("variables")
    result = tasks.read_answer(body) if variables is None else variables
    by = body.text("completedBy") or body.text("workerId")
    caller = request.answer_with(respond_empty)
    await tasks.complete_task(request.runtime.processes, caller, request.path_params["taskId"], result, completed_by=by)
    return NO_CONTENT


def _respond_uploaded(stored: UploadedDefinition, *, with_warnings: bool) -> Response:
    answer = UploadAnswer(
        id=stored.new.id,
        version=stored.version,
        name=stored.new.name,
        uploaded_at=to_rfc3339(stored.uploaded_at),
        warnings=stored.new.warnings if with_warnings else None,
    )
    return reply(to_builtins(answer), 201)


def _summarize(summary: Summary) -> JsonValue:
    shown = DefinitionSummary(
        id=summary.id,
        version=summary.version,
        name=summary.name,
        uploaded_at=to_rfc3339(summary.uploaded_at),
        versions=summary.versions,
    )
    summarized: JsonObject = to_builtins(shown)
    return summarized


async def _reply_page(found: StreamedPage[T], render: Callable[[T], JsonValue]) -> Response:
    parts = _stream_page(found, render)
    return Response(b"".join([part async for part in parts]) if found.is_small else parts)


async def _stream_page(found: StreamedPage[T], render: Callable[[T], JsonValue]) -> AsyncGenerator[bytes]:
    head = b'{"items":['
    async for portion in found.portions:
        yield head + await encode_items([render(item) for item in portion])
        head = b","
    numbers = b'],"total":%d,"page":%d,"pageSize":%d}\n' % (found.total, found.page, found.page_size)
    yield numbers if head == b"," else head + numbers


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


def _read_age(given: str) -> timedelta:
    if not given:
        raise ProcessBadRequest("olderThan is required")
    if (age := parse_exact(given)) is None:
        raise ProcessBadRequest("olderThan must be an ISO-8601 duration in weeks, days or less, such as P30D")
    return age
