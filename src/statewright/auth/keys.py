"""The RSA keys that sign and verify tokens: what they are, how they are stored, and how tokens are read with them
(docs/reference/authentication.md#keys, docs/reference/authentication.md#access-tokens).

*At rest* (decision A4). Private keys are encrypted under keys that only the environment of the service has. The first
key encrypts, all of them decrypt: to change it, put a new one in front. Encryption is Fernet's, which also finds out
about every change of what was stored. Without keys of their own, private keys are encrypted under one that is derived
from the configured signing key, which is a secret of the same environment and of the same worth. Short secrets, at
rest and in cookies, are encrypted by AES-GCM under a key that is derived from a secret of the service.

*Signed tokens* have the compact form, RS256 only (RFC 7515, RFC 7519). Parsing and verifying are separate steps here,
because the order of the checks is part of the contract: an unknown key must be told from a bad signature, and a
malformed token from an unsupported algorithm. JWT libraries do both in one call, in an order of their own, or skip
characters that are no base64 (docs/adr/0022). The cryptography is that of ``cryptography``.

*Trusted keys* are public keys of others, whose signatures a tenant trusts
(docs/reference/authentication.md#trusted-keys).
"""

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    RSAPublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
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

from statewright.auth.principals import Claims, text_claim
from statewright.ids import TenantId
from statewright.settings import Secret, Settings, SettingsError, split_encryption_keys

ALGORITHM: Final = "RS256"
MAX_CLOCK_SKEW_S: Final = 30
"""Seconds by which the clocks of issuer and verifier may differ."""

_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: handed out as `object` only
_PADDING: Final = PKCS1v15()
_HASH: Final = SHA256()


class MalformedToken(ValueError):
    """Not three base64url parts of which the first two are JSON objects."""


class Jws(Struct, frozen=True):
    """A parsed token, nothing about it verified."""

    header: Claims
    claims: Claims
    signed: bytes
    signature: bytes

    @property
    def is_rs256(self) -> bool:
        """Whether the algorithm is the only one accepted. ``none`` and the HMAC family must never get further."""
        return self.header.get("alg") == ALGORITHM

    @property
    def kid(self) -> str:
        """The key id; empty when there is none."""
        return text_claim(self.header, "kid")


def parse(token: str) -> Jws:
    """The parts of a token. Raises :class:`MalformedToken`, whose text says which part is wrong and holds nothing of
    it.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise MalformedToken("not three parts")
    header, claims = _decode_object(parts[0], "header"), _decode_object(parts[1], "claims")
    if "crit" in header:
        raise MalformedToken("critical extensions are not understood")  # RFC 7515 §4.1.11
    return Jws(header, claims, f"{parts[0]}.{parts[1]}".encode(), _decode_base64url(parts[2], "signature"))


def is_signed_by(key: RSAPublicKey, jws: Jws) -> bool:
    """Whether the signature is that of ``key``."""
    try:
        key.verify(jws.signature, jws.signed, _PADDING, _HASH)
    except InvalidSignature:
        return False
    return True


def encode(claims: Claims, *, kid: str, key: RSAPrivateKey) -> str:
    """A token with these claims, signed with ``key``."""
    signed = encode_unsigned({"alg": ALGORITHM, "kid": kid, "typ": "JWT"}, claims)
    return f"{signed}.{encode_base64url(key.sign(signed.encode(), _PADDING, _HASH))}"


def encode_unsigned(header: Claims, claims: Claims) -> str:
    """The first two parts of a token: what is signed."""
    return f"{encode_base64url(msgspec.json.encode(header))}.{encode_base64url(msgspec.json.encode(claims))}"


def encode_base64url(raw: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def find_time_problem(claims: Claims, now: int) -> str | None:
    """Why the token is not valid at ``now`` (seconds since 1970), in the phrases of
    docs/reference/authentication.md#token-exchange; ``None`` if it is.
    """
    expires, issued, begins = (to_seconds(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if expires is None:
        return "missing exp claim"
    if now > expires + MAX_CLOCK_SKEW_S:
        return "token expired"
    if issued is None:
        return "missing iat claim"
    if issued > now + MAX_CLOCK_SKEW_S:
        return "iat is in the future"
    if begins is not None and now < begins - MAX_CLOCK_SKEW_S:
        return "token not yet valid (nbf)"
    return None


def get_expiry(claims: Claims) -> int:
    """``exp`` in seconds since 1970, of claims that have no time problem."""
    return to_seconds(claims.get("exp")) or 0


def is_meant_for(audience: str, claim: object) -> bool:
    """Whether the claim ``aud`` is ``audience``, or a list that contains it."""
    return claim == audience or (isinstance(claim, list) and audience in claim)


def to_seconds(value: object) -> int | None:
    """A time claim in whole seconds, fractions cut off; ``None`` for what is no number, as booleans in JSON."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _decode_base64url(part: str, name: str) -> bytes:
    if len(part) % 4 == 1 or not _BASE64URL.fullmatch(part):
        raise MalformedToken(f"{name} is not base64url")
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _decode_object(part: str, name: str) -> Claims:
    text = _decode_base64url(part, name)
    try:
        return _OBJECT.decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise MalformedToken(f"{name} is not a JSON object") from None


