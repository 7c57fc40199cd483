"""The RSA keys that sign and verify first-party tokens (spec/auth-and-operations.md §5.1, §7, §10)."""

import hashlib
from typing import Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from msgspec import Struct

from statewright.auth.jws import ALGORITHM, base64url
from statewright.settings import Secret, Settings, SettingsError

_MINIMUM_BITS = 2048
"""RFC 7518 §3.3: shorter RSA keys must not be used with RS256."""
_DAY = 86_400 * 1_000_000
"""Microseconds."""


class UnusableKey(ValueError):
    """The text holds no RSA private key that RS256 may use; the message never holds a part of it."""


class SigningKey(Struct, frozen=True):
    """A key pair. ``valid_to`` is in microseconds since 1970: until then it signs and is published.

    Only a ``client`` key signs what the token endpoint issues; a ``human`` key verifies tokens minted elsewhere.
    """

    kid: str
    private: RSAPrivateKey
    audience: Literal["client", "human"]
    valid_to: int

    @property
    def public(self) -> RSAPublicKey:
        """The half that everybody may know."""
        return self.private.public_key()

    def __repr__(self) -> str:
        return f"SigningKey(kid={self.kid!r})"


class Jwk(Struct, frozen=True, kw_only=True):
    """A public key as the world sees it (RFC 7517)."""

    kty: str = "RSA"
    kid: str
    use: str = "sig"
    alg: str = ALGORITHM
    n: str
    e: str


class JwkSet(Struct, frozen=True):
    """The document of ``/.well-known/jwks.json``."""

    keys: tuple[Jwk, ...]


class KeyRing:
    """All signing keys of the service that were not invalidated."""

    def __init__(self, *keys: SigningKey) -> None:
        self._keys = keys
        self._public = {key.kid: key.public for key in keys}

    def verifying(self, kid: str) -> RSAPublicKey | None:
        """The public key with this id. A key past its validity still verifies what it has signed (§5.3)."""
        return self._public.get(kid)

    def signing(self, now: int) -> SigningKey | None:
        """The ``client`` key that is valid longest; ``None`` when no token can be issued."""
        usable = [key for key in self._keys if key.audience == "client" and key.valid_to > now]
        return max(usable, key=lambda key: key.valid_to, default=None)

    def published(self, now: int) -> JwkSet:
        """The keys whose tokens others may meet."""
        return JwkSet(tuple(_jwk(key) for key in self._keys if key.valid_to > now))


def configured_key(settings: Settings, now: int) -> SigningKey | None:
    """The key of the settings, valid from the start of the process. Raises :class:`SettingsError` if it is unusable."""
    if settings.jwt_signing_key is None:
        return None
    try:
        private = load_private_key(settings.jwt_signing_key)
    except UnusableKey as unusable:
        raise SettingsError(settings.variable("jwt_signing_key"), str(unusable)) from None
    valid_to = now + settings.iam_keypair_default_validity_days * _DAY
    return SigningKey(key_id(private.public_key()), private, settings.jwt_bootstrap_audience, valid_to)


def load_private_key(pem: Secret) -> RSAPrivateKey:
    """An RSA key from PKCS#8 or PKCS#1 PEM without a password. Raises :class:`UnusableKey`."""
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # what it says could quote the key
        raise UnusableKey("the value is not an unencrypted private key in PEM") from None
    if not isinstance(key, RSAPrivateKey):
        raise UnusableKey("the value is not an RSA key")
    if key.key_size < _MINIMUM_BITS:
        raise UnusableKey(f"the key has {key.key_size} bits; RS256 needs {_MINIMUM_BITS}")
    return key


def key_id(public: RSAPublicKey) -> str:
    """32 hex digits that anybody who holds the key can compute, the same on every node."""
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).digest()[:16].hex()


def _jwk(key: SigningKey) -> Jwk:
    numbers = key.public.public_numbers()
    return Jwk(kid=key.kid, n=_unsigned(numbers.n), e=_unsigned(numbers.e))


def _unsigned(number: int) -> str:
    """Big-endian in as few bytes as it takes, base64url."""
    return base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
