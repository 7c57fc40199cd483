"""Use cases of identity providers (docs/reference/oidc.md). Callers are administrators of a tenant, and see and change
the providers of that tenant; to see them one need not be an administrator.
"""

import re
from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

from msgspec import UNSET, Struct, UnsetType

from statewright import logs
from statewright.auth.providers import Provider
from statewright.egress import FailureReason
from statewright.failures import (
    BadRequest,
    InvalidProviderTenant,
    NotImplementedHere,
    ProviderAddressBlocked,
    ProviderDuplicate,
    ProviderInactive,
    ProviderNotFound,
)
from statewright.services.auth.acts import describe_act
from statewright.services.auth.identity import Administration, Identity, require_admin
from statewright.services.auth.key_sources import hash_text
from statewright.services.runtime import Caller, Runtime
from statewright.storage.auth.providers import MAX_PROVIDERS, ProviderChanges

MAX_URI_BYTES: Final = 1000
MAX_ENTRIES: Final = 10
MAX_ENTRY_BYTES: Final = 1000
MAX_CLAIM_BYTES: Final = 100

_TENANT_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BLOCKED: Final[frozenset[FailureReason]] = frozenset({"address_refused", "host_refused", "port_refused"})

log = logs.logger(__name__)


class NewProvider(Struct, frozen=True, kw_only=True):
    """What a caller registers. ``uri`` None: it was not given."""

    uri: str | None
    issuers: Sequence[str] | None
    audiences: Sequence[str] | None
    roles_claim: str | None


class ProviderPatch(Struct, frozen=True, kw_only=True):
    """What a caller changes: UNSET is left as it is, None cleared."""

    issuers: Sequence[str] | None | UnsetType = UNSET
    audiences: Sequence[str] | None | UnsetType = UNSET
    roles_claim: str | None | UnsetType = UNSET


async def list_providers(runtime: Runtime, caller: Caller, *, active_only: bool) -> list[Provider]:
    """The providers of the tenant, the oldest first. Raises ``NotImplementedHere``."""
    identity = _get_identity(runtime)
    return await identity.providers.list_for_tenant(caller.tenant, active_only=active_only)


async def register_provider(runtime: Runtime, caller: Caller, wanted: NewProvider) -> Provider:
    """A new provider, whose keys have been asked for: if it has answered, its tokens count from now on. Raises
    ``BadRequest``, ``ProviderAddressBlocked``, ``InvalidProviderTenant``, ``ProviderDuplicate``.
    """
    identity = require_access(runtime, caller)
    uri = await _check_uri(identity, wanted.uri)
    provider = Provider(
        id=str(uuid4()),
        tenant=caller.tenant,
        uri=uri,
        issuers=_read_entries("issuers", wanted.issuers),
        audiences=_read_entries("expectedAudiences", wanted.audiences),
        roles_claim=_read_claim(wanted.roles_claim),
        created_at=runtime.clock(),
    )
    if not _TENANT_ID.fullmatch(caller.tenant):
        raise InvalidProviderTenant
    details = {"uri": hash_text(uri), "issuers": len(provider.issuers), "audiences": len(provider.audiences)}
    act = describe_act(caller, "oidc_provider.register", "OIDC_PROVIDER", provider.id, details)
    match await identity.providers.register(provider, act):
        case "duplicate":
            raise ProviderDuplicate
        case "too many":
            raise BadRequest(f"the tenant has {MAX_PROVIDERS} providers already, which is the most it may have")
        case "registered":
            log.info("oidc_provider_registered", provider=provider.id, tenant=caller.tenant, by=caller.principal.id)
    await _report_other_owners(identity, provider)
    await _fetch_keys(identity, provider)
    return provider


async def update_provider(runtime: Runtime, caller: Caller, provider_id: str, patch: ProviderPatch) -> Provider:
    """The changed provider, whose keys have been asked for again. Raises ``BadRequest``, ``ProviderNotFound``,
    ``ProviderInactive``.
    """
    identity = require_access(runtime, caller)
    changes = ProviderChanges(
        issuers=UNSET if patch.issuers is UNSET else _read_entries("issuers", patch.issuers),
        audiences=UNSET if patch.audiences is UNSET else _read_entries("expectedAudiences", patch.audiences),
        roles_claim=UNSET if patch.roles_claim is UNSET else _read_claim(patch.roles_claim),
    )
    named = [name for name in ("issuers", "audiences", "roles_claim") if getattr(changes, name) is not UNSET]
    act = describe_act(caller, "oidc_provider.update", "OIDC_PROVIDER", provider_id, {"changed": named})
    updated = await identity.providers.update(caller.tenant, UUID(provider_id), changes, now=runtime.clock(), act=act)
    if updated is None:
        raise ProviderNotFound
    if not updated.active:
        raise ProviderInactive
    log.info("oidc_provider_updated", provider=provider_id, tenant=caller.tenant, by=caller.principal.id)
    await _fetch_keys(identity, updated)
    return updated


