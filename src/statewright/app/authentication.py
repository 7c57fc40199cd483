"""Who clients are, by the mode of the settings (docs/reference/authentication.md#modes), and how requests to other
servers are sent (docs/reference/egress.md).
"""

from collections.abc import Callable
from typing import Final, assert_never

from msgspec import Struct, structs

from statewright.app.database import StartFailed
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
from statewright.auth.keys import Unreadable, build_cipher
from statewright.auth.providers import MAX_KEY_SET_BYTES, FederatedTokens
from statewright.egress import Egress, EgressLimits, EgressPolicy
from statewright.ids import TenantId, system_clock
from statewright.services.auth.clients import Administration, Identity, TrustLimits
from statewright.services.auth.key_ring import LiveKeyRing
from statewright.services.auth.key_sources import KEY_SET_TIMEOUT_S, FetchPolicy
from statewright.services.auth.live_providers import KeyFinder, LiveProviders
from statewright.services.runtime import Runtime
from statewright.settings import Settings, SettingsError
from statewright.storage.auth.clients import StoredAssertions, StoredClients
from statewright.storage.auth.keys import StoredKeyPairs, StoredTrustedKeys
from statewright.storage.auth.providers import StoredProviders
from statewright.storage.pool import Pool


def build_egress_policy(settings: Settings) -> EgressPolicy:
    """Where the settings permit requests to go."""
    return EgressPolicy(
        networks=settings.egress_networks,
        hosts=settings.egress_hosts,
        ports=settings.egress_ports,
        requires_https=settings.egress_require_https,
        certificates=settings.egress_ca,
        limits=EgressLimits(
            timeout_s=settings.egress_timeout.total_seconds(),
            max_body_bytes=settings.egress_max_body_bytes,
            max_requests=settings.egress_max_requests,
            max_tenant_requests=settings.egress_max_tenant_requests,
            max_tenant_waiting=settings.egress_max_tenant_requests,
        ),
    )


def build_provider_policy(settings: Settings) -> FetchPolicy:
    """How identity providers are asked for what they publish."""
    times = (
        settings.oidc_connect_timeout_ms,
        settings.oidc_socket_timeout_ms,
        settings.oidc_connection_request_timeout_ms,
    )
    policy = build_egress_policy(settings)
    limits = structs.replace(
        policy.limits,
        timeout_s=max(sum(times) / 1000, KEY_SET_TIMEOUT_S),
        connect_timeout_s=times[0] / 1000,
        read_timeout_s=times[1] / 1000,
        max_body_bytes=MAX_KEY_SET_BYTES,
    )
    policy = structs.replace(
        policy,
        is_open=settings.oidc_allow_private_networks,
        requires_https=settings.oidc_require_https or settings.egress_require_https,
        limits=limits,
    )
    return FetchPolicy(
        discovery=Egress(policy),
        key_sets=Egress(structs.replace(policy, min_tls="1.3")),
        timeout_s=sum(times) / 1000,
        grace=settings.oidc_key_grace,
    )


def build_egress(settings: Settings) -> Egress:
    """What sends the requests of process languages (``Processes.egress``)."""
    return Egress(build_egress_policy(settings))


WEBHOOK_PORTS: Final = ((443, 443), (1024, 65535))


def build_webhook_egress(settings: Settings) -> Egress:
    """What sends webhooks, within what all requests are permitted, but for networks that are not public: those have a
    setting of their own. How many wait is limited by the subscriptions; half of those under way are a tenant's at most.
    """
    allows_http = settings.webhook_allow_http
    ports = ((80, 80), *WEBHOOK_PORTS) if allows_http else WEBHOOK_PORTS
    within = [(max(low, first), min(high, last)) for low, high in ports for first, last in settings.egress_ports]
    return Egress(
        EgressPolicy(
            is_open=settings.webhook_allow_private_networks,
            hosts=settings.egress_hosts,
            ports=tuple((low, high) for low, high in within if low <= high),
            requires_https=not allows_http or settings.egress_require_https,
            certificates=settings.egress_ca,
            limits=EgressLimits(timeout_s=15.0, max_requests=256, max_tenant_requests=128, max_tenant_waiting=1600),
        )
    )


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
        clock=system_clock,
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
            identity = runtime.identity.identity
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
