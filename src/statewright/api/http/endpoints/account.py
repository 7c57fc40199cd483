"""Who am I (spec/auth-and-operations.md §16)."""

from statewright.api.http.bodies import json_body
from statewright.api.http.exchange import Answer, Exchange
from statewright.failures import NotImplementedHere

_UNLIMITED = {
    "id": "unlimited",
    "status": "ACTIVE",
    "tierName": "unlimited",
    "periodFrom": "2020-01-01T00:00:00Z",
    "limits": [],
}


async def account(exchange: Exchange) -> Answer:
    """How the caller's credentials were understood."""
    principal = exchange.principal
    info = {
        "userId": principal.id,
        "userName": principal.name,
        "legalEntity": {"id": principal.tenant, "name": principal.tenant_name or principal.tenant},
        "roles": [{"id": role} for role in principal.roles],
        "currentSubscription": _UNLIMITED | {"legalEntityId": principal.tenant},
    }
    return Answer(json_body({"userAccountInfo": info}))


async def subscriptions(exchange: Exchange) -> Answer:
    """Not offered, as on the public servers."""
    raise NotImplementedHere("not yet implemented")