async def invalidate_provider(runtime: Runtime, caller: Caller, provider_id: str) -> None:
    """The tokens of the provider count no more; nothing happens if they did not. Raises ``ProviderNotFound``."""
    identity = require_access(runtime, caller)
    act = describe_act(caller, "oidc_provider.invalidate", "OIDC_PROVIDER", provider_id)
    switched = await identity.providers.invalidate(caller.tenant, UUID(provider_id), act=act)
    if switched is None:
        raise ProviderNotFound
    log.info("oidc_provider_invalidated" if switched else "oidc_provider_already_inactive", provider=provider_id)
    await identity.live_providers.refresh()


async def reactivate_provider(runtime: Runtime, caller: Caller, provider_id: str) -> Provider:
    """The tokens of the provider count again; its keys are fetched when one is used. Raises ``ProviderNotFound``."""
    identity = require_access(runtime, caller)
    act = describe_act(caller, "oidc_provider.reactivate", "OIDC_PROVIDER", provider_id)
    key = (caller.tenant, UUID(provider_id))
    switched = await identity.providers.reactivate(*key, now=runtime.clock(), act=act)
    provider = await identity.providers.find(*key)
    if switched is None or provider is None:
        raise ProviderNotFound
    log.info("oidc_provider_reactivated" if switched else "oidc_provider_already_active", provider=provider_id)
    await identity.live_providers.refresh()
    return provider


async def delete_provider(runtime: Runtime, caller: Caller, provider_id: str) -> None:
    """The provider is not known any more. Raises ``ProviderNotFound``."""
    identity = require_access(runtime, caller)
    act = describe_act(caller, "oidc_provider.delete", "OIDC_PROVIDER", provider_id)
    if await identity.providers.delete(caller.tenant, UUID(provider_id), act=act) is None:
        raise ProviderNotFound
    log.info("oidc_provider_deleted", provider=provider_id, tenant=caller.tenant, by=caller.principal.id)
    await identity.live_providers.refresh()


async def reload_providers(runtime: Runtime, caller: Caller) -> None:
    """Every node begins to fetch the keys of the tenant's active providers again; those it has count meanwhile."""
    identity = require_access(runtime, caller)
    act = describe_act(caller, "oidc_provider.reload", "OIDC_PROVIDER", "*")
    await identity.providers.reload(caller.tenant, now=runtime.clock(), act=act)
    await identity.live_providers.refresh()


def require_access(runtime: Runtime, caller: Caller) -> Identity:
    """What providers are managed with. Raises ``NotImplementedHere``, ``Forbidden``: before a body is looked at."""
    identity = _get_identity(runtime)
    require_admin(caller.principal)
    return identity


def _get_identity(runtime: Runtime) -> Identity:
    identity = runtime.extensions.get(Administration).identity
    if identity is None:
        raise NotImplementedHere("not yet implemented")
    return identity


async def _check_uri(identity: Identity, uri: str | None) -> str:
    if uri is None:
        raise BadRequest("wellKnownConfigUri is required")
    if not uri or "\0" in uri:
        raise BadRequest("wellKnownConfigUri must be a non-empty string")
    if _count_bytes(uri) > MAX_URI_BYTES:
        raise BadRequest(f"wellKnownConfigUri is longer than {MAX_URI_BYTES} bytes")
    failure = await identity.discovery.check(uri)
    if failure is None:
        return uri
    if failure.reason in _BLOCKED:
        raise ProviderAddressBlocked(f"wellKnownConfigUri: {failure.detail}")
    raise BadRequest(f"wellKnownConfigUri: {failure.detail}")


def _read_entries(name: str, entries: Sequence[str] | None) -> tuple[str, ...]:
    entries = entries or ()
    if len(entries) > MAX_ENTRIES:
        raise BadRequest(f"{name} has more than {MAX_ENTRIES} entries")
    for entry in entries:
        if not entry or "\0" in entry or _count_bytes(entry) > MAX_ENTRY_BYTES:
            raise BadRequest(f"an entry of {name} is empty, or longer than {MAX_ENTRY_BYTES} bytes")
    return tuple(entries)


def _read_claim(claim: str | None) -> str | None:
    if claim is not None and ("\0" in claim or _count_bytes(claim) > MAX_CLAIM_BYTES):
        raise BadRequest(f"rolesClaim is longer than {MAX_CLAIM_BYTES} bytes")
    return claim


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


async def _fetch_keys(identity: Identity, provider: Provider) -> None:
    """Ask the provider at once, on this node; the others do by themselves."""
    await identity.live_providers.refresh()
    await identity.live_providers.fetch_keys(provider.id)


async def _report_other_owners(identity: Identity, provider: Provider) -> None:
    """Tell operators that tenants share a provider, or one takes over what another had."""
    owners = await identity.providers.list_other_owners(provider.tenant, provider.uri)
    if not owners:
        return
    keys = {"provider": provider.id, "tenant": provider.tenant, "uri": hash_text(provider.uri)}
    log.info("oidc_cross_tenant_uri_registration", owners=owners, **keys)
    others = await identity.providers.list_others_at(provider.tenant, provider.uri)
    mine = set(provider.audiences)
    if any(not mine or not other.audiences or mine & set(other.audiences) for other in others):
        log.warning("oidc_cross_tenant_audience_overlap", **keys)
