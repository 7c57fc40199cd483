"""What REST does with the definitions and instances of a process language, whichever it is
(``services.processes.dialects``).
"""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from statewright.api.http.processes import bodies
from statewright.api.http.processes.bodies import (
    NO_CONTENT,
    RequestMembers,
    describe_abridged,
    describe_line,
    read,
    read_lenient,
    read_optional,
    reply,
    reply_by_size,
    reply_page,
    reply_summaries,
    reply_uploaded,
    reply_versions,
    respond_empty,
)
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.api.http.router import Endpoint
from statewright.failures import ProcessBadRequest
from statewright.instants import to_rfc3339
from statewright.jsonval.values import JsonObject
from statewright.processes.language import Drawing, I, P
from statewright.services.processes import dialects, instances
from statewright.services.processes.advancing import AdvanceResult
from statewright.services.processes.definitions import Summaries, UploadedDefinition
from statewright.services.processes.dialects import Demand, InstanceQuery, ProcessDialect, Verb
from statewright.services.processes.hosting import PublishedDefinition
from statewright.services.processes.instances import AbridgedInstance

S = TypeVar("S")

ReadSource = Callable[[Request], Awaitable[S]]
"""The definition in a request. Raises ``ProcessBadRequest``."""


class ProcessInterface(Generic[S, P, I]):
    """The endpoints of one language."""

    def __init__(self, dialect: ProcessDialect[S, P, I], read_source: ReadSource[S]) -> None:
        self.dialect = dialect
        self._read_source = read_source

    async def upload(self, request: Request) -> Response:
        """Store a definition."""
        source = await self._read_source(request)
        caller = request.answer_with(self._respond_uploaded)
        return await self._respond_uploaded(
            await dialects.upload_definition(self.dialect, request.runtime.processes, caller, source)
        )

    async def _respond_uploaded(self, uploaded: UploadedDefinition) -> Response:
        return reply_uploaded(
            self._summarize(uploaded.document),
            version=uploaded.version,
            uploaded_at=uploaded.uploaded_at,
            is_new=uploaded.is_new,
        )

    async def validate(self, request: Request) -> Response:
        """Check a definition, and store nothing."""
        source = await self._read_source(request)
        return reply(
            self._summarize(
                await dialects.check_definition(self.dialect, request.runtime.processes, request.caller, source)
            )
        )

    def _summarize(self, document: JsonObject) -> JsonObject:
        return {name: document[name] for name in self.dialect.intake.checked_members}

    async def list_definitions(self, request: Request) -> Response:
        """A page of definitions."""
        return reply_summaries(await self.find_definitions(request), self.dialect.nouns.id_member)

    async def find_definitions(self, request: Request) -> Summaries:
        """The definitions that a request asks for."""
        return await dialects.list_definitions(
            self.dialect,
            request.runtime.processes,
            request.caller,
            keyword=self.read_text(request, "keyword"),
            page=self.read_number(request, "page"),
            page_size=self.read_number(request, "pageSize"),
        )

    async def list_versions(self, request: Request) -> Response:
        """All versions of a definition."""
        id_ = self._read_definition_id(request)
        return reply_versions(
            await dialects.list_versions(self.dialect, request.runtime.processes, request.caller, id_)
        )

    async def get_latest(self, request: Request) -> Response:
        """The latest version of a definition."""
        return await self._get_document(request, 0)

    async def get_version(self, request: Request) -> Response:
        """One version of a definition."""
        return await self._get_document(request, bodies.read_version(request))

    async def draw_latest(self, request: Request) -> Response:
        """The latest version as a diagram."""
        return await self._draw(request, 0)

    async def draw_version(self, request: Request) -> Response:
        """One version as a diagram."""
        return await self._draw(request, bodies.read_version(request))

    async def start(self, request: Request) -> Response:
        """Start an instance."""
        body = await read(request)
        caller = request.answer_with(self._respond_started)
        started = await dialects.start_instance(self.dialect, request.runtime.processes, caller, body)
        request.written = started
        return await self._reply_instance(started, 201)

    async def list_instances(self, request: Request) -> Response:
        """A page of instances."""
        wanted = self.read_query(request)
        found = await dialects.list_instances(self.dialect, request.runtime.processes, request.caller, wanted)
        return await reply_page([self._render_item(item) for item in found.items], found)

    def read_query(self, request: Request) -> InstanceQuery:
        """Which instances a request asks for."""
        return InstanceQuery(
            definition_id=self.read_text(request, self.dialect.nouns.definition_member),
            status=self.read_text(request, self.dialect.nouns.status_member),
            business_key=self.read_text(request, "businessKey"),
            page=self.read_number(request, "page"),
            page_size=self.read_number(request, "pageSize"),
        )

    async def get_instance(self, request: Request) -> Response:
        """An instance."""
        id_ = request.path_params["id"]
        return await self._reply_instance(
            await dialects.get_instance(self.dialect, request.runtime.processes, request.caller, id_)
        )

    async def list_history(self, request: Request) -> Response:
        """A page of the entries into nodes."""
        processes, caller, id_ = request.runtime.processes, request.caller, request.path_params["id"]
        instance = await dialects.get_instance(self.dialect, processes, caller, id_)
        process = await dialects.get_process_of(self.dialect, processes, caller, instance)
        page = await instances.list_history_page(
            self.dialect.find_host(processes),
            caller,
            id_,
            page=self.read_number(request, "page"),
            page_size=self.read_number(request, "pageSize"),
        )
        lines = [describe_line(line, self.dialect.locate(process, line)) for line in page.lines]
        return await reply_page(lines, page)

    async def draw_instance(self, request: Request) -> Response:
        """An instance as a diagram."""
        drawn = await dialects.draw_instance(
            self.dialect,
            request.runtime.processes,
            request.caller,
            request.path_params["id"],
            self._read_drawing(request),
        )
        return Response(drawn.encode(), media_type=TEXT)

    def build_verb_endpoint(self, verb: Verb[P, I]) -> Endpoint:
        """What a request for a verb does."""

        async def act(request: Request) -> Response:
            demand = await _read_demand(request, verb)
            caller = request.answer_with(self._respond_changed if verb.answers else respond_empty)
            id_ = request.path_params["id"]
            done = await dialects.act(self.dialect, request.runtime.processes, caller, id_, verb, demand)
            return await self._respond_changed(done) if verb.answers else NO_CONTENT

        return act

    def read_text(self, request: Request, name: str) -> str:
        """A query parameter, empty when absent. Raises ``InvalidParameter`` for one that is repeated."""
        return request.query(name) or ""

    def read_number(self, request: Request, name: str) -> int:
        """A query parameter as an integer, 0 when absent. Raises ``InvalidParameter`` for what is none."""
        return request.query_int32(name, 0)

    def _read_definition_id(self, request: Request) -> str:
        return request.path_text(self.dialect.nouns.id_member)

    def _read_drawing(self, request: Request) -> Drawing:
        return bodies.read_drawing(request, frozenset(self.dialect.drawing_options))

    async def _get_document(self, request: Request, wanted: int) -> Response:
        id_ = self._read_definition_id(request)
        found = await dialects.get_version(self.dialect, request.runtime.processes, request.caller, id_, wanted)
        return await reply_by_size(self.render_version(found))

    def render_version(self, found: PublishedDefinition[P]) -> JsonObject:
        """A version as clients read it."""
        return {**self.dialect.render_definition(found.process), "uploadedAt": to_rfc3339(found.uploaded_at)}

    async def _draw(self, request: Request, wanted: int) -> Response:
        drawn = await dialects.draw_definition(
            self.dialect,
            request.runtime.processes,
            request.caller,
            self._read_definition_id(request),
            wanted,
            self._read_drawing(request),
        )
        return Response(drawn.encode(), media_type=TEXT) if isinstance(drawn, str) else await reply_by_size(drawn)

    async def _respond_started(self, result: AdvanceResult[I]) -> Response:
        return await self._reply_instance(result.instance, 201)

    async def _respond_changed(self, result: AdvanceResult[I]) -> Response:
        return await self._reply_instance(result.instance)

    async def _reply_instance(self, instance: I, status: int = 200) -> Response:
        return await reply_by_size(self.dialect.render_instance(instance), status)

    def _render_item(self, item: "I | AbridgedInstance") -> JsonObject:
        if not isinstance(item, AbridgedInstance):
            return self.dialect.render_instance(item)
        nouns = self.dialect.nouns
        return describe_abridged(item, definition_member=nouns.definition_member, status_member=nouns.status_member)


async def _read_demand(request: Request, verb: Verb[P, I]) -> Demand[P, I]:
    segments = request.path_params
    if verb.forgives:
        body = await read_lenient(request)
        try:
            return verb.read(body, segments)
        except ProcessBadRequest:
            return verb.read(RequestMembers(None), segments)
    match verb.use:
        case "none":
            return verb.read(RequestMembers(None), segments)
        case "optional":
            return verb.read(await read_optional(request), segments)
        case "required":
            return verb.read(await read(request), segments)
