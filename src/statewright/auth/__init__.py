"""Authentication: bearer tokens, the keys that sign them, the clients that obtain them
(docs/reference/authentication.md).

This package depends on neither HTTP, gRPC nor the database. A server passes the text of the ``Authorization`` header
and gets a principal or :class:`AuthenticationFailed`; clients and trusted keys come from stores that satisfy a small
protocol.
"""

from statewright.auth.assertions import ClientAssertions
from statewright.auth.authenticators import (
    AnonymousFallback,
    AuthenticationFailed,
    Authenticator,
    JwtAuthenticator,
    KeyNotKnownYet,
    MockAuthenticator,
)
from statewright.auth.clients import Client, ClientSecrets, load_bootstrap_client
from statewright.auth.keys import JwkSet, KeyRing, SigningKey, TrustedKey, TrustedKeys, load_configured_key
from statewright.auth.principals import build_anonymous_principal, build_mock_principal
from statewright.auth.token_endpoint import (
    MockTokenEndpoint,
    TokenEndpoint,
    TokenRequest,
    TokenService,
)
from statewright.auth.tokens import TokenIssuer, TokenRules, TokenVerifier

__all__ = [
    "AnonymousFallback",
    "AuthenticationFailed",
    "Authenticator",
    "Client",
    "ClientAssertions",
    "ClientSecrets",
    "JwkSet",
    "JwtAuthenticator",
    "KeyNotKnownYet",
    "KeyRing",
    "MockAuthenticator",
    "MockTokenEndpoint",
    "SigningKey",
    "TokenEndpoint",
    "TokenIssuer",
    "TokenRequest",
    "TokenRules",
    "TokenService",
    "TokenVerifier",
    "TrustedKey",
    "TrustedKeys",
    "build_anonymous_principal",
    "build_mock_principal",
    "load_bootstrap_client",
    "load_configured_key",
]
