"""From an ``Authorization`` header, or gRPC metadata, to a principal (docs/reference/authentication.md#modes).

To add a way to authenticate, add an :class:`Authenticator` here, and a mode to the settings and to
``app/authentication.py``; the interfaces know the protocol only.
"""

from typing import Final, Literal, Protocol

from statewright.auth.principals import text_claim
from statewright.auth.providers import FederatedTokens
from statewright.auth.tokens import TokenRefused, TokenVerifier, UnknownKey, VerifiedToken
from statewright.entity import Principal
from statewright.failures import Unauthorized

Reason = Literal["missing-header", "invalid-format", "empty-bearer", "token-invalid"]

_SCHEME: Final = "Bearer "
_MAX_REMEMBERED: Final = 16_384
"""Verified tokens that are remembered; with the length below at most 64 MiB, in practice about 16 MiB."""
_MAX_REMEMBERED_CHARS: Final = 4096
"""Characters of a header that is remembered; longer ones are verified each time."""


class AuthenticationFailed(Unauthorized):
    """The request is not authenticated. ``reason`` and ``detail_for_log`` are for the log
    (docs/reference/service.md#logs); clients are told neither.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__()
        self.reason: Reason = reason
        self.detail_for_log = detail


class KeyNotKnownYet(AuthenticationFailed):
    """No key is known here that the token could be signed with. Another node, or an identity provider, may have one:
    ``authenticate_later`` of the authenticator asks them, and decides.
    """


class Authenticator(Protocol):
    """Authenticates requests, of HTTP as of gRPC."""

    def authenticate(self, authorization: str | None) -> Principal:
        """The principal of the request with this header (None: absent). Raises :class:`AuthenticationFailed`, and
        :class:`KeyNotKnownYet` where that is not the last word.
        """
        ...

    async def authenticate_later(self, authorization: str | None) -> Principal:
        """The same for a request whose key was not known yet. Raises :class:`AuthenticationFailed`."""
        ...


class LateKeys(Protocol):
    """Looks for keys that this process does not know yet."""

    def may_find(self, kid: str, issuer: str) -> bool:
        """Whether it is worth while to look for the key of a token with these claims."""
        ...

    async def look_for(self, kid: str, issuer: str) -> None:
        """Learn what there is to be learnt of it. It raises nothing, and takes some seconds at most."""
        ...


class MockAuthenticator:
    """Every request has the same principal, whatever its header says."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal

    def authenticate(self, authorization: str | None) -> Principal:
        """The mock principal."""
        del authorization
        return self._principal

    async def authenticate_later(self, authorization: str | None) -> Principal:
        """The mock principal."""
        return self.authenticate(authorization)


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

    async def authenticate_later(self, authorization: str | None) -> Principal:
        """The principal of the request. Raises :class:`AuthenticationFailed`."""
        return await self._authenticator.authenticate_later(authorization) if authorization else self._principal


class JwtAuthenticator:
    """Authenticates by bearer tokens: first-party ones, else those of identity providers (``federated``). The scheme is
    matched to the letter, with one blank; the rest is the token.

    Only for tokens whose key id is unknown to the one the other is asked; every other refusal is final.

    A verified token is remembered until it ends: its next use costs a look-up.
    """

    def __init__(
        self, tokens: TokenVerifier, federated: FederatedTokens | None = None, late_keys: LateKeys | None = None
    ) -> None:
        self._tokens = tokens
        self._federated = federated
        self._late_keys = late_keys
        self._clock = tokens.clock
        self._remembered: dict[str, VerifiedToken] = {}
        """By the header."""

    def authenticate(self, authorization: str | None) -> Principal:
        """The principal of the token. Raises :class:`AuthenticationFailed`."""
        known = self._remembered.get(authorization or "")
        if (
            known is not None
            and known.generation == known.keys.generation
            and (now := self._clock()) < known.ends_at
            and (known.recheck is None or known.recheck(now))
        ):
            return known.principal
        try:
            return self._verify(authorization)
        except UnknownKey as unknown:
            late = self._late_keys
            if late is not None and late.may_find(unknown.parsed.kid, text_claim(unknown.parsed.claims, "iss")):
                raise KeyNotKnownYet("token-invalid", str(unknown)) from None
            raise AuthenticationFailed("token-invalid", str(unknown)) from None
        except TokenRefused as refused:
            raise AuthenticationFailed("token-invalid", str(refused)) from None

    async def authenticate_later(self, authorization: str | None) -> Principal:
        """The principal of a token, after its key was looked for elsewhere. Raises :class:`AuthenticationFailed`."""
        try:
            try:
                return self._verify(authorization)
            except UnknownKey as unknown:
                if self._late_keys is None:
                    raise
                await self._late_keys.look_for(unknown.parsed.kid, text_claim(unknown.parsed.claims, "iss"))
            return self._verify(authorization)
        except TokenRefused as refused:
            raise AuthenticationFailed("token-invalid", str(refused)) from None

    def _verify(self, authorization: str | None) -> Principal:
        """The principal of a header that is not remembered. Raises ``AuthenticationFailed``, ``TokenRefused``."""
        token = _read_bearer(authorization)
        try:
            verified = self._tokens.verify(token)
        except UnknownKey as unknown:
            if self._federated is None:
                raise
            verified = self._federated.verify(unknown.parsed)
        header = f"{_SCHEME}{token}"
        self._remembered.pop(header, None)
        if len(header) <= _MAX_REMEMBERED_CHARS:
            if len(self._remembered) >= _MAX_REMEMBERED:
                del self._remembered[next(iter(self._remembered))]  # the oldest
            self._remembered[header] = verified
        return verified.principal


def _read_bearer(authorization: str | None) -> str:
    if not authorization:
        raise AuthenticationFailed("missing-header")
    if authorization.rstrip() == _SCHEME.rstrip():  # white space at its end is gone when a header arrives
        raise AuthenticationFailed("empty-bearer")
    if not authorization.startswith(_SCHEME):
        raise AuthenticationFailed("invalid-format")
    return authorization[len(_SCHEME) :]
