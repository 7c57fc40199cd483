"""Who callers are, by the mode of the settings (docs/reference/authentication.md#modes)."""

from collections.abc import Callable
from typing import assert_never

from msgspec import Struct

from statewright.app.database import StartFailed
from statewright.app.outgoing import build_provider_policy
from statewright.auth import (
    AnonymousFallback,
    Authenticator,
    ClientAssertions,
    ClientSecrets,
    JwkSet,
    JwtAuthenticator,
    MockAuthenticator,
    MockTokenEndpoint,
    SigningKey,
    TokenEndpoint,
    TokenIssuer,
    TokenRules,
    TokenService,
    TokenVerifier,
    build_anonymous_principal,
    build_mock_principal,
    load_bootstrap_client,
    load_configured_key,
)
from statewright.auth.encryption import Unreadable, build_cipher
from statewright.auth.providers import FederatedTokens
from statewright.ids import TenantId, system_clock
from statewright.services.auth.identity import Administration, Identity, TrustLimits
from statewright.services.auth.key_ring import LiveKeyRing
from statewright.services.auth.late_keys import KeyFinder
from statewright.services.auth.live_providers import LiveProviders
from statewright.services.runtime import Runtime
from statewright.settings import Settings, SettingsError
from statewright.storage.auth.assertions import StoredAssertions
from statewright.storage.auth.clients import StoredClients
from statewright.storage.auth.providers import StoredProviders
from statewright.storage.auth.signing_keys import StoredKeyPairs
from statewright.storage.auth.trusted_keys import StoredTrustedKeys
from statewright.storage.pool import Pool


class Authentication(Struct, frozen=True, kw_only=True):
    """How callers prove who they are. ``steps`` is for those of the step engine."""

    authenticator: Authenticator
    steps: Authenticator
    tokens: TokenService
    published_keys: Callable[[], JwkSet] | None


def build_administration(settings: Settings, pool: Pool) -> Administration:
    """What clients and keys are administered with. Raises ``SettingsError`` for an unusable signing key."""
    platform = TenantId(settings.iam_platform_tenant) if settings.iam_platform_tenant else None
    configured = load_configured_key(settings, system_clock()) if settings.iam_mode == "jwt" else None
    identity = _build_identity(settings, pool, configured) if configured is not None else None
    return Administration(
        identity=identity,
        trusts_keys=settings.iam_trusted_key_registration_enabled,
        platform_tenant=platform,
    )


def _build_identity(settings: Settings, pool: Pool, configured: SigningKey) -> Identity:
    assert configured.private is not None  # noqa: S101 - the settings have it
    cipher = build_cipher(settings.encryption_key, configured.private)
    key_pairs = StoredKeyPairs(pool, configured.kid)
    providers, policy = StoredProviders(pool), build_provider_policy(settings)
    return Identity(
        clients=StoredClients(pool, settings.bootstrap_client_id),
        key_pairs=key_pairs,
        key_ring=LiveKeyRing(key_pairs, configured, cipher),
        cipher=cipher,
        grants_admin=settings.iam_m2m_admin_role_enabled,
        key_pair_days=settings.iam_keypair_default_validity_days,
        trusted_keys=StoredTrustedKeys(pool),
        trust_limits=TrustLimits(
            max_keys=settings.iam_trusted_key_max_per_tenant,
            days=settings.iam_trusted_key_max_validity_days,
            max_jwk_members=settings.iam_trusted_key_max_jwk_properties,
        ),
        assertions=StoredAssertions(pool),
        providers=providers,
        live_providers=LiveProviders(providers, policy, system_clock),
        discovery=policy.discovery,
    )


async def build_authentication(settings: Settings, runtime: Runtime) -> Authentication:
    """Everything about callers; in mock mode they are all the same administrator (decision A3). Raises ``StartFailed``
    when the settings contradict what is stored.
    """
    rules = TokenRules(
        issuer=settings.jwt_issuer, audience=settings.jwt_audience, expiry_seconds=settings.jwt_expiry_seconds
    )
    match settings.iam_mode:
        case "mock":
            return _build_mock_authentication(settings, rules)
        case "jwt":
            identity = runtime.extensions.get(Administration).identity
            if identity is None:
                raise SettingsError(settings.name_variable("jwt_signing_key"), "must be set in jwt mode")
            return await _build_jwt_authentication(settings, rules, identity)
        case unknown:
            assert_never(unknown)


def _build_mock_authentication(settings: Settings, rules: TokenRules) -> Authentication:
    principal = build_mock_principal(settings.iam_mock_roles, settings.iam_mock_kind)
    authenticator = MockAuthenticator(principal)
    return Authentication(
        authenticator=authenticator,
        steps=_build_steps_authenticator(settings, authenticator),
        tokens=MockTokenEndpoint(principal, rules, system_clock),
        published_keys=None,
    )


async def _build_jwt_authentication(settings: Settings, rules: TokenRules, identity: Identity) -> Authentication:
    await _enter_bootstrap_client(settings, identity.clients)
    await _open_key_ring(settings, identity)
    await identity.live_providers.refresh()  # a token of theirs is not to be refused because the process is new
    ring = identity.key_ring.ring
    clients = ClientSecrets(identity.clients)
    trusted = identity.trusted_keys  # also those that were registered before it was switched off
    assertions = ClientAssertions(identity.clients, trusted, identity.assertions, settings.jwt_issuer)
    authenticator = JwtAuthenticator(
        TokenVerifier(ring, rules, system_clock),
        FederatedTokens(identity.live_providers, settings.oidc_roles_claim or "roles", system_clock),
        KeyFinder(identity.key_ring, identity.live_providers),
    )
    return Authentication(
        authenticator=authenticator,
        steps=_build_steps_authenticator(settings, authenticator),
        tokens=TokenEndpoint(clients, TokenIssuer(ring, rules, system_clock), trusted, system_clock, assertions),
        published_keys=lambda: ring.build_jwk_set(system_clock()),
    )


async def _enter_bootstrap_client(settings: Settings, clients: StoredClients) -> None:
    """The client of the settings is there from every start on, whatever was made of it before."""
    stored = await clients.find(settings.bootstrap_client_id)
    client = await load_bootstrap_client(settings, stored, now=system_clock())
    if client is not None and client is not stored and not await clients.enter_configured(client):
        variable = settings.name_variable("bootstrap_client_id")
        raise StartFailed(f"{variable}: {client.id} is a client that was created over the API")


async def _open_key_ring(settings: Settings, identity: Identity) -> None:
    try:
        await identity.key_ring.open()
    except Unreadable as unreadable:
        raise StartFailed(f"{settings.name_variable('encryption_key')}: {unreadable}") from None


def _build_steps_authenticator(settings: Settings, authenticator: Authenticator) -> Authenticator:
    """Who calls the step engine; its workers cannot authenticate (decision J8)."""
    if not settings.steps_open_tenant:
        return authenticator
    return AnonymousFallback(build_anonymous_principal(settings.steps_open_tenant), authenticator)
