"""Definitions of playbooks over REST (docs/reference/executions.md#rest)."""

from functools import partial
from typing import Final

from statewright.api.http.playbooks.parameters import read_path
from statewright.api.http.processes import parameters
from statewright.api.http.processes.bodies import reply
from statewright.api.http.processes.records import reply_summaries, reply_uploaded, reply_versions
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.background import run_by_size
from statewright.failures import BodyTooLarge, ProcessBadRequest
from statewright.instants import format_instant
from statewright.jsonval.values import JsonObject
from statewright.playbooks.documents import MAX_DOCUMENT_BYTES
from statewright.playbooks.mermaid import render_diagram
from statewright.playbooks.process import PlaybookProcess
from statewright.playbooks.source import PlaybookSource, definition_to_document
from statewright.services.playbooks import definitions
from statewright.services.processes.definitions import UploadedDefinition

YAML: Final = "application/yaml"
_TEXT_WEIGHT: Final = 8
"""Bytes of JSON that a character of a playbook is as much work as, when it is drawn."""


async def upload(request: Request) -> Response:
    """Store a playbook."""
    source = await _read_source(request)
    caller = request.answer_with(_respond_uploaded)
    return await _respond_uploaded(await definitions.upload(request.runtime, caller, source))


async def _respond_uploaded(uploaded: UploadedDefinition[PlaybookProcess]) -> Response:
    process = uploaded.process
    return reply_uploaded(
        _summarize(process), version=process.version, uploaded_at=uploaded.uploaded_at, is_new=uploaded.is_new
    )


async def validate(request: Request) -> Response:
    """Check a playbook, and store nothing."""
    return reply(_summarize(await definitions.check(request.runtime, await _read_source(request))))


async def list_definitions(request: Request) -> Response:
    """A page of playbooks."""
    found = await definitions.list_definitions(
        request.runtime,
        request.caller,
        keyword=parameters.read_text(request, "keyword"),
        page=parameters.read_number(request, "page"),
        page_size=parameters.read_number(request, "pageSize"),
    )
    return reply_summaries(found, "path")


async def list_versions(request: Request) -> Response:
    """All versions of a playbook."""
    return reply_versions(await definitions.list_versions(request.runtime, request.caller, read_path(request)))


async def get_latest(request: Request) -> Response:
    """The latest version of a playbook."""
    return await _get_document(request, 0)


async def get_version(request: Request) -> Response:
    """One version of a playbook."""
    return await _get_document(request, parameters.read_version(request))


async def draw_latest(request: Request) -> Response:
    """The steps and arcs of the latest version."""
    return await _draw(request, 0)


async def draw_version(request: Request) -> Response:
    """The steps and arcs of one version."""
    return await _draw(request, parameters.read_version(request))


async def _get_document(request: Request, wanted: int) -> Response:
    found = await definitions.get_version(request.runtime, request.caller, read_path(request), wanted)
    return reply({**_describe(found.process), "uploadedAt": format_instant(found.uploaded_at)})


async def _draw(request: Request, wanted: int) -> Response:
    is_vertical = parameters.read_direction(request)
    found = await definitions.get_version(request.runtime, request.caller, read_path(request), wanted)
    draw = partial(render_diagram, found.process.playbook, is_vertical=is_vertical)
    drawn = await run_by_size(len(found.process.source.text) * _TEXT_WEIGHT, draw)
    return Response(drawn.encode(), media_type=TEXT)


async def _read_source(request: Request) -> PlaybookSource:
    """The playbook in a request, whatever its media type: YAML, of which JSON is a part."""
    raw = await request.body(excess=BodyTooLarge)
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise ProcessBadRequest(f"a playbook has at most {MAX_DOCUMENT_BYTES} bytes, this one {len(raw)}")
    try:
        return PlaybookSource(text=raw.decode())
    except UnicodeDecodeError as malformed:
        raise ProcessBadRequest(f"the text is not UTF-8: {malformed.reason} at byte {malformed.start}") from None


def _describe(process: PlaybookProcess) -> JsonObject:
    return definition_to_document(process.source, process.read, process.version)


def _summarize(process: PlaybookProcess) -> JsonObject:
    document = _describe(process)
    return {name: document[name] for name in ("path", "name", "steps", "kinds", "warnings")}
