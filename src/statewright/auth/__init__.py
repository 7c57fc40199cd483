"""Who is calling: bearer tokens, the keys behind them, the clients that obtain them.

Nothing here knows HTTP, gRPC or the database. A door hands over the text of the ``Authorization`` header and gets a
principal or :class:`AuthenticationFailed`; clients and trusted keys come from stores that satisfy a small protocol.
Source: spec/auth-and-operations.md §3 to §8.
"""

from statewright.auth.authenticators import (
    AuthenticationFailed,
    Authenticator,
    JwtAuthenticator,
    MockAuthenticator,
    OpenTo,
)
from statewright.auth.clients import Client, ClientSecrets, ClientStore, FixedClients, bootstrap_client
from statewright.auth.exchange import NoTrustedKeys, TrustedKey, TrustedKeys
from statewright.auth.keys import JwkSet, KeyRing, SigningKey, configured_key
from statewright.auth.principals import mock_principal, open_principal
from statewright.auth.token_endpoint import (
    MockTokenEndpoint,
    TokenEndpoint,
    TokenReply,
    TokenRequest,
    TokenService,
)
from statewright.auth.tokens import TokenIssuer, TokenRules, TokenVerifier

__all__ = [
    "AuthenticationFailed",
    "Authenticator",
    "Client",
    "ClientSecrets",
    "ClientStore",
    "FixedClients",
    "JwkSet",
    "JwtAuthenticator",
    "KeyRing",
    "MockAuthenticator",
    "MockTokenEndpoint",
    "NoTrustedKeys",
    "OpenTo",
    "SigningKey",
    "TokenEndpoint",
    "TokenIssuer",
    "TokenReply",
    "TokenRequest",
    "TokenRules",
    "TokenService",
    "TokenVerifier",
    "TrustedKey",
    "TrustedKeys",
    "bootstrap_client",
    "configured_key",
    "mock_principal",
    "open_principal",
]
