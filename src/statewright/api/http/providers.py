"""Identity providers of the caller's tenant (docs/reference/oidc.md#providers)."""

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from statewright.api.http.clients import JWT_ONLY, read_body
from statewright.api.http.declaration import Subject
from statewright.api.http.keys import EMPTY
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.auth.providers import Provider
from statewright.instants import to_rfc3339
from statewright.operations.identity_answers import FetchedKeys, RegisteredProvider
from statewright.operations.records import QueryParameter
from statewright.services.auth import providers
from statewright.services.auth.providers import NewProvider, ProviderPatch

_PROVIDERS: Final = "/oauth/oidc/providers"
_PROVIDER: Final = f"{_PROVIDERS}/{{id}}"

_WITH_KEYS: Final = QueryParameter("withKeys", "boolean", "tell what the answering node has of the keys, and why not")
_OIDC: Final = Subject(
    tag="Identity providers", recording="transaction", problems=("NOT_IMPLEMENTED",), markers=JWT_ONLY
)


class _RegisterBody(Struct, frozen=True, rename="camel"):
    well_known_config_uri: str | None = None
    issuers: list[str] | None = None
    expected_audiences: list[str] | None = None
    roles_claim: str | None = None


class _PatchBody(Struct, frozen=True, rename="camel"):
    issuers: list[str] | None | UnsetType = UNSET
    expected_audiences: list[str] | None | UnsetType = UNSET
    roles_claim: str | None | UnsetType = UNSET


class _ReactivateBody(Struct, frozen=True, rename="camel"):
    reactivate_keys: bool | None = None
    """Accepted; the keys are fetched again in any case."""


@_OIDC.declare(
    f"GET {_PROVIDERS}",
    "listOidcProviders",
    query=(QueryParameter("activeOnly", "boolean", "leave out those that were invalidated"), _WITH_KEYS),
    reply="OidcProviders",
    problems=("BAD_REQUEST",),
)
async def list_providers(request: Request) -> Response:
    """List the identity providers of the tenant."""
    active_only, show = request.query_flag("activeOnly"), _choose_view(request)
    found = await providers.list_providers(request.runtime.identity, request.caller, active_only=active_only)
    return Response(encode_json([*map(show, found)]))


@_OIDC.declare(
    f"POST {_PROVIDERS}",
    "registerOidcProvider",
    query=(_WITH_KEYS,),
    body="NewOidcProvider",
    reply="OidcProvider",
    problems=("OIDC_SSRF_BLOCKED", "OIDC_INVALID_TENANT", "OIDC_PROVIDER_DUPLICATE", "BAD_REQUEST", "FORBIDDEN"),
)
async def register_provider(request: Request) -> Response:
    """Accept the tokens of an identity provider."""
    show = _choose_view(request)
    providers.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _RegisterBody)
    wanted = NewProvider(
        uri=body.well_known_config_uri,
        issuers=body.issuers,
        audiences=body.expected_audiences,
        roles_claim=body.roles_claim,
    )
    registered = await providers.register_provider(request.runtime.identity, request.caller, wanted)
    return Response(encode_json(show(registered)))


@_OIDC.declare(
    f"PATCH {_PROVIDER}",
    "updateOidcProvider",
    query=(_WITH_KEYS,),
    body="OidcProviderPatch",
    reply="OidcProvider",
    problems=("OIDC_PROVIDER_NOT_FOUND", "OIDC_PROVIDER_INACTIVE", "BAD_REQUEST", "FORBIDDEN"),
)
async def update_provider(request: Request) -> Response:
    """Change an identity provider, and fetch its keys again."""
    provider_id, show = _read_id(request), _choose_view(request)
    providers.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _PatchBody)
    patch = ProviderPatch(issuers=body.issuers, audiences=body.expected_audiences, roles_claim=body.roles_claim)
    updated = await providers.update_provider(request.runtime.identity, request.caller, provider_id, patch)
    return Response(encode_json(show(updated)))


@_OIDC.declare(
    f"POST {_PROVIDER}/invalidate",
    "invalidateOidcProvider",
    problems=("OIDC_PROVIDER_NOT_FOUND", "BAD_REQUEST", "FORBIDDEN"),
)
async def invalidate_provider(request: Request) -> Response:
    """Accept the tokens of an identity provider no more."""
    await providers.invalidate_provider(request.runtime.identity, request.caller, _read_id(request))
    return EMPTY


@_OIDC.declare(
    f"POST {_PROVIDER}/reactivate",
    "reactivateOidcProvider",
    body="OidcReactivation",
    body_required=False,
    reply="OidcProvider",
    problems=("OIDC_PROVIDER_NOT_FOUND", "BAD_REQUEST", "FORBIDDEN"),
)
async def reactivate_provider(request: Request) -> Response:
    """Accept the tokens of an identity provider again."""
    provider_id = _read_id(request)
    providers.require_access(request.runtime.identity, request.caller)
    await read_body(request, _ReactivateBody, absent=b"{}")
    reactivated = await providers.reactivate_provider(request.runtime.identity, request.caller, provider_id)
    return Response(encode_json(_show_provider(reactivated)))


@_OIDC.declare(
    f"DELETE {_PROVIDER}", "deleteOidcProvider", problems=("OIDC_PROVIDER_NOT_FOUND", "BAD_REQUEST", "FORBIDDEN")
)
async def delete_provider(request: Request) -> Response:
    """Forget an identity provider."""
    await providers.delete_provider(request.runtime.identity, request.caller, _read_id(request))
    return EMPTY


@_OIDC.declare(f"POST {_PROVIDERS}/reload", "reloadOidcProviders", problems=("FORBIDDEN",))
async def reload_providers(request: Request) -> Response:
    """Fetch the keys of the tenant's identity providers again, on all nodes."""
    await providers.reload_providers(request.runtime.identity, request.caller)
    return EMPTY


def _read_id(request: Request) -> str:
    return uuid_text("id", request.path_params["id"])


def _choose_view(request: Request) -> Callable[[Provider], RegisteredProvider]:
    if not request.query_flag("withKeys"):
        return _show_provider
    identity = request.runtime.identity
    return lambda provider: _show_provider(provider, providers.describe_keys(identity, provider))


def _show_provider(provider: Provider, keys: FetchedKeys | None = None) -> RegisteredProvider:
    return RegisteredProvider(
        id=provider.id,
        active=provider.active,
        created_at=to_rfc3339(provider.created_at),
        well_known_config_uri=provider.uri,
        issuers=provider.issuers,
        expected_audiences=provider.audiences,
        roles_claim=provider.roles_claim,
        keys=keys,
    )
