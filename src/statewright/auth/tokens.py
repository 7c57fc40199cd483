"""Issuing and verifying first-party access tokens (spec/auth-and-operations.md §5).

There is no registry of tokens: whatever is signed by a key of the service is judged by its claims alone, also when an
external tool minted it. A token found good is remembered until it expires, so that its next use costs a look-up.
"""

import uuid
from collections.abc import Callable
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

from statewright.auth import jws
from statewright.auth.clients import Client
from statewright.auth.keys import SigningKey
from statewright.auth.principals import Claims, principal_of, text_claim
from statewright.entity import Principal
from statewright.identity import Clock

_SECOND = 1_000_000
"""Microseconds."""
_REMEMBERED = 8192
"""Tokens; with the length below at most 32 MiB, in practice about 8 MiB."""
_LONGEST_REMEMBERED = 4096
"""Characters."""


class TokenRefused(Exception):
    """The token does not authenticate anybody. The message is for the log and holds nothing of the token."""


class UnknownKey(TokenRefused):
    """Not a first-party token: the one refusal after which another kind of validator may be asked (§13.1)."""


class VerifyingKeys(Protocol):
    """Where a verifier finds keys."""

    def verifying(self, kid: str) -> RSAPublicKey | None:
        """The active key with this id: the same object each time, as long as it is active."""
        ...


class SigningKeys(Protocol):
    """Where an issuer finds its key."""

    def signing(self, now: int) -> SigningKey | None:
        """The key to sign with at ``now``."""
        ...


class TokenRules(Struct, frozen=True, kw_only=True):
    """``iss`` of every token; ``aud`` too unless it is empty; life of issued tokens in seconds."""

    issuer: str
    audience: str
    expiry_seconds: int


class _Verified(Struct, frozen=True):
    principal: Principal
    until: int
    """Seconds since 1970: the last in which the token is good."""
    kid: str
    key: RSAPublicKey
    """Asked for again each time, so that a token never outlives the key that signed it."""


class TokenVerifier:
    """Tells whom a bearer token stands for."""

    def __init__(self, keys: VerifyingKeys, rules: TokenRules, clock: Clock) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock
        self._remembered: dict[str, _Verified] = {}

    def verify(self, token: str) -> Principal:
        """Raises :class:`TokenRefused`, or :class:`UnknownKey` when somebody else's key may have signed the token."""
        now = self._clock() // _SECOND
        known = self._remembered.get(token)
        if known is not None and now <= known.until and self._keys.verifying(known.kid) is known.key:
            return known.principal
        verified = self._verified(token, now)
        self._remember(token, verified)
        return verified.principal

    def _verified(self, token: str, now: int) -> _Verified:
        """The checks of §5.3 in their order; the first failure decides."""
        try:
            parsed = jws.parse(token)
        except jws.MalformedToken as malformed:
            raise TokenRefused(f"malformed: {malformed}") from None
        if not parsed.is_rs256:
            raise TokenRefused("unsupported algorithm")
        if not parsed.kid:
            raise TokenRefused("missing kid")
        key = self._keys.verifying(parsed.kid)
        if key is None:
            raise UnknownKey("unknown key")
        if not jws.is_signed_by(key, parsed):
            raise TokenRefused("bad signature")
        principal = self._principal(parsed.claims, now)
        return _Verified(principal, jws.expiry(parsed.claims) + jws.CLOCK_SKEW, parsed.kid, key)

    def _principal(self, claims: Claims, now: int) -> Principal:
        problem = jws.time_problem(claims, now)
        if problem is not None:
            raise TokenRefused(problem)
        if text_claim(claims, "iss") != self._rules.issuer:
            raise TokenRefused("wrong issuer")
        if self._rules.audience and not _is_meant_for(self._rules.audience, claims.get("aud")):
            raise TokenRefused("wrong audience")
        principal = principal_of(claims)
        if principal is None:
            raise TokenRefused("no user or no tenant")
        return principal

    def _remember(self, token: str, verified: _Verified) -> None:
        if len(token) > _LONGEST_REMEMBERED:
            return
        if len(self._remembered) >= _REMEMBERED and token not in self._remembered:
            del self._remembered[next(iter(self._remembered))]  # the oldest
        self._remembered[token] = verified


class TokenIssuer:
    """Signs tokens with the key that can sign now."""

    def __init__(
        self, keys: SigningKeys, rules: TokenRules, clock: Clock, new_id: Callable[[], object] = uuid.uuid4
    ) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock
        self._new_id = new_id

    @property
    def expiry_seconds(self) -> int:
        """Life of the tokens issued."""
        return self._rules.expiry_seconds

    def for_client(self, client: Client) -> str | None:
        """A token for the client itself; ``None`` when no key can sign."""
        return self._signed({
            "sub": client.id, "caas_user_id": client.user_id, "caas_org_id": client.tenant, "scopes": client.roles,
        })  # fmt: skip

    def on_behalf(self, subject: Claims, client: Client) -> str | None:
        """A token for the verified ``subject``, whom ``client`` acts for (RFC 8693); ``None`` when no key can sign."""
        return self._signed(
            {
                "sub": subject.get("sub"),
                "caas_user_id": subject.get("sub"),
                "caas_org_id": subject.get("caas_org_id"),
                "user_roles": subject.get("user_roles", subject.get("roles")),
                "act": {"sub": client.id},
            }
        )

    def _signed(self, claims: dict[str, object]) -> str | None:
        now = self._clock()
        key = self._keys.signing(now)
        if key is None:
            return None
        issued = now // _SECOND
        claims |= {"iss": self._rules.issuer, "caas_tier": "unlimited", "jti": str(self._new_id())}
        claims |= {"iat": issued, "exp": issued + self._rules.expiry_seconds}
        if self._rules.audience:
            claims["aud"] = self._rules.audience
        return jws.encode(claims, kid=key.kid, key=key.private)


def _is_meant_for(audience: str, claim: object) -> bool:
    return claim == audience or (isinstance(claim, list) and audience in claim)
