"""Transactions as clients read them (docs/reference/operations.md#transactions)."""

from typing import Final

from statewright.api.http.ops.lists import PAGING, build_list_response, read_page_request
from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response
from statewright.ids import TransactionId
from statewright.instants import to_rfc3339
from statewright.services.ops import transactions
from statewright.services.ops.transactions import TransactionKey, WrittenEntity

LISTING: Final = tuple(query for query in PAGING if query.name != "count")


async def list_written_entities(request: Request) -> Response:
    """The entities that a transaction has written."""
    transaction = TransactionId(uuid_text("transactionId", request.path_params["transactionId"]))
    page = read_page_request(request, (), TransactionKey)
    found = await transactions.list_written(request.runtime, request.caller, transaction, page)
    return build_list_response(request, (), found, _describe)


def _describe(written: WrittenEntity) -> dict[str, object]:
    model = written.model
    optional: dict[str, object] = {
        "model": None if model is None else {"name": model.name, "version": model.version},
        "state": written.state,
        "transition": written.transition,
        "changeType": written.change,
    }
    shown: dict[str, object] = {
        "entityId": written.id,
        "at": to_rfc3339(written.at),
        "events": written.events,
        "versions": written.versions,
    }
    return shown | {name: value for name, value in optional.items() if value is not None}


TRANSACTIONS: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/transactions/{transactionId}/entities",
        endpoint=list_written_entities,
        id="listWrittenEntities",
        summary="The entities that a transaction has written, by id",
        query=LISTING,
        reply="OpsWrittenEntities",
        problems=("BAD_REQUEST", "SEARCH_SHARD_TIMEOUT"),
    ),
)
