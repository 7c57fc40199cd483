"""The transactions of this process that callbacks may join, and the tokens by which they do
(docs/reference/entities.md#joining-a-transaction, docs/reference/grpc.md#transaction-tokens).

A token is ``encode_base64url(payload).encode_base64url(HMAC-SHA256)``. It is opaque to clients, proves nothing about
its bearer, and is never logged.
"""

import base64
import binascii
import hmac
import secrets
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from statewright.engine.unit import Unit
from statewright.entity import Principal
from statewright.failures import Forbidden, TransactionExpired, TransactionNotFound, Unauthorized
from statewright.ids import Clock, NodeId, TransactionId
from statewright.storage.commit.unit_of_work import UnitOfWork

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


ROOT_SCOPE: Final = ""
"""The scope of a whole transaction; savepoints and joined requests have scopes of their own."""


class OpenTransactions:
    """Units for which a token was given out, until they end. A unit without callouts never gets here."""

    def __init__(self, tokens: TransactionTokens) -> None:
        self._tokens = tokens
        self._units: dict[tuple[TransactionId, str], UnitOfWork] = {}
        self._scopes: dict[UnitOfWork, tuple[TransactionId, str]] = {}

    def issue_token(self, unit: Unit) -> str:
        """A token with which a callback joins ``unit``, which is in its present segment."""
        assert isinstance(unit, UnitOfWork), "there are no other transactions to join"  # noqa: S101
        key = self._scopes.get(unit)
        if key is None or key[0] != unit.id:
            key = self._register(unit)
        return self._tokens.sign(*key)

    def find(self, token: str, principal: Principal) -> UnitOfWork:
        """The unit that a request of ``principal`` may join.

        Raises ``Unauthorized``, ``TransactionExpired``, ``TransactionNotFound``, ``Forbidden``.
        """
        claims = self._tokens.verify(token)
        unit = self._units.get((claims.transaction, claims.scope))
        if unit is None or unit.id != claims.transaction:
            raise TransactionNotFound
        if unit.tenant != principal.tenant:
            raise Forbidden("transaction belongs to a different tenant")
        return unit

    def find_owner(self, token: str) -> NodeId | None:
        """The other node that owns the transaction a token names.

        None when it is this one's, and when the token is no good; then :meth:`find` says why.
        """
        try:
            node = self._tokens.verify(token).node
        except (Unauthorized, TransactionExpired):
            return None
        return None if node == self._tokens.node else NodeId(node)

    @property
    def count(self) -> int:
        """Units that can be joined now."""
        return len(self._units)

    def _register(self, unit: UnitOfWork) -> tuple[TransactionId, str]:
        scope = ROOT_SCOPE if unit.parent is None else secrets.token_urlsafe(9)
        former = self._scopes.get(unit)
        if former is None:
            unit.on_close.append(lambda: self._forget(unit))
        else:
            del self._units[former]  # the segment it named is committed
        key = (unit.id, scope)
        self._units[key] = unit
        self._scopes[unit] = key
        return key

    def _forget(self, unit: UnitOfWork) -> None:
        self._units.pop(self._scopes.pop(unit), None)
