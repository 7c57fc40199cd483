"""Versions of entities as clients read them (docs/reference/operations.md#versions)."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from statewright.api.http.ops.bodies import read_body
from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import OPERATOR, OpsRoute
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.background import run_by_size
from statewright.ids import TransactionId
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.jsonval.codec import decode_stored, encode_large
from statewright.services.ops import versions
from statewright.services.ops.restoring import Restored, RestoreRequest, restore
from statewright.services.ops.versions import Version, VersionFilter, VersionKey, VersionName

FILTERS: Final = (
    Query("state", "string", "in this state", repeatable=True),
    Query("atFrom", "string", "written then or later", "date-time"),
    Query("atTo", "string", "written before", "date-time"),
)
LISTING: Final = tuple(query for query in PAGING if query.name != "count")

_BASE: Final = "/ops/v1/entities/{entityId}"


async def list_versions(request: Request) -> Response:
    """The versions of an entity, newest first."""
    wanted = VersionFilter(
        states=request.query_all("state") or None,
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, FILTERS, VersionKey)
    found = await versions.list_versions(request.runtime, request.caller, request.entity_id(), wanted, page)
    return build_list_response(request, FILTERS, found, _describe)


async def get_version(request: Request) -> Response:
    """One version with its document."""
    transaction = TransactionId(uuid_text("transactionId", request.path_params["transactionId"]))
    found = await versions.get_version(request.runtime, request.caller, request.entity_id(), transaction)
    text = found.document
    document = b"null" if text is None else await run_by_size(len(text), lambda: encode_large(decode_stored(text)))
    head = encode_json(_describe(found.version)).rstrip()
    return Response(b'%b,"document":%b}\n' % (head[:-1], document))


async def compare_versions(request: Request) -> Response:
    """What changed between two versions."""
    newer = _read_name(request, "to", "current")
    older = _read_name(request, "from", "previous")
    found = await versions.compare(request.runtime, request.caller, request.entity_id(), older=older, newer=newer)
    before = found.older
    body: dict[str, object] = {
        "from": None if before is None else before.entity.transaction_id,
        "to": found.newer.entity.transaction_id,
        "state": {"from": None if before is None else before.entity.state, "to": found.newer.entity.state},
        "patch": found.patch,
    }
    return Response(await run_by_size(found.size, lambda: encode_json(body)))


class RestoreBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Which document is to be brought back, and why."""

    version: str
    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    ifMatch: str | None = None  # noqa: N815 - as clients write it
    transition: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    paths: Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(min_length=1, max_length=1000)] | None = (
        None
    )


async def restore_version(request: Request) -> Response:
    """Bring a former document back."""
    body = await read_body(request, RestoreBody)

    async def respond(done: Restored) -> Response:
        shown = {"transactionId": done.transaction_id, "restored": done.restored, "patch": done.patch}
        return Response(await run_by_size(len(done.patch) * 100, lambda: encode_json(shown)))

    wanted = RestoreRequest(
        version=_parse_name("/version", body.version),
        reason=body.reason,
        if_match=None if body.ifMatch is None else uuid_text("/ifMatch", body.ifMatch),
        transition=body.transition,
        paths=body.paths,
    )
    caller = request.answer_with(respond)
    return await respond(await restore(request.runtime, caller, request.entity_id(), wanted))


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


def _describe(version: Version) -> dict[str, object]:
    entity = version.entity
    return {
        "transactionId": entity.transaction_id,
        "at": to_rfc3339(version.at),
        "until": None if version.until is None else to_rfc3339(version.until),
        "state": entity.state,
        "transition": entity.transition,
        "changeType": version.change,
        "attributedTo": {"id": entity.attributed.id, "kind": entity.attributed.kind},
        "executedBy": {"id": entity.executor.id, "kind": entity.executor.kind},
        "workflow": entity.workflow,
        "workflowRevision": entity.workflow_revision,
        "bytes": version.stored_bytes,
        "current": version.is_current,
    }


VERSIONS: Final = (
    OpsRoute(
        method="POST",
        path=f"{_BASE}/restore",
        endpoint=restore_version,
        id="restoreVersion",
        summary="Write a former document of an entity as its next version",
        role=OPERATOR,
        recording="commit",
        body="OpsRestore",
        reply="OpsRestored",
        problems=(
            "BAD_REQUEST",
            "FORBIDDEN",
            "ENTITY_NOT_FOUND",
            "VERSION_NOT_FOUND",
            "HISTORY_PRUNED",
            "ENTITY_MODIFIED",
            "CONFLICT",
            "UNIQUE_VIOLATION",
            "TRANSITION_NOT_FOUND",
            "WORKFLOW_FAILED",
            "SUSPENDED",
        ),
    ),
    OpsRoute(
        method="GET",
        path=f"{_BASE}/versions",
        endpoint=list_versions,
        id="listVersions",
        summary="The versions of an entity, newest first, also of a deleted one",
        query=(*FILTERS, *LISTING),
        reply="OpsVersions",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    ),
    OpsRoute(
        method="GET",
        path=f"{_BASE}/versions/{{transactionId}}",
        endpoint=get_version,
        id="getVersion",
        summary="The version that a transaction wrote, with its document",
        reply="OpsVersionDocument",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "VERSION_NOT_FOUND"),
    ),
    OpsRoute(
        method="GET",
        path=f"{_BASE}/diff",
        endpoint=compare_versions,
        id="compareVersions",
        summary="What changed between two versions, as a JSON Patch",
        query=(
            Query("from", "string", "a transaction, an instant, `current` or `previous`, which is the default"),
            Query("to", "string", "likewise; `current` when absent"),
        ),
        reply="OpsDifference",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND", "VERSION_NOT_FOUND", "HISTORY_PRUNED"),
    ),
)
