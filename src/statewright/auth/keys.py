"""The RSA keys that sign and verify first-party tokens (docs/reference/authentication.md#access-tokens,
docs/reference/authentication.md#keys).
"""

import hashlib
from typing import Final, Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from msgspec import Struct

from statewright.auth.jws import ALGORITHM, encode_base64url
from statewright.settings import Secret, Settings, SettingsError

_MIN_KEY_BITS: Final = 2048
"""RFC 7518 §3.3: shorter RSA keys must not be used with RS256."""
_DAY_US: Final = 86_400 * 1_000_000


class UnusableKey(ValueError):
    """The text holds no RSA private key that RS256 may use; the message never holds a part of it."""


class SigningKey(Struct, frozen=True):
    """A key pair. ``valid_to`` is in microseconds since 1970: until then it signs and is published.

    Only a ``client`` key signs what the token endpoint issues; a ``human`` key verifies tokens that external tools have
    signed.
    """

    kid: str
    private: RSAPrivateKey
    audience: Literal["client", "human"]
    valid_to: int

    @property
    def public(self) -> RSAPublicKey:
        """The public key of the pair."""
        return self.private.public_key()

    def __repr__(self) -> str:
        return f"SigningKey(kid={self.kid!r})"


class Jwk(Struct, frozen=True, kw_only=True):
    """A public key as it is published (RFC 7517)."""

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
    """The signing keys of the service, without those that were invalidated."""

    def __init__(self, *keys: SigningKey) -> None:
        self._keys = keys
        self._public = {key.kid: key.public for key in keys}

    def find_verifying_key(self, kid: str) -> RSAPublicKey | None:
        """The public key with this id. A key past its validity still verifies what it has signed
        (docs/reference/authentication.md#claims-that-are-read).
        """
        return self._public.get(kid)

    def find_signing_key(self, now: int) -> SigningKey | None:
        """The ``client`` key that is valid longest; ``None`` when there is none, so that no token can be issued."""
        usable = [key for key in self._keys if key.audience == "client" and key.valid_to > now]
        return max(usable, key=lambda key: key.valid_to, default=None)

    def build_jwk_set(self, now: int) -> JwkSet:
        """The public keys to publish: those that are valid at ``now`` (microseconds since 1970)."""
        return JwkSet(tuple(_to_jwk(key) for key in self._keys if key.valid_to > now))


def load_configured_key(settings: Settings, now: int) -> SigningKey | None:
    """The key of the settings, valid from the start of the process. Raises :class:`SettingsError` if it is unusable."""
    if settings.jwt_signing_key is None:
        return None
    try:
        private = load_private_key(settings.jwt_signing_key)
    except UnusableKey as unusable:
        raise SettingsError(settings.name_variable("jwt_signing_key"), str(unusable)) from None
    valid_to = now + settings.iam_keypair_default_validity_days * _DAY_US
    return SigningKey(compute_key_id(private.public_key()), private, settings.jwt_bootstrap_audience, valid_to)


def load_private_key(pem: Secret) -> RSAPrivateKey:
    """An RSA key from PKCS#8 or PKCS#1 PEM without a password. Raises :class:`UnusableKey`."""
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # what it says could quote the key
        raise UnusableKey("the value is not an unencrypted private key in PEM") from None
    if not isinstance(key, RSAPrivateKey):
        raise UnusableKey("the value is not an RSA key")
    if key.key_size < _MIN_KEY_BITS:
        raise UnusableKey(f"the key has {key.key_size} bits; RS256 needs {_MIN_KEY_BITS}")
    return key


def compute_key_id(public: RSAPublicKey) -> str:
    """An id of 32 hex digits computed from the public key, so that it is the same on every node."""
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).digest()[:16].hex()


def _to_jwk(key: SigningKey) -> Jwk:
    numbers = key.public.public_numbers()
    return Jwk(kid=key.kid, n=_encode_unsigned(numbers.n), e=_encode_unsigned(numbers.e))


def _encode_unsigned(number: int) -> str:
    """Big-endian in as few bytes as it takes, base64url."""
    return encode_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
