"""From an ``Authorization`` header, or gRPC metadata, to a principal (docs/reference/authentication.md#modes).

To add a way to authenticate, add an :class:`Authenticator` here, and a mode to the settings and to
``app/authentication.py``; the interfaces know the protocol only.
"""

from typing import Final, Literal, Protocol

from statewright.auth.tokens import TokenRefused, TokenVerifier
from statewright.entity import Principal
from statewright.failures import Unauthorized

Reason = Literal["missing-header", "invalid-format", "empty-bearer", "token-invalid"]

_SCHEME: Final = "Bearer "


class AuthenticationFailed(Unauthorized):
    """The request is not authenticated. ``reason`` and ``detail_for_log`` are for the log
    (docs/reference/service.md#logs); clients are told neither.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__()
        self.reason: Reason = reason
        self.detail_for_log = detail


class Authenticator(Protocol):
    """Authenticates requests, of HTTP as of gRPC."""

    def authenticate(self, authorization: str | None) -> Principal:
        """The principal of the request with this header (None: absent). Raises :class:`AuthenticationFailed`."""
        ...


class MockAuthenticator:
    """Every request has the same principal, whatever its header says."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def authenticate(self, authorization: str | None) -> Principal:
        """The mock principal."""
        del authorization
        return self._principal


class AnonymousFallback:
    """Requests without credentials act as ``principal``; ``authenticator`` decides on all others.

    For workers that cannot authenticate (docs/reference/steps.md#who-may-call, decision J8).
    """

    def __init__(self, principal: Principal, authenticator: Authenticator) -> None:
        self._principal = principal
        self._authenticator = authenticator

    def authenticate(self, authorization: str | None) -> Principal:
        """The principal of the request. Raises :class:`AuthenticationFailed`."""
        return self._authenticator.authenticate(authorization) if authorization else self._principal


class JwtAuthenticator:
    """Authenticates by bearer tokens. The scheme is matched to the letter, with one blank; the rest is the token."""

    def __init__(self, tokens: TokenVerifier) -> None:
        self._tokens = tokens

    def authenticate(self, authorization: str | None) -> Principal:
        """The principal of the token. Raises :class:`AuthenticationFailed`."""
        if not authorization:
            raise AuthenticationFailed("missing-header")
        if not authorization.startswith(_SCHEME):
            raise AuthenticationFailed("invalid-format")
        token = authorization[len(_SCHEME) :]
        if not token:
            raise AuthenticationFailed("empty-bearer")
        try:
            return self._tokens.verify(token)
        except TokenRefused as refused:
            raise AuthenticationFailed("token-invalid", str(refused)) from None
