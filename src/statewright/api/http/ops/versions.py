"""Versions of entities as clients read them (docs/reference/operations.md#versions)."""

from statewright.api.http.ops.lists import build_list_response, read_page_request
from statewright.api.http.ops.route import read_body, serve
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.ids import TransactionId
from statewright.instants import from_rfc3339
from statewright.jsonval.codec import decode_stored, encode_large
from statewright.loop.background import run_by_size
from statewright.operations.history import Restoration, Restored
from statewright.operations.table import COMPARE_VERSIONS, GET_VERSION, LIST_VERSIONS, RESTORE_VERSION
from statewright.services.ops import versions
from statewright.services.ops.versions import (
    RestoreRequest,
    VersionFilter,
    VersionKey,
    VersionName,
    restore,
    show_version,
)


@serve(LIST_VERSIONS)
async def list_versions(request: Request) -> Response:
    """The versions of an entity, newest first."""
    wanted = VersionFilter(
        states=request.query_all("state") or None,
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, LIST_VERSIONS, VersionKey)
    found = await versions.list_versions(request.runtime.core, request.caller, request.entity_id(), wanted, page)
    return build_list_response(request, LIST_VERSIONS, found, show_version)


@serve(GET_VERSION)
async def get_version(request: Request) -> Response:
    """One version with its document."""
    transaction = TransactionId(uuid_text("transactionId", request.path_params["transactionId"]))
    found = await versions.get_version(request.runtime.core, request.caller, request.entity_id(), transaction)
    text = found.document
    document = b"null" if text is None else await run_by_size(len(text), lambda: encode_large(decode_stored(text)))
    head = encode_json(show_version(found.version)).rstrip()
    return Response(b'%b,"document":%b}\n' % (head[:-1], document))


@serve(COMPARE_VERSIONS)
async def compare_versions(request: Request) -> Response:
    """What changed between two versions."""
    newer = _read_name(request, "to", "current")
    older = _read_name(request, "from", "previous")
    found = await versions.compare(request.runtime.core, request.caller, request.entity_id(), older=older, newer=newer)
    return Response(await run_by_size(found.size, lambda: encode_json(found.difference)))


@serve(RESTORE_VERSION)
async def restore_version(request: Request) -> Response:
    """Bring a former document back."""
    body = await read_body(request, Restoration)

    async def respond(done: Restored) -> Response:
        return Response(await run_by_size(len(done.patch) * 100, lambda: encode_json(done)))

    wanted = RestoreRequest(
        version=_parse_name("/version", body.version),
        reason=body.reason,
        if_match=None if body.if_match is None else uuid_text("/ifMatch", body.if_match),
        transition=body.transition,
        paths=body.paths,
    )
    caller = request.answer_with(respond)
    return await respond(await restore(request.runtime.operations, caller, request.entity_id(), wanted))


def _read_name(request: Request, name: str, default: VersionName) -> VersionName:
    text = request.query(name)
    return default if text is None else _parse_name(name, text)


def _parse_name(name: str, text: str) -> VersionName:
    if text == "current":
        return "current"
    if text == "previous":
        return "previous"
    instant = from_rfc3339(text)
    if instant is not None:
        return instant
    return TransactionId(uuid_text(name, text))
