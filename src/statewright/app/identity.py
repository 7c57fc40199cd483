"""Who callers are, by the mode of the settings (spec/auth-and-operations.md §3)."""

from collections.abc import Callable

from msgspec import Struct

from statewright.auth import (
    Authenticator,
    ClientSecrets,
    FixedClients,
    JwkSet,
    JwtAuthenticator,
    KeyRing,
    MockAuthenticator,
    MockTokenEndpoint,
    NoTrustedKeys,
    OpenTo,
    TokenEndpoint,
    TokenIssuer,
    TokenRules,
    TokenService,
    TokenVerifier,
    bootstrap_client,
    configured_key,
    mock_principal,
    open_principal,
)
from statewright.identity import system_clock
from statewright.settings import Settings


class Identity(Struct, frozen=True, kw_only=True):
    """How callers prove who they are. ``steps`` is for those of the step engine."""

    authenticator: Authenticator
    steps: Authenticator
    tokens: TokenService
    published_keys: Callable[[], JwkSet] | None


async def identity_of(settings: Settings) -> Identity:
    """Everything about callers; in mock mode they are all the same administrator (decision A3)."""
    rules = TokenRules(
        issuer=settings.jwt_issuer, audience=settings.jwt_audience, expiry_seconds=settings.jwt_expiry_seconds
    )
    return _mock_identity(settings, rules) if settings.iam_mode == "mock" else await _jwt_identity(settings, rules)


def _mock_identity(settings: Settings, rules: TokenRules) -> Identity:
    principal = mock_principal(settings.iam_mock_roles, settings.iam_mock_kind)
    authenticator = MockAuthenticator(principal)
    return Identity(
        authenticator=authenticator,
        steps=_steps_authenticator(settings, authenticator),
        tokens=MockTokenEndpoint(principal, rules, system_clock),
        published_keys=None,
    )


async def _jwt_identity(settings: Settings, rules: TokenRules) -> Identity:
    key = configured_key(settings, system_clock())
    ring = KeyRing(*([key] if key else []))
    client = await bootstrap_client(settings)
    clients = ClientSecrets(FixedClients(*([client] if client else [])))
    authenticator = JwtAuthenticator(TokenVerifier(ring, rules, system_clock))
    return Identity(
        authenticator=authenticator,
        steps=_steps_authenticator(settings, authenticator),
        tokens=TokenEndpoint(clients, TokenIssuer(ring, rules, system_clock), NoTrustedKeys(), system_clock),
        published_keys=lambda: ring.published(system_clock()),
    )


def _steps_authenticator(settings: Settings, authenticator: Authenticator) -> Authenticator:
    """Who calls the step engine; its workers cannot authenticate (decision J8)."""
    if not settings.steps_open_tenant:
        return authenticator
    return OpenTo(open_principal(settings.steps_open_tenant), authenticator)
