"""Machine clients of the caller's tenant (docs/reference/authentication.md#clients).

Who am I (docs/reference/authentication.md#account).

What the bodies of the administration of keys have in common (docs/reference/authentication.md#keys).
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.auth import Client
from statewright.failures import BadRequest, BodyTooLarge, NotImplementedHere
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.operations.records import QueryParameter
from statewright.services.auth import clients
from statewright.services.auth.clients import IssuedSecret
from statewright.services.auth.signing_keys import Window

NOT_STORED: Final = ((b"cache-control", b"no-store"),)
"""Of answers that show a secret."""


async def list_clients(request: Request) -> Response:
    """The clients of the tenant, without their secrets."""
    found = await clients.list_clients(request.runtime.identity, request.caller)
    return Response(encode_json([_describe_client(client) for client in found]))


async def create_client(request: Request) -> Response:
    """Create a client; the only answer that shows its secret."""
    is_admin = request.query_flag("withAdminRole")
    issued = await clients.create_client(request.runtime.identity, request.caller, is_admin=is_admin)
    return Response(encode_json(_describe_credentials(issued)), headers=NOT_STORED)


async def delete_client(request: Request) -> Response:
    """Delete a client."""
    client_id = request.path_params["clientId"]
    await clients.delete_client(request.runtime.identity, request.caller, client_id)
    return Response(encode_json({"message": "M2M client deleted successfully", "clientId": client_id}))


async def rotate_client_secret(request: Request) -> Response:
    """Give a client another secret; the only answer that shows it."""
    issued = await clients.rotate_secret(request.runtime.identity, request.caller, request.path_params["clientId"])
    return Response(encode_json(_describe_credentials(issued)), headers=NOT_STORED)


def _describe_client(client: Client) -> dict[str, object]:
    return {
        "clientId": client.id,
        "creationDate": to_rfc3339(client.created_at),
        "lastUpdateDate": to_rfc3339(client.updated_at),
        "roles": client.roles,
    }


def _describe_credentials(issued: IssuedSecret) -> dict[str, object]:
    return {
        "client_id": issued.client.id,
        "client_secret": issued.secret.reveal(),
        "client_secret_expires_at": 0,
        "grant_type": "client_credentials",
        "roles": issued.client.roles,
    }


JWT_ONLY: Final = (("x-cyoda-iam-mode", "jwt"),)
"""What the OpenAPI document says of operations that mock mode does not have."""

_read = partial(Route, tag="Clients", markers=JWT_ONLY)
_change = partial(_read, recording="transaction")

CLIENTS: tuple[Route, ...] = (
    _read(
        method="GET",
        path="/clients",
        endpoint=list_clients,
        id="listTechnicalUsers",
        summary="List the machine clients of the tenant",
        reply="Clients",
        problems=("FORBIDDEN", "NOT_IMPLEMENTED"),
    ),
    _change(
        method="POST",
        path="/clients",
        endpoint=create_client,
        answers_secret=True,
        id="createTechnicalUser",
        summary="Create a machine client; its secret is shown once",
        query=(QueryParameter("withAdminRole", "boolean", "give it `ROLE_ADMIN`, too, where a setting allows that"),),
        reply="ClientCredentials",
        problems=("BAD_REQUEST", "FORBIDDEN", "FEATURE_DISABLED", "NOT_IMPLEMENTED"),
    ),
    _change(
        method="DELETE",
        path="/clients/{clientId}",
        endpoint=delete_client,
        id="deleteTechnicalUser",
        summary="Delete a machine client: it gets no more tokens",
        reply="ClientDeletion",
        problems=("BAD_REQUEST", "FORBIDDEN", "M2M_CLIENT_NOT_FOUND", "NOT_IMPLEMENTED"),
    ),
    _change(
        method="PUT",
        path="/clients/{clientId}/secret",
        endpoint=rotate_client_secret,
        answers_secret=True,
        id="resetTechnicalUserSecret",
        summary="Give a machine client another secret, which is shown once",
        reply="ClientCredentials",
        problems=("BAD_REQUEST", "FORBIDDEN", "M2M_CLIENT_NOT_FOUND", "NOT_IMPLEMENTED"),
    ),
)


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


MAX_BYTES: Final = 1024 * 1024

_Body = TypeVar("_Body")


class WindowBody(Struct, frozen=True):
    """Members that say when a key is valid."""

    validFrom: str | None = None  # noqa: N815 - the names of the dialect
    validTo: str | None = None  # noqa: N815

    def to_window(self) -> Window:
        """Raises ``BadRequest`` for what is no instant."""
        return Window(valid_from=_read_instant(self.validFrom), valid_to=_read_instant(self.validTo))


class _GraceBody(Struct, frozen=True):
    gracePeriodSec: int | None = None  # noqa: N815


_decode_window = msgspec.json.Decoder(WindowBody).decode
_decode_grace = msgspec.json.Decoder(_GraceBody).decode


async def read_body(request: Request, decode: Callable[[bytes], _Body]) -> _Body:
    """The decoded body. Raises ``BadRequest`` for one that is too large, or not as ``decode`` wants it."""
    try:
        return decode(await request.body(MAX_BYTES))
    except (BodyTooLarge, ValueError, RecursionError) as malformed:  # ValueError: what msgspec raises
        raise BadRequest("invalid request body") from malformed


async def read_window(request: Request) -> Window:
    """The window in a body. Raises ``BadRequest``."""
    return (await read_body(request, _decode_window)).to_window()


async def read_grace(request: Request) -> int | None:
    """The grace in a body, which may be empty, in seconds. Raises ``BadRequest``."""
    return (await read_body(request, lambda body: _decode_grace(body or b"{}"))).gracePeriodSec


def _read_instant(text: str | None) -> int | None:
    if text is None:
        return None
    instant = from_rfc3339(text)
    if instant is None:
        raise BadRequest("invalid request body")
    return instant
