"""Definitions of flows over REST (docs/reference/flows.md#rest)."""

from functools import partial
from typing import Final

import msgspec

from statewright.api.http.flows.parameters import read_diagram_options
from statewright.api.http.processes import parameters
from statewright.api.http.processes.bodies import read_members, reply
from statewright.api.http.processes.records import reply_summaries, reply_uploaded, reply_versions
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.background import run_by_size
from statewright.failures import BodyTooLarge, InvalidParameter, ProcessBadRequest
from statewright.flows.definition import FlowProcess, FlowSettings, FlowSource, definition_to_document
from statewright.flows.graph import FlowGraph, graph_to_document
from statewright.flows.mermaid import DiagramOptions, render_diagram
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject
from statewright.services.flows import definitions
from statewright.services.processes.definitions import UploadedDefinition

PLAIN: Final = "text/plain"
_TEXT_WEIGHT: Final = 8
"""Bytes of JSON that a character of a flow is as much work as, when it is drawn."""


async def upload(request: Request) -> Response:
    """Store a definition."""
    source = await _read_source(request)
    caller = request.answer_with(_respond_uploaded)
    return await _respond_uploaded(await definitions.upload(request.runtime, caller, source))


async def _respond_uploaded(uploaded: UploadedDefinition[FlowProcess]) -> Response:
    process = uploaded.process
    return reply_uploaded(
        _summarize(process), version=process.version, uploaded_at=uploaded.uploaded_at, is_new=uploaded.is_new
    )


async def validate(request: Request) -> Response:
    """Check a definition, and store nothing."""
    return reply(_summarize(await definitions.check(await _read_source(request))))


async def list_definitions(request: Request) -> Response:
    """A page of definitions."""
    found = await definitions.list_definitions(
        request.runtime,
        request.caller,
        keyword=parameters.read_text(request, "keyword"),
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    return reply_summaries(found, "id")


async def list_versions(request: Request) -> Response:
    """All versions of a definition."""
    return reply_versions(
        await definitions.list_versions(request.runtime, request.caller, parameters.read_definition_id(request))
    )


async def get_latest(request: Request) -> Response:
    """The latest version of a definition."""
    return await _get_document(request, 0)


async def get_version(request: Request) -> Response:
    """One version of a definition."""
    return await _get_document(request, parameters.read_version(request))


async def draw_latest(request: Request) -> Response:
    """The graph of the latest version."""
    return await _draw(request, 0)


async def draw_version(request: Request) -> Response:
    """The graph of one version."""
    return await _draw(request, parameters.read_version(request))


async def _get_document(request: Request, wanted: int) -> Response:
    definition = parameters.read_definition_id(request)
    found = await definitions.get_version(request.runtime, request.caller, definition, wanted)
    return reply({**definition_to_document(found.process), "uploadedAt": format_instant(found.uploaded_at)})


async def _draw(request: Request, wanted: int) -> Response:
    definition, options = parameters.read_definition_id(request), read_diagram_options(request)
    wanted_format = parameters.read_text(request, "format") or "mermaid"
    found = await definitions.get_version(request.runtime, request.caller, definition, wanted)
    if wanted_format not in ("mermaid", "graph"):
        raise InvalidParameter("format")
    draw = partial(_draw_graph, found.process.flow.graph, options, as_graph=wanted_format == "graph")
    return await run_by_size(len(found.process.source.text) * _TEXT_WEIGHT, draw)


def _draw_graph(graph: FlowGraph, options: DiagramOptions, *, as_graph: bool) -> Response:
    if as_graph:
        return reply(graph_to_document(graph))
    drawn = render_diagram(graph, is_vertical=options.is_vertical, with_docs=options.with_docs)
    return Response(drawn.encode(), media_type=TEXT)


async def _read_source(request: Request) -> FlowSource:
    """The definition in a request: JSON, or the text itself. Raises ``ProcessBadRequest``."""
    raw = await request.body(excess=BodyTooLarge)
    id_ = parameters.read_text(request, "id")
    if (request.header(b"content-type") or "").strip().lower().startswith(PLAIN):
        return FlowSource(id=id_, text=_decode_text(raw))
    body = await read_members(raw)
    settings = body.object("settings")
    return FlowSource(
        id=body.text("id") or id_,
        text=body.text("source"),
        settings=FlowSettings() if settings is None else _read_settings(settings),
    )


def _decode_text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as malformed:
        raise ProcessBadRequest(f"the text is not UTF-8: {malformed.reason} at byte {malformed.start}") from None
    if "\0" in text:
        raise ProcessBadRequest("the text must not contain the character U+0000")
    return text


def _read_settings(given: JsonObject) -> FlowSettings:
    try:
        return msgspec.convert(given, FlowSettings)
    except msgspec.ValidationError as defect:
        raise ProcessBadRequest(f"settings: {defect}") from None


def _summarize(process: FlowProcess) -> JsonObject:
    document = definition_to_document(process)
    return {name: document[name] for name in ("id", "name", "nodes", "tasks", "warnings")}
