"""Who callers are, by the mode of the settings (docs/reference/authentication.md#modes)."""

from collections.abc import Callable
from typing import assert_never

from msgspec import Struct

from statewright.auth import (
    AnonymousFallback,
    Authenticator,
    ClientSecrets,
    FixedClients,
    JwkSet,
    JwtAuthenticator,
    KeyRing,
    MockAuthenticator,
    MockTokenEndpoint,
    NoTrustedKeys,
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
from statewright.ids import system_clock
from statewright.settings import Settings


class Authentication(Struct, frozen=True, kw_only=True):
    """How callers prove who they are. ``steps`` is for those of the step engine."""

    authenticator: Authenticator
    steps: Authenticator
    tokens: TokenService
    published_keys: Callable[[], JwkSet] | None


async def build_authentication(settings: Settings) -> Authentication:
    """Everything about callers; in mock mode they are all the same administrator (decision A3)."""
    rules = TokenRules(
        issuer=settings.jwt_issuer, audience=settings.jwt_audience, expiry_seconds=settings.jwt_expiry_seconds
    )
    match settings.iam_mode:
        case "mock":
            return _build_mock_authentication(settings, rules)
        case "jwt":
            return await _build_jwt_authentication(settings, rules)
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


async def _build_jwt_authentication(settings: Settings, rules: TokenRules) -> Authentication:
    key = load_configured_key(settings, system_clock())
    ring = KeyRing(*([key] if key else []))
    client = await load_bootstrap_client(settings)
    clients = ClientSecrets(FixedClients(*([client] if client else [])))
    authenticator = JwtAuthenticator(TokenVerifier(ring, rules, system_clock))
    return Authentication(
        authenticator=authenticator,
        steps=_build_steps_authenticator(settings, authenticator),
        tokens=TokenEndpoint(clients, TokenIssuer(ring, rules, system_clock), NoTrustedKeys(), system_clock),
        published_keys=lambda: ring.build_jwk_set(system_clock()),
    )


def _build_steps_authenticator(settings: Settings, authenticator: Authenticator) -> Authenticator:
    """Who calls the step engine; its workers cannot authenticate (decision J8)."""
    if not settings.steps_open_tenant:
        return authenticator
    return AnonymousFallback(build_anonymous_principal(settings.steps_open_tenant), authenticator)
