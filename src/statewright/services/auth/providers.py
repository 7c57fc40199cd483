"""Use cases of identity providers (docs/reference/oidc.md). Callers are administrators of a tenant, and see and change
the providers of that tenant; to see them one need not be an administrator.

Identity providers by which people log in to the console (docs/console.md#login): asked for where they may be found,
and for the tokens of a code, as the policy for requests to providers permits.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit
from uuid import UUID, uuid4

import msgspec
from msgspec import UNSET, Struct, UnsetType

from statewright.auth.providers import MAX_DISCOVERY_BYTES, Provider
from statewright.egress import Egress, EgressPolicy, FailureReason, HttpFailure, HttpRequest, HttpResponse
from statewright.failures import (
    BadRequest,
    InvalidProviderTenant,
    NotImplementedHere,
    ProviderAddressBlocked,
    ProviderDuplicate,
    ProviderInactive,
    ProviderNotFound,
    ProviderTaken,
)
from statewright.jsonval.values import JsonObject
from statewright.operations.identity_answers import FetchedKeys
from statewright.services.auth.clients import Administration, Identity, describe_act, require_admin
from statewright.services.auth.key_sources import hash_text
from statewright.services.auth.live_providers import LiveProviders
from statewright.services.core import Caller
from statewright.settings import Secret
from statewright.storage.auth.providers import MAX_PROVIDERS, ProviderChanges
from statewright.telemetry import logs

MAX_URI_BYTES: Final = 1000
MAX_ENTRIES: Final = 10
MAX_ENTRY_BYTES: Final = 1000
MAX_CLAIM_BYTES: Final = 100

_TENANT_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BLOCKED: Final[Mapping[FailureReason, str]] = {
    "address_refused": "STATEWRIGHT_EGRESS_NETWORKS permits networks that are not public",
    "host_refused": "STATEWRIGHT_EGRESS_HOSTS names those that are permitted",
    "port_refused": "STATEWRIGHT_EGRESS_PORTS names those that are permitted",
}

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


async def list_providers(administration: Administration, caller: Caller, *, active_only: bool) -> list[Provider]:
    """The providers of the tenant, the oldest first. Raises ``NotImplementedHere``."""
    identity = _get_identity(administration)
    return await identity.providers.list_for_tenant(caller.tenant, active_only=active_only)


async def register_provider(administration: Administration, caller: Caller, wanted: NewProvider) -> Provider:
    """A new provider, whose keys have been asked for: if it has answered, its tokens count from now on. Raises
    ``BadRequest``, ``ProviderAddressBlocked``, ``InvalidProviderTenant``, ``ProviderDuplicate``, ``ProviderTaken``.
    """
    identity = require_access(administration, caller)
    if not _TENANT_ID.fullmatch(caller.tenant):
        raise InvalidProviderTenant
    uri = await _check_uri(identity, wanted.uri)
    provider = Provider(
        id=str(uuid4()),
        tenant=caller.tenant,
        uri=uri,
        issuers=_read_entries("issuers", wanted.issuers),
        audiences=_read_entries("expectedAudiences", wanted.audiences),
        roles_claim=_read_claim(wanted.roles_claim),
        created_at=administration.clock(),
    )
    details = {"uri": hash_text(uri), "issuers": len(provider.issuers), "audiences": len(provider.audiences)}
    act = describe_act(caller, "oidc_provider.register", "OIDC_PROVIDER", provider.id, details)
    match await identity.providers.register(provider, act):
        case "duplicate":
            raise ProviderDuplicate
        case "taken":
            raise ProviderTaken(_find_taken_field(provider))
        case "too many":
            raise BadRequest(f"the tenant has {MAX_PROVIDERS} providers already, which is the most it may have")
        case "registered":
            log.info("oidc_provider_registered", provider=provider.id, tenant=caller.tenant, by=caller.principal.id)
    await _report_other_owners(identity, provider)
    await _fetch_keys(identity, provider)
    if not await identity.live_providers.record_issuer(provider.id):
        undo = describe_act(caller, "oidc_provider.delete", "OIDC_PROVIDER", provider.id, {"taken": True})
        await identity.providers.delete(caller.tenant, UUID(provider.id), act=undo)
        await identity.live_providers.refresh()
        raise ProviderTaken(_find_taken_field(provider))
    return provider


async def update_provider(
    administration: Administration, caller: Caller, provider_id: str, patch: ProviderPatch
) -> Provider:
    """The changed provider, whose keys have been asked for again. Raises ``BadRequest``, ``ProviderNotFound``,
    ``ProviderInactive``, ``ProviderTaken``.
    """
    identity = require_access(administration, caller)
    changes = ProviderChanges(
        issuers=UNSET if patch.issuers is UNSET else _read_entries("issuers", patch.issuers),
        audiences=UNSET if patch.audiences is UNSET else _read_entries("expectedAudiences", patch.audiences),
        roles_claim=UNSET if patch.roles_claim is UNSET else _read_claim(patch.roles_claim),
    )
    members = {"issuers": patch.issuers, "expectedAudiences": patch.audiences, "rolesClaim": patch.roles_claim}
    named = [name for name, value in members.items() if value is not UNSET]
    act = describe_act(caller, "oidc_provider.update", "OIDC_PROVIDER", provider_id, {"changed": named})
    updated = await identity.providers.update(
        caller.tenant, UUID(provider_id), changes, now=administration.clock(), act=act
    )
    if updated is None:
        raise ProviderNotFound
    if updated == "taken":
        raise ProviderTaken("issuers" if changes.audiences is UNSET else "expectedAudiences")
    if not updated.active:
        raise ProviderInactive
    log.info("oidc_provider_updated", provider=provider_id, tenant=caller.tenant, by=caller.principal.id)
    await _fetch_keys(identity, updated)
    await identity.live_providers.record_issuer(updated.id)
    return updated


async def invalidate_provider(administration: Administration, caller: Caller, provider_id: str) -> None:
    """The tokens of the provider count no more; nothing happens if they did not. Raises ``ProviderNotFound``."""
    identity = require_access(administration, caller)
    act = describe_act(caller, "oidc_provider.invalidate", "OIDC_PROVIDER", provider_id)
    switched = await identity.providers.invalidate(caller.tenant, UUID(provider_id), act=act)
    if switched is None:
        raise ProviderNotFound
    log.info("oidc_provider_invalidated" if switched else "oidc_provider_already_inactive", provider=provider_id)
    await identity.live_providers.refresh()


async def reactivate_provider(administration: Administration, caller: Caller, provider_id: str) -> Provider:
    """The tokens of the provider count again; its keys are fetched when one is used. Raises ``ProviderNotFound``."""
    identity = require_access(administration, caller)
    act = describe_act(caller, "oidc_provider.reactivate", "OIDC_PROVIDER", provider_id)
    key = (caller.tenant, UUID(provider_id))
    switched = await identity.providers.reactivate(*key, now=administration.clock(), act=act)
    provider = await identity.providers.find(*key)
    if switched is None or provider is None:
        raise ProviderNotFound
    log.info("oidc_provider_reactivated" if switched else "oidc_provider_already_active", provider=provider_id)
    await identity.live_providers.refresh()
    return provider


async def delete_provider(administration: Administration, caller: Caller, provider_id: str) -> None:
    """The provider is not known any more. Raises ``ProviderNotFound``."""
    identity = require_access(administration, caller)
    act = describe_act(caller, "oidc_provider.delete", "OIDC_PROVIDER", provider_id)
    if await identity.providers.delete(caller.tenant, UUID(provider_id), act=act) is None:
        raise ProviderNotFound
    log.info("oidc_provider_deleted", provider=provider_id, tenant=caller.tenant, by=caller.principal.id)
    await identity.live_providers.refresh()


async def reload_providers(administration: Administration, caller: Caller) -> None:
    """Every node begins to fetch the keys of the tenant's active providers again; those it has count meanwhile."""
    identity = require_access(administration, caller)
    act = describe_act(caller, "oidc_provider.reload", "OIDC_PROVIDER", "*")
    await identity.providers.reload(caller.tenant, now=administration.clock(), act=act)
    await identity.live_providers.refresh()


