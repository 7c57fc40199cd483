"""The transactions of this process that callbacks may join."""

import secrets
from typing import Final

from statewright.compute.transaction_tokens import TransactionTokens
from statewright.engine.unit import Unit
from statewright.entity import Principal
from statewright.failures import Forbidden, TransactionExpired, TransactionNotFound, Unauthorized
from statewright.ids import NodeId, TransactionId
from statewright.storage.commit.unit_of_work import UnitOfWork

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
