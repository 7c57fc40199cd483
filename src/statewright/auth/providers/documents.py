"""What providers publish: their discovery document and their keys (docs/reference/oidc.md#what-is-fetched).

Both come from servers of strangers. Members that nobody needs are ignored, and so are keys that cannot verify RS256;
one bad key does not spoil the others.

Identity providers as tenants have registered them (docs/reference/oidc.md#providers).
"""

from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from msgspec import Struct

from statewright.auth.trusted_keys import UnusableJwk, read_jwk
from statewright.ids import TenantId

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
