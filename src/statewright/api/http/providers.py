"""Identity providers of the caller's tenant (docs/reference/oidc.md#providers)."""

from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from statewright.api.http.clients import JWT_ONLY, read_body
from statewright.api.http.keys import EMPTY
from statewright.api.http.request import Request, uuid_text
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import Route
from statewright.auth.providers import Provider
from statewright.instants import to_rfc3339
from statewright.operations.records import QueryParameter
from statewright.services.auth import providers
from statewright.services.auth.providers import NewProvider, ProviderPatch


class _RegisterBody(Struct, frozen=True):
    wellKnownConfigUri: str | None = None  # noqa: N815 - the names of the dialect
    issuers: list[str] | None = None
    expectedAudiences: list[str] | None = None  # noqa: N815
    rolesClaim: str | None = None  # noqa: N815


class _PatchBody(Struct, frozen=True):
    issuers: list[str] | None | UnsetType = UNSET
    expectedAudiences: list[str] | None | UnsetType = UNSET  # noqa: N815
    rolesClaim: str | None | UnsetType = UNSET  # noqa: N815


class _ReactivateBody(Struct, frozen=True):
    reactivateKeys: bool | None = None  # noqa: N815 - accepted; the keys are fetched again in any case


_decode_registration: Final = msgspec.json.Decoder(_RegisterBody).decode
_decode_patch: Final = msgspec.json.Decoder(_PatchBody).decode
_decode_reactivation: Final = msgspec.json.Decoder(_ReactivateBody).decode


async def list_providers(request: Request) -> Response:
    """The providers of the tenant."""
    active_only = request.query_flag("activeOnly")
    found = await providers.list_providers(request.runtime.identity, request.caller, active_only=active_only)
    return Response(encode_json([_describe_provider(provider) for provider in found]))


async def register_provider(request: Request) -> Response:
    """Accept the tokens of a provider."""
    providers.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _decode_registration)
    wanted = NewProvider(
        uri=body.wellKnownConfigUri,
        issuers=body.issuers,
        audiences=body.expectedAudiences,
        roles_claim=body.rolesClaim,
    )
    return _show_provider(await providers.register_provider(request.runtime.identity, request.caller, wanted))


async def update_provider(request: Request) -> Response:
    """Change a provider, and ask it for its keys again."""
    provider_id = _read_id(request)
    providers.require_access(request.runtime.identity, request.caller)
    body = await read_body(request, _decode_patch)
    patch = ProviderPatch(issuers=body.issuers, audiences=body.expectedAudiences, roles_claim=body.rolesClaim)
    return _show_provider(await providers.update_provider(request.runtime.identity, request.caller, provider_id, patch))


async def invalidate_provider(request: Request) -> Response:
    """Accept the tokens of a provider no more."""
    await providers.invalidate_provider(request.runtime.identity, request.caller, _read_id(request))
    return EMPTY


async def reactivate_provider(request: Request) -> Response:
    """Accept the tokens of a provider again."""
    provider_id = _read_id(request)
    providers.require_access(request.runtime.identity, request.caller)
    await read_body(request, lambda body: _decode_reactivation(body or b"{}"))
    return _show_provider(await providers.reactivate_provider(request.runtime.identity, request.caller, provider_id))


async def delete_provider(request: Request) -> Response:
    """Forget a provider."""
    await providers.delete_provider(request.runtime.identity, request.caller, _read_id(request))
    return EMPTY


async def reload_providers(request: Request) -> Response:
    """Ask the active providers of the tenant for their keys again, on all nodes."""
    await providers.reload_providers(request.runtime.identity, request.caller)
    return EMPTY


def _read_id(request: Request) -> str:
    return uuid_text("id", request.path_params["id"])


def _show_provider(provider: Provider) -> Response:
    return Response(encode_json(_describe_provider(provider)))


def _describe_provider(provider: Provider) -> dict[str, object]:
    shown: dict[str, object] = {
        "id": provider.id,
        "active": provider.active,
        "createdAt": to_rfc3339(provider.created_at),
        "wellKnownConfigUri": provider.uri,
    }
    if provider.issuers:
        shown["issuers"] = provider.issuers
    if provider.audiences:
        shown["expectedAudiences"] = provider.audiences
    if provider.roles_claim is not None:
        shown["rolesClaim"] = provider.roles_claim
    return shown


_PROVIDERS: Final = "/oauth/oidc/providers"
_PROVIDER: Final = f"{_PROVIDERS}/{{id}}"
_ADMIN_ONLY: Final = ("BAD_REQUEST", "FORBIDDEN", "NOT_IMPLEMENTED")

_read = partial(Route, tag="Identity providers", markers=JWT_ONLY)
_change = partial(_read, recording="transaction")

PROVIDERS: tuple[Route, ...] = (
    _read(
        method="GET",
        path=_PROVIDERS,
        endpoint=list_providers,
        id="listOidcProviders",
        summary="List the identity providers of the tenant",
        query=(QueryParameter("activeOnly", "boolean", "leave out those that were invalidated"),),
        reply="OidcProviders",
        problems=("BAD_REQUEST", "NOT_IMPLEMENTED"),
    ),
    _change(
        method="POST",
        path=_PROVIDERS,
        endpoint=register_provider,
        id="registerOidcProvider",
        summary="Accept the tokens of an identity provider",
        body="NewOidcProvider",
        reply="OidcProvider",
        problems=("OIDC_SSRF_BLOCKED", "OIDC_INVALID_TENANT", "OIDC_PROVIDER_DUPLICATE", *_ADMIN_ONLY),
    ),
    _change(
        method="POST",
        path=f"{_PROVIDERS}/reload",
        endpoint=reload_providers,
        id="reloadOidcProviders",
        summary="Fetch the keys of the tenant's identity providers again, on all nodes",
        reply="",
        problems=("FORBIDDEN", "NOT_IMPLEMENTED"),
    ),
    _change(
        method="PATCH",
        path=_PROVIDER,
        endpoint=update_provider,
        id="updateOidcProvider",
        summary="Change an identity provider, and fetch its keys again",
        body="OidcProviderPatch",
        reply="OidcProvider",
        problems=("OIDC_PROVIDER_NOT_FOUND", "OIDC_PROVIDER_INACTIVE", *_ADMIN_ONLY),
    ),
    _change(
        method="DELETE",
        path=_PROVIDER,
        endpoint=delete_provider,
        id="deleteOidcProvider",
        summary="Forget an identity provider",
        reply="",
        problems=("OIDC_PROVIDER_NOT_FOUND", *_ADMIN_ONLY),
    ),
    _change(
        method="POST",
        path=f"{_PROVIDER}/invalidate",
        endpoint=invalidate_provider,
        id="invalidateOidcProvider",
        summary="Accept the tokens of an identity provider no more",
        reply="",
        problems=("OIDC_PROVIDER_NOT_FOUND", *_ADMIN_ONLY),
    ),
    _change(
        method="POST",
        path=f"{_PROVIDER}/reactivate",
        endpoint=reactivate_provider,
        id="reactivateOidcProvider",
        summary="Accept the tokens of an identity provider again",
        body="OidcReactivation",
        body_required=False,
        reply="OidcProvider",
        problems=("OIDC_PROVIDER_NOT_FOUND", *_ADMIN_ONLY),
    ),
)