def describe_keys(administration: Administration, provider: Provider) -> FetchedKeys:
    """What this node has of its keys, and why not. Raises ``NotImplementedHere``."""
    return _get_identity(administration).live_providers.describe_keys(provider.id)


def require_access(administration: Administration, caller: Caller) -> Identity:
    """What providers are managed with. Raises ``NotImplementedHere``, ``Forbidden``: before a body is looked at."""
    identity = _get_identity(administration)
    require_admin(caller.principal)
    return identity


def _get_identity(administration: Administration) -> Identity:
    identity = administration.identity
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
    told = "; ".join(("wellKnownConfigUri: " + failure.detail, *_find_setting(failure, identity.discovery.policy)))
    raise ProviderAddressBlocked(told) if failure.reason in _BLOCKED else BadRequest(told)


def _find_setting(failure: HttpFailure, policy: EgressPolicy) -> Iterator[str]:
    """What would permit it."""
    if failure.reason == "scheme_refused" and policy.requires_https:
        yield "STATEWRIGHT_OIDC_REQUIRE_HTTPS=false permits http, unless STATEWRIGHT_EGRESS_REQUIRE_HTTPS is set"
    elif failure.reason in _BLOCKED:
        yield _BLOCKED[failure.reason]


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


def _find_taken_field(provider: Provider) -> str:
    """What of a registration would have to be another: with audiences of its own it could share the issuer."""
    return "expectedAudiences" if provider.audiences or not provider.issuers else "issuers"


async def _report_other_owners(identity: Identity, provider: Provider) -> None:
    """Tell operators that tenants share a provider, or one takes over what another had."""
    owners = await identity.providers.list_other_owners(provider.tenant, provider.uri)
    if not owners:
        return
    keys = {"provider": provider.id, "tenant": provider.tenant, "uri": hash_text(provider.uri)}
    log.info("oidc_cross_tenant_uri_registration", owners=owners, **keys)


