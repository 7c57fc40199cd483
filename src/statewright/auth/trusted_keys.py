"""Public keys of others, whose signatures a tenant trusts (docs/reference/authentication.md#trusted-keys)."""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from msgspec import Struct

from statewright.auth.keys import MIN_KEY_BITS, Audience
from statewright.ids import TenantId

MAX_KEY_BITS: Final = 4096
MAX_EXPONENT_BITS: Final = 64
"""A longer exponent makes every check of a signature slow; nobody uses one."""

_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

Jwk = Mapping[str, object]
"""A key as RFC 7517 writes it: decoded JSON."""


class TrustedKey(Struct, frozen=True, kw_only=True):
    """A key that ``tenant`` trusts, and how it was registered. Times in microseconds since 1970; without ``issuers``
    tokens may name any.
    """

    kid: str
    tenant: TenantId = TenantId("")
    public: RSAPublicKey
    jwk: Jwk = {}
    audience: Audience = "client"
    active: bool
    valid_from: int
    valid_to: int
    issuers: tuple[str, ...] = ()


class TrustedKeys(Protocol):
    """The trusted keys of all tenants, each visible to its own."""

    async def find(self, tenant: TenantId, kid: str) -> TrustedKey | None:
        """The key that ``tenant`` has registered under this id."""
        ...


class UnusableJwk(ValueError):
    """The object is no public RSA key that may be trusted; the message says why."""


class OtherKeyType(UnusableJwk):
    """It is a key, and not of RSA."""


def read_jwk(jwk: Jwk, kid: str) -> RSAPublicKey:
    """The key in a JWK that is registered as ``kid``. Raises :class:`UnusableJwk`."""
    kind = jwk.get("kty")
    if not isinstance(kind, str):
        raise UnusableJwk("jwk.kty is required")
    if kind != "RSA":
        raise OtherKeyType("only RSA keys are supported")
    if jwk.get("kid", kid) != kid:
        raise UnusableJwk("jwk.kid must be keyId")
    if _PRIVATE_MEMBERS & jwk.keys():
        raise UnusableJwk("jwk holds a private key, which must not be sent to anybody: make a new one")
    modulus, exponent = _read_number(jwk, "n"), _read_number(jwk, "e")
    if not MIN_KEY_BITS <= modulus.bit_length() <= MAX_KEY_BITS:
        raise UnusableJwk(f"jwk.n must have {MIN_KEY_BITS} to {MAX_KEY_BITS} bits")
    if exponent.bit_length() > MAX_EXPONENT_BITS:
        raise UnusableJwk("jwk.e is too large")
    try:
        return RSAPublicNumbers(exponent, modulus).public_key()
    except ValueError:
        raise UnusableJwk("jwk.n and jwk.e are no RSA key") from None


def _read_number(jwk: Jwk, name: str) -> int:
    """A number of RFC 7518 §2; padding is tolerated."""
    text = jwk.get(name)
    if not isinstance(text, str) or not text or len(text) > MAX_KEY_BITS:
        raise UnusableJwk(f"jwk.{name} must be a base64url text")
    try:
        bare = text.rstrip("=")
        raw = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise UnusableJwk(f"jwk.{name} must be a base64url text") from None
    return int.from_bytes(raw)
