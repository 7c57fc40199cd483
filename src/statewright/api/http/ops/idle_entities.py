"""Idle entities as clients read them (docs/reference/operations.md#idle-entities)."""

from typing import Final

from statewright.api.http.ops.lists import PAGING, build_cursor, read_page_request
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.instants import to_rfc3339
from statewright.services.ops import idle_entities
from statewright.services.ops.idle_entities import IdleEntity, ScanKey

FILTERS: Final = (Query("model", "string", "name of the model"),)
LISTING: Final = tuple(query for query in PAGING if query.name != "count")


async def list_idle_entities(request: Request) -> Response:
    """Entities in states that can still be left, those first that were written the longest time ago."""
    page = read_page_request(request, FILTERS, ScanKey)
    scan = await idle_entities.find_idle_entities(request.runtime, request.caller, page, name=request.query("model"))
    body: dict[str, object] = {
        "items": [_describe(each) for each in scan.found],
        "scanned": scan.scanned,
        "complete": scan.position is None and page.after is None,
    }
    if scan.position is not None:
        body["nextCursor"] = build_cursor(request, FILTERS, scan.position)
    return Response(encode_json(body))


def _describe(found: IdleEntity) -> dict[str, object]:
    shown: dict[str, object] = {
        "entityId": found.id,
        "model": {"name": found.model.name, "version": found.model.version},
        "state": found.state,
        "writtenAt": to_rfc3339(found.written_at),
    }
    return shown if found.entered_at is None else shown | {"since": to_rfc3339(found.entered_at)}


IDLE_ENTITIES: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/idle-entities",
        endpoint=list_idle_entities,
        id="listIdleEntities",
        summary="Entities in states that can still be left, those first that were written the longest time ago",
        query=(*FILTERS, *LISTING),
        reply="OpsIdleEntities",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
)
