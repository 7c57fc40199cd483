"""Issuing and verifying first-party access tokens (docs/reference/authentication.md#access-tokens).

There is no registry of tokens: for a token signed by a key of the service its claims alone decide, also when an
external tool issued it.
"""

import uuid
from collections.abc import Callable
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

from statewright.auth import keys as jws
from statewright.auth.clients import Client
from statewright.auth.keys import SigningKey
from statewright.auth.principals import Claims, principal_from_claims, text_claim
from statewright.entity import Principal
from statewright.ids import Clock

_SECOND_US: Final = 1_000_000


class TokenRefused(Exception):
    """The token is not valid. The message is for the log and holds nothing of the token."""


class UnknownKey(TokenRefused):
    """Not a first-party token: the one refusal after which another kind of validator may be asked
    (docs/reference/authentication.md#claims-that-are-read). ``parsed`` is the token, nothing about it verified.
    """

    def __init__(self, parsed: jws.Jws, message: str = "unknown key") -> None:
        super().__init__(message)
        self.parsed = parsed


class Generations(Protocol):
    """What tokens are verified with."""

    generation: int
    """Changes whenever a token that was verified before may not count any more."""


class VerifyingKeys(Generations, Protocol):
    """Finds the keys that verify tokens."""

    def find_verifying_key(self, kid: str, now: int) -> RSAPublicKey | None:
        """The key with this id, if it counts at ``now`` (microseconds since 1970)."""
        ...

    def get_end(self, kid: str) -> int:
        """Until when it counts."""
        ...


class SigningKeys(Protocol):
    """Finds the key that signs tokens."""

    def find_signing_key(self, now: int) -> SigningKey | None:
        """The key to sign with at ``now`` (microseconds since 1970); ``None`` when there is none."""
        ...


class TokenRules(Struct, frozen=True, kw_only=True):
    """The claim ``iss`` of every token, ``aud`` unless it is empty, and the lifetime of issued tokens in seconds."""

    issuer: str
    audience: str
    expiry_seconds: int


class VerifiedToken(Struct, frozen=True, kw_only=True, eq=False):
    """A token that counts before ``ends_at`` (microseconds since 1970), as long as ``keys`` are of this ``generation``,
    and as ``recheck`` says so of the present, if there is one.
    """

    principal: Principal
    ends_at: int
    keys: Generations
    generation: int
    recheck: Callable[[int], bool] | None = None


def find_end(claims: Claims) -> int:
    """When a token ends by its claims, which have no time problem, in microseconds since 1970."""
    return (jws.get_expiry(claims) + jws.MAX_CLOCK_SKEW_S + 1) * _SECOND_US


class TokenVerifier:
    """Verifies bearer tokens."""

    def __init__(self, keys: VerifyingKeys, rules: TokenRules, clock: Clock) -> None:
        self._keys = keys
        self._rules = rules
        self.clock = clock

    def verify(self, token: str) -> VerifiedToken:
        """The checks of docs/reference/authentication.md#claims-that-are-read in their order; the first failure
        decides. Raises :class:`TokenRefused`; :class:`UnknownKey` when no key of ours has the key id.
        """
        at = self.clock()
        try:
            parsed = jws.parse(token)
        except jws.MalformedToken as malformed:
            raise TokenRefused(f"malformed: {malformed}") from None
        if not parsed.is_rs256:
            raise TokenRefused("unsupported algorithm")
        if not parsed.kid:
            raise TokenRefused("missing kid")
        key = self._keys.find_verifying_key(parsed.kid, at)
        if key is None:
            raise UnknownKey(parsed)
        if not jws.is_signed_by(key, parsed):
            raise TokenRefused("bad signature")
        principal = self._verify_claims(parsed.claims, at // _SECOND_US)
        ends_at = min(find_end(parsed.claims), self._keys.get_end(parsed.kid))
        return VerifiedToken(principal=principal, ends_at=ends_at, keys=self._keys, generation=self._keys.generation)

    def _verify_claims(self, claims: Claims, now: int) -> Principal:
        problem = jws.find_time_problem(claims, now)
        if problem is not None:
            raise TokenRefused(problem)
        if text_claim(claims, "iss") != self._rules.issuer:
            raise TokenRefused("wrong issuer")
        if self._rules.audience and not jws.is_meant_for(self._rules.audience, claims.get("aud")):
            raise TokenRefused("wrong audience")
        principal = principal_from_claims(claims)
        if principal is None:
            raise TokenRefused("no user or no tenant")
        return principal


class TokenIssuer:
    """Issues tokens, signed with the key whose validity began last."""

    def __init__(
        self, keys: SigningKeys, rules: TokenRules, clock: Clock, new_id: Callable[[], object] = uuid.uuid4
    ) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock
        self._new_id = new_id

    @property
    def expiry_seconds(self) -> int:
        """Lifetime of issued tokens."""
        return self._rules.expiry_seconds

    def issue_for_client(self, client: Client) -> str | None:
        """A token for the client itself; ``None`` when no key can sign."""
        return self._sign({
            "sub": client.id, "caas_user_id": client.user_id, "caas_org_id": client.tenant, "scopes": client.roles,
        })  # fmt: skip

    def issue_on_behalf(self, subject: Claims, client: Client) -> str | None:
        """A token for the verified ``subject``, whom ``client`` acts for (RFC 8693); ``None`` when no key can sign."""
        return self._sign(
            {
                "sub": subject.get("sub"),
                "caas_user_id": subject.get("sub"),
                "caas_org_id": subject.get("caas_org_id"),
                "user_roles": subject.get("user_roles", subject.get("roles")),
                "act": {"sub": client.id},
            }
        )

    def _sign(self, claims: dict[str, object]) -> str | None:
        now = self._clock()
        key = self._keys.find_signing_key(now)
        if key is None or key.private is None:
            return None
        issued = now // _SECOND_US
        claims |= {"iss": self._rules.issuer, "caas_tier": "unlimited", "jti": str(self._new_id())}
        claims |= {"iat": issued, "exp": issued + self._rules.expiry_seconds}
        if self._rules.audience:
            claims["aud"] = self._rules.audience
        return jws.encode(claims, kid=key.kid, key=key.private)
