"""Who am I (docs/reference/authentication.md#account)."""

from typing import Final

from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.failures import NotImplementedHere

_UNLIMITED: Final = {
    "id": "unlimited",
    "status": "ACTIVE",
    "tierName": "unlimited",
    "periodFrom": "2020-01-01T00:00:00Z",
    "limits": [],
}


async def get_account(request: Request) -> Response:
    """How the caller's credentials were understood."""
    principal = request.principal
    info = {
        "userId": principal.id,
        "userName": principal.name,
        "legalEntity": {"id": principal.tenant, "name": principal.tenant_name or principal.tenant},
        "roles": [{"id": role} for role in principal.roles],
        "currentSubscription": _UNLIMITED | {"legalEntityId": principal.tenant},
    }
    return Response(encode_json({"userAccountInfo": info}))


async def refuse_subscriptions(request: Request) -> Response:
    """Not offered, as on the public servers."""
    raise NotImplementedHere("not yet implemented")


# Routes on the caller (docs/reference/authentication.md#authentication).

ACCOUNT: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/account",
        endpoint=get_account,
        id="accountGet",
        tag="Account",
        summary="How the caller's credentials are understood",
        reply="Account",
    ),
    Route(
        method="GET",
        path="/account/subscriptions",
        endpoint=refuse_subscriptions,
        id="accountSubscriptionsGet",
        tag="Account",
        summary="Not offered",
        reply="Success",
        problems=("NOT_IMPLEMENTED",),
    ),
)
