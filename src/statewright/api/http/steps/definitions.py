"""Definitions over REST (docs/reference/steps.md#uploading-and-reading-definitions)."""

from typing import Final

from statewright.api.http.processes import parameters
from statewright.api.http.processes.bodies import reply, reply_by_size
from statewright.api.http.processes.errors import build_error
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.failures import BodyTooLarge
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.services.processes.definitions import Summary
from statewright.services.steps import definitions
from statewright.services.steps.definitions import UploadResult
from statewright.steps.documents import definition_to_document
from statewright.steps.lint import lint_definition as lint

_XML: Final = ("application/xml", "text/xml")


async def upload(request: Request) -> Response:
    """Store a definition."""
    content_type = request.header(b"content-type") or ""
    if any(kind in content_type.lower() for kind in _XML):
        return build_error(415, "Only JSON workflow definitions are accepted")
    raw = await request.body(excess=BodyTooLarge)
    wants_warnings = parameters.read_flag(request, "warnings")

    async def respond(stored: UploadResult) -> Response:
        return _respond_uploaded(stored, with_warnings=wants_warnings)

    return await respond(await definitions.upload(request.runtime, request.answer_with(respond), raw))


def _respond_uploaded(stored: UploadResult, *, with_warnings: bool) -> Response:
    summary: JsonObject = {
        "id": stored.id,
        "version": stored.version,
        "name": stored.name,
        "uploadedAt": format_instant(stored.uploaded_at),
    }
    if with_warnings:
        summary["warnings"] = list(stored.warnings)
    return reply(summary, 201)


async def list_definitions(request: Request) -> Response:
    """A page of definitions."""
    found = await definitions.list_definitions(
        request.runtime,
        request.caller,
        keyword=parameters.read_text(request, "keyword"),
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    items: list[JsonValue] = [_describe_summary(summary) for summary in found.items]
    return await reply_by_size({"items": items, "page": found.page, "pageSize": found.page_size, "total": found.total})


async def get_latest(request: Request) -> Response:
    """The latest version of a definition."""
    return await _get_document(request, 0)


async def get_version(request: Request) -> Response:
    """One version of a definition."""
    return await _get_document(request, parameters.read_version(request))


async def list_warnings(request: Request) -> Response:
    """What looks like a mistake in the latest version."""
    found = await definitions.get_version(request.runtime, request.caller, parameters.read_definition_id(request))
    return reply({"version": found.version, "warnings": list(lint(found.process.definition))})


async def draw_latest(request: Request) -> Response:
    """The latest version as a Mermaid flowchart."""
    return await _draw(request, 0)


async def draw_version(request: Request) -> Response:
    """One version as a Mermaid flowchart."""
    return await _draw(request, parameters.read_version(request))


async def _get_document(request: Request, wanted: int) -> Response:
    definition = parameters.read_definition_id(request)
    found = await definitions.get_version(request.runtime, request.caller, definition, wanted)
    return await reply_by_size(definition_to_document(found.process.definition, found.version))


async def _draw(request: Request, wanted: int) -> Response:
    definition = parameters.read_definition_id(request)
    drawn = await definitions.get_definition_diagram(request.runtime, request.caller, definition, wanted)
    return Response(drawn.encode(), media_type=TEXT)


def _describe_summary(summary: Summary) -> JsonObject:
    return {
        "id": summary.id,
        "version": summary.version,
        "name": summary.name,
        "uploadedAt": format_instant(summary.uploaded_at),
        "versions": list(summary.versions),
    }
