"""The API itself (docs/reference/operations.md): the settings of the node that answers
(docs/reference/operations.md#settings), what operators have done (docs/reference/operations.md#audit), and records of
requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests).
"""

from collections.abc import Iterable, Iterator

from statewright.api.http.ops.paging import build_list_response, read_page_request
from statewright.api.http.ops.route import ADMIN, OPERATOR, serve
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.failures import Forbidden
from statewright.ids import ulid_to_uuid
from statewright.instants import to_rfc3339
from statewright.operations.service import ActFilter, ActKey, IdempotencyRecord, SettingList
from statewright.operations.table import GET_IDEMPOTENCY_RECORD, LIST_OPERATOR_ACTS, LIST_SETTINGS
from statewright.services.ops import service


@serve(LIST_SETTINGS)
async def list_settings(request: Request) -> Response:
    """What the node that answers runs with."""
    return Response(encode_json(SettingList(items=tuple(service.list_settings(request.runtime.operations.settings)))))


@serve(LIST_OPERATOR_ACTS)
async def list_acts(request: Request) -> Response:
    """What operators have done, newest first."""
    wanted = ActFilter(
        actions=request.query_all("action") or None,
        actors=request.query_all("actor") or None,
        target_kinds=request.query_all("targetKind") or None,
        target_ids=tuple(_list_forms(request.query_all("targetId"))) or None,
        since=request.query_instant("atFrom"),
        before=request.query_instant("atTo"),
    )
    page = read_page_request(request, LIST_OPERATOR_ACTS, ActKey)
    found = await service.list_acts(request.runtime.core, request.caller, wanted, page)
    return build_list_response(request, LIST_OPERATOR_ACTS, found)


def _list_forms(ids: Iterable[str]) -> Iterator[str]:
    """The ids of targets; those that are ULIDs also as the UUIDs under which entities are recorded."""
    for id_ in ids:
        yield id_
        if uuid := ulid_to_uuid(id_):
            yield uuid


@serve(GET_IDEMPOTENCY_RECORD)
async def get_record(request: Request) -> Response:
    """What became of a request with a key; never what it was answered."""
    wanted = request.query("principal")
    principal = request.principal
    if wanted not in (None, principal.id) and {OPERATOR, ADMIN}.isdisjoint(principal.roles):
        raise Forbidden("keys of others are shown to operators")
    requests = request.runtime.core.requests
    found = await requests.get_record(principal.tenant, wanted or principal.id, request.path_params["key"])
    record = IdempotencyRecord(
        status=found.status,
        transaction_id=found.transaction_id,
        entity_ids=found.entities,
        answer_status=None if found.answer is None else found.answer.status,
        created_at=to_rfc3339(found.created_at),
        expires_at=to_rfc3339(found.expires_at),
    )
    return Response(encode_json(record))
