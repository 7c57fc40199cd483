"""Transaction tokens: what lets a callback join the transaction it is called back from
(docs/reference/entities.md#joining-a-transaction, docs/reference/grpc.md#transaction-tokens).

A token is ``encode_base64url(payload).encode_base64url(HMAC-SHA256)``. It is opaque to clients, proves nothing about
its bearer, and is never logged.
"""

import base64
import binascii
import hmac
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from statewright.failures import TransactionExpired, Unauthorized
from statewright.ids import Clock, TransactionId

_SECOND_US: Final = 1_000_000
_BLOCK_BYTES: Final = 64
_INNER_PAD: Final = bytes(octet ^ 0x36 for octet in range(256))
_OUTER_PAD: Final = bytes(octet ^ 0x5C for octet in range(256))
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


class TokenClaims(Struct, frozen=True, kw_only=True):
    """What a token says: the owner of the transaction (a node id), the transaction, the unit of work within it to join
    (``scope``), and the last second of its validity (since 1970).
    """

    node: str
    transaction: TransactionId
    scope: str
    expires: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TokenClaims).decode


class TransactionTokens:
    """Signs and verifies tokens. ``secret`` is the same on all nodes of a cluster; ``ttl``: validity in seconds."""

    def __init__(self, secret: bytes, *, node: str, ttl: float, clock: Clock) -> None:
        # HMAC (RFC 2104) with the key already hashed: doing that for every token would cost more than all the rest.
        key = (sha256(secret).digest() if len(secret) > _BLOCK_BYTES else secret).ljust(_BLOCK_BYTES, b"\0")
        self._inner = sha256(key.translate(_INNER_PAD))
        self._outer = sha256(key.translate(_OUTER_PAD))
        self.node = node
        self._ttl_us = int(ttl * _SECOND_US)
        self._clock = clock

    def sign(self, transaction: TransactionId, scope: str) -> str:
        """A token for a part of a transaction that this node owns."""
        expires = (self._clock() + self._ttl_us) // _SECOND_US
        payload = _encode(TokenClaims(node=self.node, transaction=transaction, scope=scope, expires=expires))
        return f"{_encode_base64url(payload)}.{_encode_base64url(self._compute_signature(payload))}"

    def verify(self, token: str) -> TokenClaims:
        """The claims of a token.

        Raises ``Unauthorized`` unless the cluster's secret signed it, ``TransactionExpired`` after its validity.
        """
        encoded, _, signature = token.partition(".")
        try:
            payload, given = _decode_base64url(encoded), _decode_base64url(signature)
        except ValueError as malformed:
            raise Unauthorized("invalid transaction token") from malformed
        if not hmac.compare_digest(given, self._compute_signature(payload)):
            raise Unauthorized("invalid transaction token")
        claims = _decode(payload)
        if self._clock() // _SECOND_US > claims.expires:
            raise TransactionExpired
        return claims

    def _compute_signature(self, payload: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(payload)
        outer.update(inner.digest())
        return outer.digest()


def _encode_base64url(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE, b"=").decode()


def _decode_base64url(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
