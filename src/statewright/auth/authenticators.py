"""From an ``Authorization`` header, or gRPC metadata, to a principal (spec/auth-and-operations.md §3)."""

from typing import Literal, Protocol

from statewright.auth.tokens import TokenRefused, TokenVerifier
from statewright.entity import Principal
from statewright.failures import Unauthorized

Reason = Literal["missing-header", "invalid-format", "empty-bearer", "token-invalid"]

_SCHEME = "Bearer "


class AuthenticationFailed(Unauthorized):
    """Nobody is authenticated. ``reason`` and ``detail_for_log`` are for the log (§28.1); clients are told neither."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__()
        self.reason: Reason = reason
        self.detail_for_log = detail


class Authenticator(Protocol):
    """Both doors ask it once per request."""

    def authenticate(self, authorization: str | None) -> Principal:
        """Whom the request acts for. Raises :class:`AuthenticationFailed`."""
        ...


class MockAuthenticator:
    """Everybody is the same principal, whatever the header says."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def authenticate(self, authorization: str | None) -> Principal:
        """The mock principal."""
        del authorization
        return self._principal


class OpenTo:
    """Callers without credentials act as ``principal``; those with some are asked for by ``authenticator``.

    For workers that cannot authenticate (spec/step-engine.md §25.1, decision J8).
    """

    def __init__(self, principal: Principal, authenticator: Authenticator) -> None:
        self._principal = principal
        self._authenticator = authenticator

    def authenticate(self, authorization: str | None) -> Principal:
        """Whom the request acts for."""
        return self._authenticator.authenticate(authorization) if authorization else self._principal


class JwtAuthenticator:
    """Bearer tokens. The scheme is matched to the letter, with one blank; the rest is the token as it stands."""

    def __init__(self, tokens: TokenVerifier) -> None:
        self._tokens = tokens

    def authenticate(self, authorization: str | None) -> Principal:
        """Whom the token stands for."""
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