DERIVED: Final = "signing-key:"
"""How the names of derived keys begin."""

_KEY_BYTES: Final = 32
_PURPOSE: Final = b"statewright: private keys at rest"


class Unreadable(Exception):
    """None of the keys has encrypted this. The message names the one that has."""


class Encrypted(Struct, frozen=True):
    """What may be stored: the ciphertext, and the name of the key that it was made with."""

    ciphertext: bytes
    key_name: str

    @property
    def is_derived(self) -> bool:
        """Whether that key was derived from a signing key."""
        return self.key_name.startswith(DERIVED)


class KeyCipher:
    """Encrypts and decrypts with ``keys``, names and keys of 32 bytes; the first one encrypts."""

    def __init__(self, keys: Sequence[tuple[str, bytes]]) -> None:
        self._keys = {name: Fernet(base64.urlsafe_b64encode(key)) for name, key in keys}
        self._name = keys[0][0]

    def encrypt(self, plain: bytes) -> Encrypted:
        """The same, safe to be stored."""
        return Encrypted(self._keys[self._name].encrypt(plain), self._name)

    def decrypt(self, encrypted: Encrypted) -> bytes:
        """What was encrypted. Raises :class:`Unreadable`."""
        key = self._keys.get(encrypted.key_name)
        if key is None:
            raise Unreadable(f"it is encrypted with the key {encrypted.key_name}, which this service does not have")
        try:
            return key.decrypt(encrypted.ciphertext)
        except InvalidToken:
            raise Unreadable(f"it was changed since it was encrypted with the key {encrypted.key_name}") from None

    def is_current(self, encrypted: Encrypted) -> bool:
        """Whether the key that encrypts today was used."""
        return encrypted.key_name == self._name


def build_cipher(configured: Secret | None, signing_key: RSAPrivateKey) -> KeyCipher:
    """The cipher of the settings: with its own keys, and the one that is derived from the signing key after them."""
    own = [(name_key(key), key) for key in split_encryption_keys(configured)] if configured is not None else []
    derived = _derive_key(signing_key)
    return KeyCipher([*own, (f"{DERIVED}{name_key(derived)}", derived)])


def name_key(key: bytes) -> str:
    """What a key is called where it is not to be told."""
    return hashlib.sha256(key).hexdigest()[:16]


def _derive_key(signing_key: RSAPrivateKey) -> bytes:
    der = signing_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_PURPOSE).derive(der)


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
        self.generation = 0
        """Changes whenever a key does, so that tokens are remembered no longer."""
        self._verifying: dict[str, tuple[RSAPublicKey, int, int]] = {}
        self.replace_all(keys)

    def replace_all(self, keys: Iterable[SigningKey]) -> None:
        """From now on there are exactly these keys."""
        self._keys = {key.kid: key for key in keys}
        verifying = {kid: (key.public, *key.verifying_window) for kid, key in self._keys.items()}
        if verifying != self._verifying:
            self._verifying = verifying
            self.generation += 1

    def find_verifying_key(self, kid: str, now: int) -> RSAPublicKey | None:
        """The public key with this id, if what it has signed counts at ``now``."""
        known = self._verifying.get(kid)
        if known is None:
            return None
        public, begins, ends = known
        return public if begins <= now < ends else None

    def get_end(self, kid: str) -> int:
        """Until when a token counts that the key with this id has signed; there is to be one."""
        return self._verifying[kid][2]

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


class KeyPair(Struct, frozen=True, kw_only=True):
    """A pair: ``public_key`` as DER, SubjectPublicKeyInfo; ``private_key`` encrypted, None for a configured key. Times
    in microseconds since 1970; ``is_unlimited`` as in ``SigningKey``.
    """

    kid: str
    audience: Audience
    public_key: bytes
    private_key: Encrypted | None
    active: bool
    valid_from: int
    valid_to: int
    is_unlimited: bool = False


_NONCE_BYTES: Final = 12


class Sealer:
    """Encrypts for one ``purpose``: what is sealed for another one, or under another ``secret``, is not opened."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        key = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=f"statewright: {purpose}".encode())
        self._cipher = AESGCM(key.derive(secret))

    def seal(self, plain: bytes, about: bytes) -> bytes:
        """The same, unreadable and unchangeable; ``about`` is what it belongs to."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, about)

    def open(self, sealed: bytes, about: bytes) -> bytes | None:
        """What was sealed about this; None where it was not."""
        if len(sealed) < _NONCE_BYTES:
            return None
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], about)
        except InvalidTag:
            return None


MAX_KEY_BITS: Final = 4096
MAX_EXPONENT_BITS: Final = 64
"""A longer exponent makes every check of a signature slow; nobody uses one."""

_PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

JwkMembers = Mapping[str, object]
"""A key as RFC 7517 writes it: decoded JSON."""


class TrustedKey(Struct, frozen=True, kw_only=True):
    """A key that ``tenant`` trusts, and how it was registered. Times in microseconds since 1970; without ``issuers``
    tokens may name any.
    """

    kid: str
    tenant: TenantId = TenantId("")
    public: RSAPublicKey
    jwk: JwkMembers = {}
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


def read_jwk(jwk: JwkMembers, kid: str) -> RSAPublicKey:
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


def _read_number(jwk: JwkMembers, name: str) -> int:
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
