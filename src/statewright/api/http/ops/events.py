"""Events of runs as clients read them (docs/reference/operations.md#events-of-runs)."""

from typing import Final

from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response
from statewright.api.http.router import TRANSACTION
from statewright.instants import to_rfc3339
from statewright.services.ops import events
from statewright.services.ops.events import EventKey, FiledEvent

FILTERS: Final = (TRANSACTION,)
LISTING: Final = tuple(query for query in PAGING if query.name != "count")


async def list_events(request: Request) -> Response:
    """The events of an entity, those of the newest run first."""
    transaction = request.query_transaction("transactionId")
    page = read_page_request(request, FILTERS, EventKey)
    found = await events.list_events(
        request.runtime, request.caller, request.entity_id(), page, transaction=transaction
    )
    return build_list_response(request, FILTERS, found, _describe)


def _describe(filed: FiledEvent) -> dict[str, object]:
    event = filed.event
    shown: dict[str, object] = {
        "at": to_rfc3339(event.at),
        "transactionId": filed.key.transaction,
        "eventType": event.type,
        "details": event.details,
        "data": event.data,
    }
    return shown if event.state is None else shown | {"state": event.state}


EVENTS: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/entities/{entityId}/events",
        endpoint=list_events,
        id="listEvents",
        summary="The events of the runs of an entity, those of the newest run first",
        query=(*FILTERS, *LISTING),
        reply="OpsEvents",
        problems=("BAD_REQUEST", "ENTITY_NOT_FOUND"),
    ),
)
