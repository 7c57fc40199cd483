"""The RSA keys that sign and verify first-party tokens (docs/reference/authentication.md#access-tokens,
docs/reference/authentication.md#keys).
"""

import hashlib
import secrets
from collections.abc import Iterable
from typing import Final, Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
)
from msgspec import Struct

from statewright.auth.jws import ALGORITHM, MAX_CLOCK_SKEW_S, encode_base64url
from statewright.settings import Secret, Settings, SettingsError

MIN_KEY_BITS: Final = 2048
"""RFC 7518 §3.3: shorter RSA keys must not be used with RS256."""
DAY_US: Final = 86_400 * 1_000_000
_SECOND_US: Final = 1_000_000
_NEVER_US: Final = 1 << 63

Audience = Literal["client", "human"]
"""What a key is for: tokens that this service issues to clients, or those of external tools."""


class UnusableKey(ValueError):
    """The text holds no RSA private key that RS256 may use; the message never holds a part of it."""


class SigningKey(Struct, frozen=True, kw_only=True):
    """A key pair. Times in microseconds since 1970: between them it signs, until the last it is published.

    Only a ``client`` key signs what the token endpoint issues; a ``human`` key verifies tokens that external tools have
    signed. One that is not active signs no more, and verifies as long as it is valid. Without ``private``, which is
    not to be had, it verifies only. ``is_unlimited``: it is the key of the settings, and nobody has said when it ends;
    what it has signed counts until then.
    """

    kid: str
    public: RSAPublicKey
    private: RSAPrivateKey | None
    audience: Audience
    active: bool = True
    valid_from: int = 0
    valid_to: int
    is_unlimited: bool = False

    @property
    def verifying_window(self) -> tuple[int, int]:
        """From when on, and until when, a token that the key has signed counts. Clocks of nodes may differ by as much
        as those of issuers.
        """
        if self.is_unlimited:
            return 0, _NEVER_US
        return self.valid_from - MAX_CLOCK_SKEW_S * _SECOND_US, self.valid_to

    def signs_at(self, now: int) -> bool:
        """Whether the token endpoint may sign with the key at ``now``."""
        usable = self.active and self.private is not None and self.audience == "client"
        return usable and self.valid_from <= now < self.valid_to

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
    """The signing keys of the service as this process knows them."""

    def __init__(self, *keys: SigningKey) -> None:
        self.replace_all(keys)

    def replace_all(self, keys: Iterable[SigningKey]) -> None:
        """From now on there are exactly these keys. A public key that stays is to be the same object as before: tokens
        are remembered with theirs.
        """
        self._keys = {key.kid: key for key in keys}
        # What every request with a token looks at.
        self._verifying = {kid: (key.public, *key.verifying_window) for kid, key in self._keys.items()}

    def find_verifying_key(self, kid: str, now: int) -> RSAPublicKey | None:
        """The public key with this id, if what it has signed counts at ``now``."""
        known = self._verifying.get(kid)
        if known is None:
            return None
        public, begins, ends = known
        return public if begins <= now < ends else None

    def find_signing_key(self, now: int) -> SigningKey | None:
        """The key whose validity began last, of those that may sign; ``None`` when there is none, so that no token can
        be issued.
        """
        usable = [key for key in self._keys.values() if key.signs_at(now)]
        return max(usable, key=lambda key: key.valid_from, default=None)

    def build_jwk_set(self, now: int) -> JwkSet:
        """The public keys to publish: those that are valid at ``now`` (microseconds since 1970)."""
        return JwkSet(tuple(_to_jwk(key) for key in self._keys.values() if key.valid_to > now))


def load_configured_key(settings: Settings, now: int) -> SigningKey | None:
    """The key of the settings, valid from the start of the process. Raises :class:`SettingsError` if it is unusable."""
    if settings.jwt_signing_key is None:
        return None
    try:
        private = load_private_key(settings.jwt_signing_key)
    except UnusableKey as unusable:
        raise SettingsError(settings.name_variable("jwt_signing_key"), str(unusable)) from None
    public = private.public_key()
    return SigningKey(
        kid=compute_key_id(public),
        public=public,
        private=private,
        audience=settings.jwt_bootstrap_audience,
        valid_from=now,
        valid_to=now + settings.iam_keypair_default_validity_days * DAY_US,
        is_unlimited=True,
    )


def load_private_key(pem: Secret) -> RSAPrivateKey:
    """An RSA key from PKCS#8 or PKCS#1 PEM without a password. Raises :class:`UnusableKey`."""
    try:
        key = load_pem_private_key(pem.reveal().encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # what it says could quote the key
        raise UnusableKey("the value is not an unencrypted private key in PEM") from None
    if not isinstance(key, RSAPrivateKey):
        raise UnusableKey("the value is not an RSA key")
    if key.key_size < MIN_KEY_BITS:
        raise UnusableKey(f"the key has {key.key_size} bits; RS256 needs {MIN_KEY_BITS}")
    return key


def read_audience(text: str | None) -> Audience | None:
    """The audience of that name, if there is one."""
    match text:
        case "client" | "human":
            return text
        case _:
            return None


def compute_key_id(public: RSAPublicKey) -> str:
    """An id of 32 hex digits computed from the public key, so that it is the same on every node."""
    return hashlib.sha256(encode_public_key(public)).digest()[:16].hex()


def encode_public_key(public: RSAPublicKey) -> bytes:
    """The key as DER, SubjectPublicKeyInfo."""
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def decode_public_key(der: bytes) -> RSAPublicKey:
    """The key of :func:`encode_public_key`."""
    key = load_der_public_key(der)
    assert isinstance(key, RSAPublicKey)  # noqa: S101 - no other was encoded
    return key


def make_private_key() -> RSAPrivateKey:
    """A new key. Takes a tenth of a second or more: call it in a thread."""
    return generate_private_key(public_exponent=65537, key_size=MIN_KEY_BITS)


def encode_private_key(key: RSAPrivateKey) -> bytes:
    """The key as DER, PKCS#8, to be encrypted."""
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def decode_private_key(der: bytes) -> RSAPrivateKey:
    """The key of :func:`encode_private_key`. It is not checked again: whoever could change it would need the key that
    it was encrypted with.
    """
    key = load_der_private_key(der, password=None, unsafe_skip_rsa_key_validation=True)
    assert isinstance(key, RSAPrivateKey)  # noqa: S101 - no other was encoded
    return key


def make_key_id() -> str:
    """The id of a key that was not configured: 128 random bits in hex."""
    return secrets.token_hex(16)


def _to_jwk(key: SigningKey) -> Jwk:
    numbers = key.public.public_numbers()
    return Jwk(kid=key.kid, n=_encode_unsigned(numbers.n), e=_encode_unsigned(numbers.e))


def _encode_unsigned(number: int) -> str:
    """Big-endian in as few bytes as it takes, base64url."""
    return encode_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
