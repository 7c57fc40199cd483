"""Short secrets at rest and in cookies: AES-GCM under a key that is derived from a secret of the service."""

import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_KEY_BYTES: Final = 32
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