KEPT_S: Final = 300.0
"""How long a discovery document is used."""
MAX_TOKEN_REPLY_BYTES: Final = 256 * 1024
TIMEOUT_S: Final = 15.0
FORM: Final = "application/x-www-form-urlencoded"

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode  # Any: checked below


class LoginOffer(Struct, frozen=True):
    """A provider that the page of the login names. ``label`` is the host of its discovery document."""

    id: str
    label: str


class LoginProvider(Struct, frozen=True, kw_only=True):
    """A provider as its discovery document describes it."""

    id: str
    tenant: str
    client_id: str
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    end_session_endpoint: str
    takes_basic: bool
    """Whether the secret of the client goes into a header, as providers take it unless they say otherwise."""


class ConsoleProviders:
    """The providers that have a client of the console. ``clients`` and ``secrets`` are by the id of the provider."""

    def __init__(
        self, live: LiveProviders, egress: Egress, clients: Mapping[str, str], secrets: Mapping[str, Secret]
    ) -> None:
        self._live = live
        self._egress = egress
        self._clients = clients
        self._secrets = secrets
        self._found: dict[str, tuple[float, Provider, LoginProvider]] = {}

    def list_offers(self) -> list[LoginOffer]:
        """Those that are registered and active now."""
        known = (self._live.find_provider(provider_id) for provider_id in self._clients)
        return [LoginOffer(each.id, urlsplit(each.uri).hostname or each.uri) for each in known if each is not None]

    async def discover(self, provider_id: str) -> LoginProvider | None:
        """The provider, from what it published some minutes ago at most; None where there is none or it fails."""
        provider = self._live.find_provider(provider_id) if provider_id in self._clients else None
        if provider is None:
            return None
        kept = self._found.get(provider_id)
        if kept is not None and kept[1] == provider and monotonic() - kept[0] < KEPT_S:
            return kept[2]
        found = await self._fetch(provider)
        if found is not None:
            self._found[provider_id] = (monotonic(), provider, found)
        return found

    async def request_tokens(self, provider_id: str, form: Mapping[str, str]) -> "JsonObject | None":
        """What the token endpoint answers to ``form``; None where it refuses or fails."""
        provider = await self.discover(provider_id)
        if provider is None:
            return None
        secret = self._secrets.get(provider_id)
        fields, headers = dict(form), [("Content-Type", FORM), ("Accept", "application/json")]
        if secret is not None and provider.takes_basic:
            pair = f"{quote_plus(provider.client_id)}:{quote_plus(secret.reveal())}"
            headers.append(("Authorization", f"Basic {b64encode(pair.encode()).decode()}"))
        else:
            fields["client_id"] = provider.client_id
            if secret is not None:
                fields["client_secret"] = secret.reveal()
        request = HttpRequest(
            url=provider.token_endpoint,
            method="POST",
            headers=tuple(headers),
            body=urlencode(fields).encode(),
            timeout_s=TIMEOUT_S,
            max_response_bytes=MAX_TOKEN_REPLY_BYTES,
        )
        return _read(await self._egress.send(request), provider_id, "token")

    async def _fetch(self, provider: Provider) -> LoginProvider | None:
        request = HttpRequest(
            url=provider.uri,
            headers=(("Accept", "application/json"),),
            timeout_s=TIMEOUT_S,
            max_response_bytes=MAX_DISCOVERY_BYTES,
        )
        document = _read(await self._egress.send(request), provider.id, "discovery")
        if document is None:
            return None
        issuer, authorization, token = (
            _get_text(document, name) for name in ("issuer", "authorization_endpoint", "token_endpoint")
        )
        is_pinned = not provider.issuers or issuer in provider.issuers
        policy = self._egress.policy
        is_usable = all(not isinstance(policy.check_url(url), HttpFailure) for url in (authorization, token))
        if not issuer or not is_pinned or not is_usable:
            log.warning("console_provider_unusable", provider=provider.id)
            return None
        end_session = _get_text(document, "end_session_endpoint")
        methods = document.get("token_endpoint_auth_methods_supported")
        return LoginProvider(
            id=provider.id,
            tenant=provider.tenant,
            client_id=self._clients[provider.id],
            issuer=issuer,
            authorization_endpoint=authorization,
            token_endpoint=token,
            end_session_endpoint="" if isinstance(policy.check_url(end_session), HttpFailure) else end_session,
            takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
        )


def _read(response: HttpResponse | HttpFailure, provider_id: str, what: str) -> "JsonObject | None":
    if isinstance(response, HttpFailure) or response.status != 200:
        reason = response.reason if isinstance(response, HttpFailure) else f"status {response.status}"
        log.warning("console_provider_failed", provider=provider_id, what=what, reason=reason)
        return None
    try:
        return _decode(response.body)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        log.warning("console_provider_failed", provider=provider_id, what=what, reason="no JSON object")
        return None


def _get_text(document: JsonObject, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""
