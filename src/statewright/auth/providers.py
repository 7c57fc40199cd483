"""Identity providers of tenants, whose tokens count as credentials (docs/reference/oidc.md).

What is here depends on neither network nor database: what providers publish is parsed, and their tokens are verified
with the keys that somebody else has fetched (``services/auth/key_sources.py``).

The issuer that a token names says which providers it may be of. Tenants may have registered the same provider, and a
tenant may claim an issuer that is not its own; so all of these are asked whether they have signed it. Of several that
have, the one counts that has claimed issuer and audience first. Its claims make a principal
(docs/reference/oidc.md#claims).
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

from statewright.auth import keys as jws
from statewright.auth.keys import MAX_CLOCK_SKEW_S, UnusableJwk, read_jwk, to_seconds
from statewright.auth.principals import Claims, text_claim
from statewright.auth.tokens import Generations, TokenRefused, UnknownKey, VerifiedToken, find_end
from statewright.entity import Principal
from statewright.ids import Clock, TenantId

MAX_DISCOVERY_BYTES: Final = 256 * 1024
MAX_KEY_SET_BYTES: Final = 1024 * 1024
MAX_KEYS: Final = 200
"""Keys of a provider that count; those that come first."""
MAX_KID_CHARS: Final = 1024
_MAX_URI_BYTES: Final = 8192

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode  # Any: checked below


class UnusableDocument(ValueError):
    """What was fetched is no such document; the message holds nothing of it."""


class Discovery(Struct, frozen=True):
    """The two members of a discovery document that count."""

    issuer: str
    jwks_uri: str


def read_discovery(body: bytes) -> Discovery:
    """Raises :class:`UnusableDocument`."""
    document = _read_object(body, "the discovery document")
    issuer, keys = document.get("issuer"), document.get("jwks_uri")
    if not isinstance(issuer, str) or not isinstance(keys, str) or not issuer or not keys:
        raise UnusableDocument("the discovery document lacks issuer or jwks_uri")
    if "\0" in issuer + keys:  # PostgreSQL stores none
        raise UnusableDocument("issuer or jwks_uri of the discovery document has a NUL character")
    if max(len(issuer), len(keys)) > _MAX_URI_BYTES:
        raise UnusableDocument("issuer or jwks_uri of the discovery document is too long")
    return Discovery(issuer, keys)


def read_key_set(body: bytes) -> dict[str, RSAPublicKey]:
    """The keys by their ids. A large set takes a while: call it in a thread. Raises :class:`UnusableDocument`."""
    members = _read_object(body, "the key set").get("keys")
    if not isinstance(members, list):
        raise UnusableDocument("the key set has no list of keys")
    entries: list[object] = members  # pyright: ignore[reportUnknownVariableType]: decoded JSON
    found: dict[str, RSAPublicKey] = {}
    for entry in entries:
        if len(found) == MAX_KEYS:
            break
        if not isinstance(entry, dict):
            continue
        jwk: dict[str, object] = entry  # pyright: ignore[reportUnknownVariableType]: decoded JSON
        kid = jwk.get("kid")
        if not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID_CHARS or kid in found:
            continue
        try:
            found[kid] = read_jwk(jwk, kid)
        except UnusableJwk:
            continue
    return found


def _read_object(body: bytes, name: str) -> dict[str, Any]:
    try:
        return _decode(body)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise UnusableDocument(f"{name} is not a JSON object") from None


class Provider(Struct, frozen=True, kw_only=True):
    """A provider of ``tenant``. ``uri`` is that of its discovery document. Times in microseconds since 1970.

    Without ``issuers`` its tokens name the issuer of that document, which is ``discovered`` once it is on record;
    without ``audiences`` any audience. ``roles_claim`` None: the one of the settings. Keys that were fetched before
    ``keys_since`` do not count; after ``reloaded_at`` they are fetched again and count meanwhile.
    """

    id: str
    tenant: TenantId
    uri: str
    active: bool = True
    issuers: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()
    roles_claim: str | None = None
    discovered: str | None = None
    created_at: int
    keys_since: int = 0
    reloaded_at: int = 0


MAX_SUBJECT_CHARS: Final = 255
MAX_ROLES: Final = 1000
_SECOND_US: Final = 1_000_000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def find_time_problem(claims: Claims, now: int) -> str | None:
    """Why the token is not valid at ``now`` (seconds since 1970); None if it is."""
    expires, issued, begins = (to_seconds(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if expires is None:
        return "missing exp claim"
    if now > expires + MAX_CLOCK_SKEW_S:
        return "token expired"
    if begins is not None and now < begins - MAX_CLOCK_SKEW_S:
        return "token not yet valid (nbf)"
    if issued is not None and issued > now + MAX_CLOCK_SKEW_S:
        return "iat is in the future"
    return None


def find_problem(claims: Claims, provider: Provider) -> str | None:
    """Why ``provider`` does not accept a token that it has signed; None if it does.

    A token is bound to the registration of its provider: one that was issued before does not count, or a tenant that
    registers what another has given up would take over its tokens.
    """
    issued = to_seconds(claims.get("iat"))
    if issued is not None and issued < provider.created_at // _SECOND_US - MAX_CLOCK_SKEW_S:
        return "issued before the provider was registered"
    if not accepts_audience(claims, provider):
        return "wrong audience"
    if not is_subject(claims.get("sub")):
        return "no usable sub"
    return None


def accepts_audience(claims: Claims, provider: Provider) -> bool:
    """Whether a token is for an audience of the provider."""
    return not provider.audiences or not set(provider.audiences).isdisjoint(list_audiences(claims))


def is_subject(value: object) -> bool:
    """Whether the claim ``sub`` can name a user."""
    return isinstance(value, str) and 0 < len(value) <= MAX_SUBJECT_CHARS and not _CONTROL.search(value)


def list_audiences(claims: Claims) -> list[str]:
    """The audiences of a token, in their order."""
    value = claims.get("aud")
    if isinstance(value, str):
        return [value]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def build_principal(claims: Claims, provider: Provider, roles_claim: str) -> Principal:
    """The principal of a token that ``provider`` accepts; ``roles_claim`` has the roles where it names no other claim.
    Of the claims of first-party tokens none is read.
    """
    subject = str(claims["sub"])
    roles = map_roles(claims.get(provider.roles_claim or roles_claim))
    return Principal(id=f"oidc:{provider.id}:{subject}", name=subject, kind="user", tenant=provider.tenant, roles=roles)


def map_roles(value: object) -> tuple[str, ...]:
    """The roles in a claim: the texts of an array, the words of a text, the names of an object."""
    if isinstance(value, str):
        names = value.split()
    elif isinstance(value, list | dict):
        names = [name for name in value if isinstance(name, str)]
    else:
        names = []
    return tuple(name for name in names if name and "," not in name and "\0" not in name)[:MAX_ROLES]


class PublishedKeys(Protocol):
    """The keys of a provider, as they were fetched."""

    def find_key(self, kid: str, now: int) -> RSAPublicKey | None:
        """The key with this id, if it counts at ``now``: the same object as long as it is the same key."""
        ...


class KnownProvider(Struct, frozen=True, eq=False):
    """An active provider, and its keys."""

    provider: Provider
    keys: PublishedKeys


class KnownProviders(Generations, Protocol):
    """The active providers of all tenants. Another generation: a provider is another, or an issuer that it names."""

    hits: int
    misses: int

    def find_candidates(self, issuer: str) -> Sequence[KnownProvider]:
        """The providers whose tokens name ``issuer``, in the order in which they have claimed it."""
        ...


class FederatedTokens:
    """Verifies tokens of providers, which count as long as they, their keys and their providers do."""

    def __init__(self, providers: KnownProviders, roles_claim: str, clock: Clock) -> None:
        self._providers = providers
        self._roles_claim = roles_claim
        self._clock = clock

    def verify(self, token: jws.Jws) -> VerifiedToken:
        """What counts of a token. Raises ``TokenRefused``; ``UnknownKey`` when no provider has its key."""
        at = self._clock()
        problem = find_time_problem(token.claims, at // _SECOND_US)
        if problem is not None:
            raise TokenRefused(problem)
        chosen, key = self._choose(token, at)
        problem = find_problem(token.claims, chosen.provider)
        if problem is not None:
            raise TokenRefused(problem)
        return VerifiedToken(
            principal=build_principal(token.claims, chosen.provider, self._roles_claim),
            ends_at=find_end(token.claims),
            keys=self._providers,
            generation=self._providers.generation,
            recheck=partial(self._recheck, chosen.keys, token.kid, key),
        )

    def _recheck(self, keys: PublishedKeys, kid: str, key: RSAPublicKey, now: int) -> bool:
        """Whether a provider has a key still."""
        if keys.find_key(kid, now) is not key:
            return False
        self._providers.hits += 1
        return True

    def _choose(self, parsed: jws.Jws, at: int) -> tuple[KnownProvider, RSAPublicKey]:
        """The provider that has signed a token, with the key."""
        candidates = self._providers.find_candidates(text_claim(parsed.claims, "iss"))
        with_key = [(known, key) for known in candidates if (key := known.keys.find_key(parsed.kid, at)) is not None]
        if not with_key:
            self._providers.misses += 1
            raise UnknownKey(parsed, "unknown key" if candidates else "unknown key, and no provider has this iss")
        self._providers.hits += 1
        distinct = {id(key): key for _, key in with_key}  # tenants share what they have registered alike
        signers = {name for name, key in distinct.items() if jws.is_signed_by(key, parsed)}
        signed = [(known, key) for known, key in with_key if id(key) in signers]
        if not signed:
            raise TokenRefused("bad signature")
        meant = [(known, key) for known, key in signed if accepts_audience(parsed.claims, known.provider)]
        return next(iter(meant), signed[0])
