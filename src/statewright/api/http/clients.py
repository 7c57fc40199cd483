"""Machine clients of the caller's tenant (docs/reference/authentication.md#clients).

Who am I (docs/reference/authentication.md#account).

What the bodies of the administration of keys have in common (docs/reference/authentication.md#keys).
"""

from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from statewright.api.http.declaration import Subject
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.auth import Client
from statewright.failures import BadRequest, BodyTooLarge, NotImplementedHere
from statewright.instants import from_rfc3339, to_rfc3339
from statewright.operations.identity_answers import GRANTS, ClientCredentials, DeletedClient, MachineClient
from statewright.operations.records import QueryParameter
from statewright.services.auth import clients
from statewright.services.auth.clients import IssuedSecret
from statewright.services.auth.signing_keys import Window

NOT_STORED: Final = ((b"cache-control", b"no-store"),)
"""Of answers that show a secret."""

JWT_ONLY: Final = (("x-cyoda-iam-mode", "jwt"),)
"""What the OpenAPI document says of operations that mock mode does not have."""

_CLIENTS: Final = Subject(
    tag="Clients", recording="transaction", problems=("FORBIDDEN", "NOT_IMPLEMENTED"), markers=JWT_ONLY
)
_ACCOUNT: Final = Subject(tag="Account")


@_CLIENTS.declare("GET /clients", "listTechnicalUsers", reply="Clients")
async def list_clients(request: Request) -> Response:
    """List the machine clients of the tenant."""
    found = await clients.list_clients(request.runtime.identity, request.caller)
    return Response(encode_json([*map(_show_client, found)]))


@_CLIENTS.declare(
    "POST /clients",
    "createTechnicalUser",
    answers_secret=True,
    query=tuple(QueryParameter(grant.parameter, "boolean", grant.says) for grant in GRANTS),
    reply="ClientCredentials",
    problems=("BAD_REQUEST", "FEATURE_DISABLED"),
)
async def create_client(request: Request) -> Response:
    """Create a machine client; its secret is shown once."""
    granted = [grant.role for grant in GRANTS if request.query_flag(grant.parameter)]
    issued = await clients.create_client(request.runtime.identity, request.caller, granted)
    return _respond_issued(issued)


@_CLIENTS.declare(
    "DELETE /clients/{clientId}",
    "deleteTechnicalUser",
    reply="ClientDeletion",
    problems=("BAD_REQUEST", "M2M_CLIENT_NOT_FOUND"),
)
async def delete_client(request: Request) -> Response:
    """Delete a machine client: it gets no more tokens."""
    client_id = request.path_params["clientId"]
    await clients.delete_client(request.runtime.identity, request.caller, client_id)
    return Response(encode_json(DeletedClient(message="M2M client deleted successfully", client_id=client_id)))


@_CLIENTS.declare(
    "PUT /clients/{clientId}/secret",
    "resetTechnicalUserSecret",
    answers_secret=True,
    reply="ClientCredentials",
    problems=("BAD_REQUEST", "M2M_CLIENT_NOT_FOUND"),
)
async def rotate_client_secret(request: Request) -> Response:
    """Give a machine client another secret, which is shown once."""
    issued = await clients.rotate_secret(request.runtime.identity, request.caller, request.path_params["clientId"])
    return _respond_issued(issued)


def _show_client(client: Client) -> MachineClient:
    return MachineClient(
        client_id=client.id,
        creation_date=to_rfc3339(client.created_at),
        last_update_date=to_rfc3339(client.updated_at),
        roles=client.roles,
    )


def _respond_issued(issued: IssuedSecret) -> Response:
    credentials = ClientCredentials(
        client_id=issued.client.id,
        client_secret=issued.secret.reveal(),
        grant_type="client_credentials",
        client_secret_expires_at=0,
        roles=issued.client.roles,
    )
    return Response(encode_json(credentials), headers=NOT_STORED)


_UNLIMITED: Final = {
    "id": "unlimited",
    "status": "ACTIVE",
    "tierName": "unlimited",
    "periodFrom": "2020-01-01T00:00:00Z",
    "limits": [],
}


@_ACCOUNT.declare("GET /account", "accountGet", reply="Account")
async def get_account(request: Request) -> Response:
    """How the caller's credentials are understood."""
    principal = request.principal
    info = {
        "userId": principal.id,
        "userName": principal.name,
        "legalEntity": {"id": principal.tenant, "name": principal.tenant_name or principal.tenant},
        "roles": [{"id": role} for role in principal.roles],
        "currentSubscription": _UNLIMITED | {"legalEntityId": principal.tenant},
    }
    return Response(encode_json({"userAccountInfo": info}))


@_ACCOUNT.declare(
    "GET /account/subscriptions", "accountSubscriptionsGet", reply="Success", problems=("NOT_IMPLEMENTED",)
)
async def refuse_subscriptions(request: Request) -> Response:
    """Not offered."""
    raise NotImplementedHere("not yet implemented")


MAX_BYTES: Final = 1024 * 1024

_Body = TypeVar("_Body")


class WindowBody(Struct, frozen=True, rename="camel"):
    """Members that say when a key is valid."""

    valid_from: str | None = None
    valid_to: str | None = None

    def to_window(self) -> Window:
        """Raises ``BadRequest`` for what is no instant."""
        return Window(valid_from=_read_instant(self.valid_from), valid_to=_read_instant(self.valid_to))


class GraceBody(Struct, frozen=True, rename="camel"):
    """For how many seconds a key still counts."""

    grace_period_sec: int | None = None


async def read_body(request: Request, kind: type[_Body], *, absent: bytes = b"") -> _Body:
    """The body as ``kind``; ``absent`` stands for an empty one. Raises ``BadRequest`` for one that is too large, or not
    of that kind.
    """
    try:
        return msgspec.json.decode(await request.body(MAX_BYTES) or absent, type=kind)
    except (BodyTooLarge, ValueError, RecursionError) as malformed:  # ValueError: what msgspec raises
        raise BadRequest("invalid request body") from malformed


def _read_instant(text: str | None) -> int | None:
    if text is None:
        return None
    instant = from_rfc3339(text)
    if instant is None:
        raise BadRequest("invalid request body")
    return instant
