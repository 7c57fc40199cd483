"""Private keys at rest (decision A4): encrypted under keys that only the environment of the service has.

The first key encrypts, all of them decrypt: to change it, put a new one in front. Encryption is Fernet's, which also
finds out about every change of what was stored. Without keys of their own, private keys are encrypted under one that is
derived from the configured signing key, which is a secret of the same environment and of the same worth.
"""

import base64
import hashlib
from collections.abc import Sequence
from typing import Final

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import Struct

from statewright.settings import Secret, split_encryption_keys

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
