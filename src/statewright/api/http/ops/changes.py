"""Changes of entities as clients read them (docs/reference/operations.md#changes)."""

from typing import Final

from statewright.api.http.ops.lists import PAGING, build_cursor, read_page_request
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.entity import Actor
from statewright.instants import to_rfc3339
from statewright.services.ops import changes
from statewright.services.ops.changes import ChangeFilter, ChangeKey, FoundChange

FILTERS: Final = (
    Query("model", "string", "name of the model"),
    Query("actor", "string", "id of who did it, or of whom it was done for"),
    Query("atFrom", "string", "inclusive", "date-time"),
    Query("atTo", "string", "exclusive", "date-time"),
)
LISTING: Final = tuple(query for query in PAGING if query.name != "count")


async def list_changes(request: Request) -> Response:
    """What was done to the entities of the tenant, the newest first."""
    wanted = ChangeFilter(
        model=request.query("model"),
        actor=request.query("actor"),
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, FILTERS, ChangeKey)
    scan = await changes.find_changes(request.runtime, request.caller, wanted, page)
    body: dict[str, object] = {"items": [_describe(each) for each in scan.found], "scanned": scan.scanned}
    if scan.position is not None:
        body["nextCursor"] = build_cursor(request, FILTERS, scan.position)
    return Response(encode_json(body))


def _describe(found: FoundChange) -> dict[str, object]:
    model = found.model
    shown: dict[str, object] = {
        "at": to_rfc3339(found.key.at),
        "entityId": found.entity,
        "transactionId": found.transaction,
        "events": found.events,
    }
    optional: dict[str, object | None] = {
        "model": None if model is None else {"name": model.name, "version": model.version},
        "state": found.state,
        "transition": found.transition,
        "changeType": found.change,
        "attributedTo": _describe_actor(found.attributed),
        "executedBy": _describe_actor(found.executor),
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


def _describe_actor(actor: Actor | None) -> dict[str, object] | None:
    return None if actor is None else {"id": actor.id, "kind": actor.kind}


CHANGES: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/changes",
        endpoint=list_changes,
        id="listChanges",
        summary="What was done to the entities of the tenant, the newest first",
        query=(*FILTERS, *LISTING),
        reply="OpsChanges",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
)
