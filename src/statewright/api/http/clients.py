"""Machine clients of the caller's tenant (docs/reference/authentication.md#clients)."""

from typing import Final

from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Query, Route
from statewright.auth import Client
from statewright.instants import to_rfc3339
from statewright.services.auth import clients
from statewright.services.auth.clients import IssuedSecret

NOT_STORED: Final = ((b"cache-control", b"no-store"),)
"""Of answers that show a secret."""


async def list_clients(request: Request) -> Response:
    """The clients of the tenant, without their secrets."""
    found = await clients.list_clients(request.runtime, request.caller)
    return Response(encode_json([_describe_client(client) for client in found]))


async def create_client(request: Request) -> Response:
    """Create a client; the only answer that shows its secret."""
    is_admin = request.query_flag("withAdminRole")
    issued = await clients.create_client(request.runtime, request.caller, is_admin=is_admin)
    return Response(encode_json(_describe_credentials(issued)), headers=NOT_STORED)


async def delete_client(request: Request) -> Response:
    """Delete a client."""
    client_id = request.path_params["clientId"]
    await clients.delete_client(request.runtime, request.caller, client_id)
    return Response(encode_json({"message": "M2M client deleted successfully", "clientId": client_id}))


async def rotate_client_secret(request: Request) -> Response:
    """Give a client another secret; the only answer that shows it."""
    issued = await clients.rotate_secret(request.runtime, request.caller, request.path_params["clientId"])
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

CLIENTS: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/clients",
        endpoint=list_clients,
        id="listTechnicalUsers",
        tag="Clients",
        summary="List the machine clients of the tenant",
        reply="Clients",
        problems=("FORBIDDEN", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
    Route(
        method="POST",
        path="/clients",
        endpoint=create_client,
        recording="transaction",
        answers_secret=True,
        id="createTechnicalUser",
        tag="Clients",
        summary="Create a machine client; its secret is shown once",
        query=(Query("withAdminRole", "boolean", "give it `ROLE_ADMIN`, too, where a setting allows that"),),
        reply="ClientCredentials",
        problems=("BAD_REQUEST", "FORBIDDEN", "FEATURE_DISABLED", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
    Route(
        method="DELETE",
        path="/clients/{clientId}",
        endpoint=delete_client,
        recording="transaction",
        id="deleteTechnicalUser",
        tag="Clients",
        summary="Delete a machine client: it gets no more tokens",
        reply="ClientDeletion",
        problems=("BAD_REQUEST", "FORBIDDEN", "M2M_CLIENT_NOT_FOUND", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
    Route(
        method="PUT",
        path="/clients/{clientId}/secret",
        endpoint=rotate_client_secret,
        recording="transaction",
        answers_secret=True,
        id="resetTechnicalUserSecret",
        tag="Clients",
        summary="Give a machine client another secret, which is shown once",
        reply="ClientCredentials",
        problems=("BAD_REQUEST", "FORBIDDEN", "M2M_CLIENT_NOT_FOUND", "NOT_IMPLEMENTED"),
        markers=JWT_ONLY,
    ),
)
