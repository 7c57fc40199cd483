"""Transaction tokens: what lets a callback join the transaction it is called back from (spec/workflows.md §12.1,
spec/grpc.md §16).

A token is ``base64url(payload).base64url(HMAC-SHA256)``. It is opaque to clients, proves nothing about its bearer, and
is never logged.
"""

import base64
import binascii
import hmac
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from statewright.failures import TransactionExpired, Unauthorized
from statewright.identity import Clock, TransactionId

_SECOND_US = 1_000_000
_BLOCK: Final = 64
_INNER: Final = bytes(octet ^ 0x36 for octet in range(256))
_OUTER: Final = bytes(octet ^ 0x5C for octet in range(256))
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")


class Ticket(Struct, frozen=True, kw_only=True):
    """What a token says: the node that owns the transaction, the transaction, the part of it to join, the last
    second.
    """

    node: str
    transaction: TransactionId
    scope: str
    expires: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Ticket).decode


class TransactionTokens:
    """Signs and verifies tokens. ``secret`` is the same on all nodes of a cluster; ``ttl`` is in seconds."""

    def __init__(self, secret: bytes, *, node: str, ttl: float, clock: Clock) -> None:
        # HMAC (RFC 2104) with the key already in: setting it up for every token would cost more than all the rest.
        key = (sha256(secret).digest() if len(secret) > _BLOCK else secret).ljust(_BLOCK, b"\0")
        self._inner = sha256(key.translate(_INNER))
        self._outer = sha256(key.translate(_OUTER))
        self.node = node
        self._ttl_us = int(ttl * _SECOND_US)
        self._clock = clock

    def sign(self, transaction: TransactionId, scope: str) -> str:
        """A token for a part of a transaction that this node owns."""
        expires = (self._clock() + self._ttl_us) // _SECOND_US
        payload = _encode(Ticket(node=self.node, transaction=transaction, scope=scope, expires=expires))
        return f"{_armoured(payload)}.{_armoured(self._signature(payload))}"

    def verify(self, token: str) -> Ticket:
        """What a token says.

        Raises ``Unauthorized`` unless we signed it, ``TransactionExpired`` when its time is over.
        """
        armoured, _, signature = token.partition(".")
        try:
            payload, given = _stripped(armoured), _stripped(signature)
        except ValueError as malformed:
            raise Unauthorized("invalid transaction token") from malformed
        if not hmac.compare_digest(given, self._signature(payload)):
            raise Unauthorized("invalid transaction token")
        ticket = _decode(payload)
        if self._clock() // _SECOND_US > ticket.expires:
            raise TransactionExpired
        return ticket

    def _signature(self, payload: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(payload)
        outer.update(inner.digest())
        return outer.digest()


def _armoured(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE, b"=").decode()


def _stripped(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
