"""Routes on the caller (spec/auth-and-operations.md)."""

from statewright.api.http.endpoints import account
from statewright.api.http.routes.route import Route

ACCOUNT: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/account",
        endpoint=account.account,
        id="accountGet",
        tag="Account",
        summary="How the caller's credentials are understood",
        reply="Account",
    ),
    Route(
        method="GET",
        path="/account/subscriptions",
        endpoint=account.subscriptions,
        id="accountSubscriptionsGet",
        tag="Account",
        summary="Not offered",
        reply="Success",
        problems=("NOT_IMPLEMENTED",),
    ),
)
