"""Verifying tokens of identity providers (docs/reference/oidc.md#tokens).

The issuer that a token names says which providers it may be of. Tenants may have registered the same provider, and a
tenant may claim an issuer that is not its own; so all of these are asked whether they have signed it. When several
have, the audience decides, and when that does not, nobody's token is accepted rather than anybody's.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

from statewright.auth import jws
from statewright.auth.principals import text_claim
from statewright.auth.providers.claims import (
    build_principal,
    find_problem,
    find_time_problem,
    list_audiences,
)
from statewright.auth.providers.provider import Provider
from statewright.auth.tokens import TokenRefused, UnknownKey
from statewright.entity import Principal
from statewright.ids import Clock

_SECOND_US: Final = 1_000_000
_MAX_REMEMBERED: Final = 8192
_MAX_REMEMBERED_CHARS: Final = 4096


class PublishedKeys(Protocol):
    """The keys of a provider, as they were fetched."""

    def find_key(self, kid: str, now: int) -> RSAPublicKey | None:
        """The key with this id, if it counts at ``now``: the same object as long as it is the same key."""
        ...


class KnownProvider(Struct, frozen=True, eq=False):
    """An active provider, and its keys."""

    provider: Provider
    keys: PublishedKeys


class KnownProviders(Protocol):
    """The active providers of all tenants."""

    generation: int
    """Changes whenever a provider does, or an issuer that one has published."""
    hits: int
    misses: int

    def find_candidates(self, issuer: str) -> Sequence[KnownProvider]:
        """The providers whose tokens name ``issuer``."""
        ...


class _VerifiedToken(Struct, frozen=True):
    principal: Principal
    until: int
    kid: str
    key: RSAPublicKey
    keys: PublishedKeys
    generation: int


class FederatedTokens:
    """Verifies tokens of providers, and remembers them as long as they, their keys and their providers count."""

    def __init__(self, providers: KnownProviders, roles_claim: str, clock: Clock) -> None:
        self._providers = providers
        self._roles_claim = roles_claim
        self._clock = clock
        self._remembered: dict[str, _VerifiedToken] = {}

    def recall(self, token: str) -> Principal | None:
        """The principal of a token that was verified before and still counts."""
        known = self._remembered.get(token)
        if known is None:
            return None
        at = self._clock()
        is_current = known.generation == self._providers.generation and at // _SECOND_US <= known.until
        if is_current and known.keys.find_key(known.kid, at) is known.key:
            self._providers.hits += 1
            return known.principal
        del self._remembered[token]
        return None

    def verify(self, token: str, parsed: jws.Jws) -> Principal:
        """The principal of a token. Raises ``TokenRefused``; ``UnknownKey`` when no provider has its key."""
        at = self._clock()
        problem = find_time_problem(parsed.claims, at // _SECOND_US)
        if problem is not None:
            raise TokenRefused(problem)
        chosen, key = self._choose(parsed, at)
        problem = find_problem(parsed.claims, chosen.provider)
        if problem is not None:
            raise TokenRefused(problem)
        principal = build_principal(parsed.claims, chosen.provider, self._roles_claim)
        until = jws.get_expiry(parsed.claims) + jws.MAX_CLOCK_SKEW_S
        verified = _VerifiedToken(principal, until, parsed.kid, key, chosen.keys, self._providers.generation)
        self._remember(token, verified)
        return principal

    def _choose(self, parsed: jws.Jws, at: int) -> tuple[KnownProvider, RSAPublicKey]:
        """The provider that has signed a token, with the key."""
        with_key = [
            (known, key)
            for known in self._providers.find_candidates(text_claim(parsed.claims, "iss"))
            if (key := known.keys.find_key(parsed.kid, at)) is not None
        ]
        if not with_key:
            self._providers.misses += 1
            raise UnknownKey("unknown key", parsed)
        self._providers.hits += 1
        distinct = {id(key): key for _, key in with_key}  # tenants share what they have registered alike
        signers = {name for name, key in distinct.items() if jws.is_signed_by(key, parsed)}
        signed = [(known, key) for known, key in with_key if id(key) in signers]
        if not signed:
            raise TokenRefused("bad signature")
        if len(signed) == 1:
            return signed[0]
        audience = next(iter(list_audiences(parsed.claims)), "")
        meant = [(known, key) for known, key in signed if audience in known.provider.audiences]
        if len(meant) != 1:
            raise TokenRefused("ambiguous provider")
        return meant[0]

    def _remember(self, token: str, verified: _VerifiedToken) -> None:
        if len(token) > _MAX_REMEMBERED_CHARS:
            return
        if len(self._remembered) >= _MAX_REMEMBERED and token not in self._remembered:
            del self._remembered[next(iter(self._remembered))]  # the oldest
        self._remembered[token] = verified
