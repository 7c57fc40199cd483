"""Records of requests with an ``Idempotency-Key`` (docs/reference/operations.md#idempotent-requests)."""

from typing import Final

from statewright.api.http.ops.route import ADMIN, OPERATOR, OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query
from statewright.failures import Forbidden
from statewright.instants import to_rfc3339
from statewright.services.idempotency.requests import IdempotentRequests


async def get_record(request: Request) -> Response:
    """What became of a request with a key; never what it was answered."""
    wanted = request.query("principal")
    principal = request.principal
    if wanted not in (None, principal.id) and {OPERATOR, ADMIN}.isdisjoint(principal.roles):
        raise Forbidden("keys of others are shown to operators")
    requests = request.runtime.extensions.get(IdempotentRequests)
    found = await requests.get_record(principal.tenant, wanted or principal.id, request.path_params["key"])
    optional: dict[str, object] = {
        "transactionId": found.transaction_id,
        "answerStatus": None if found.answer is None else found.answer.status,
    }
    return Response(
        encode_json(
            {
                "status": found.status,
                "entityIds": found.entities,
                "createdAt": to_rfc3339(found.created_at),
                "expiresAt": to_rfc3339(found.expires_at),
                **{name: value for name, value in optional.items() if value is not None},
            }
        )
    )


IDEMPOTENCY: Final = (
    OpsRoute(
        method="GET",
        path="/ops/v1/idempotency/{key}",
        endpoint=get_record,
        id="getIdempotencyRecord",
        summary="What became of a request with an Idempotency-Key",
        query=(Query("principal", "string", "whose key it is; for operators"),),
        reply="OpsIdempotencyRecord",
        problems=("BAD_REQUEST", "FORBIDDEN", "IDEMPOTENCY_KEY_NOT_FOUND"),
    ),
)
