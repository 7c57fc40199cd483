"""The audit trail of operators (docs/reference/operations.md#audit)."""

from typing import Final

from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import OPERATOR, OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import Query
from statewright.instants import to_rfc3339
from statewright.operator_acts import ActFilter, ActKey, RecordedAct
from statewright.services.ops import audit

FILTERS: Final = (
    Query("action", "string", "such as `entity.restore`", repeatable=True),
    Query("actor", "string", "id of who did it", repeatable=True),
    Query("targetKind", "string", "such as `ENTITY`", repeatable=True),
    Query("targetId", "string", "id of what it was done to", repeatable=True),
    Query("atFrom", "string", "inclusive", "date-time"),
    Query("atTo", "string", "exclusive", "date-time"),
)


async def list_acts(request: Request) -> Response:
    """What operators have done, newest first."""
    wanted = ActFilter(
        actions=request.query_all("action") or None,
        actors=request.query_all("actor") or None,
        target_kinds=request.query_all("targetKind") or None,
        target_ids=request.query_all("targetId") or None,
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, FILTERS, ActKey)
    found = await audit.list_acts(request.runtime, request.caller, wanted, page)
    return build_list_response(request, FILTERS, found, _describe_act)


def _describe_act(act: RecordedAct) -> dict[str, object]:
    shown: dict[str, object] = {
        "id": act.id,
        "at": to_rfc3339(act.at),
        "actor": {"id": act.actor.id, "kind": act.actor.kind},
        "action": act.action,
        "target": {"kind": act.target_kind, "id": act.target_id},
        "details": act.details,
    }
    optional = {"reason": act.reason, "traceId": act.trace_id}
    return shown | {name: value for name, value in optional.items() if value is not None}


AUDIT: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/audit",
        endpoint=list_acts,
        id="listOperatorActs",
        summary="What operators have done through this API, newest first",
        role=OPERATOR,
        query=(*FILTERS, *PAGING),
        reply="OpsActs",
        problems=("BAD_REQUEST", "FORBIDDEN"),
    ),
)
