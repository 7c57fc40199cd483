"""The tokens of an instance by place, so that joins, queues and passes over loops need not look at all of them."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from statewright.net.identifiers import ExecutionId, NodeId, ScopeId
from statewright.net.marking import Stage, Token

Place: TypeAlias = tuple[NodeId, ScopeId | None]
"""A node, in one pass over the body of a loop it may be part of."""

_RESTING: Final[frozenset[Stage]] = frozenset({"WAITING", "QUEUED", "PARKED", "WITHDRAWN"})


class TokenIndex:
    """Kept by :class:`~statewright.net.run.KernelRun`, which tells it of every change."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._waiting: dict[Place, dict[NodeId | None, dict[ExecutionId, Token]]] = {}
        self._queued: dict[Place, dict[ExecutionId, Token]] = {}
        self._occupied: dict[Place, int] = {}
        self._scopes: dict[ScopeId, dict[ExecutionId, Token]] = {}
        for token in tokens:
            self.add(token)

    def add(self, token: Token) -> None:
        """Take note of a token. Of those that wait or queue at a place, the first added is the oldest."""
        place = (token.node, token.scope)
        if token.stage == "WAITING":
            self._waiting.setdefault(place, {}).setdefault(token.source, {})[token.id] = token
        elif token.stage == "QUEUED":
            self._queued.setdefault(place, {})[token.id] = token
        elif token.stage not in _RESTING and token.owner is None:
            self._occupied[place] = self._occupied.get(place, 0) + 1
        if token.scope is not None:
            self._scopes.setdefault(token.scope, {})[token.id] = token

    def remove(self, token: Token) -> None:
        """Forget a token, in the state in which it was added."""
        place = (token.node, token.scope)
        if token.stage == "WAITING":
            of_source = self._waiting[place][token.source]
            del of_source[token.id]
            if not of_source:
                del self._waiting[place][token.source]
        elif token.stage == "QUEUED":
            del self._queued[place][token.id]
        elif token.stage not in _RESTING and token.owner is None:
            self._occupied[place] -= 1
        if token.scope is not None:
            del self._scopes[token.scope][token.id]

    def take_set(self, place: Place, sources: tuple[NodeId, ...]) -> list[Token] | None:
        """The oldest token from each source that waits at a place, in their order; ``None`` when one is missing."""
        waiting = self._waiting.get(place, {})
        if len(waiting) < len(sources):  # so that a set of thousands is looked through only when it may be complete
            return None
        tokens: list[Token] = []
        for source in sources:
            of_source = waiting.get(source)
            if not of_source:
                return None
            tokens.append(next(iter(of_source.values())))
        return tokens

    def find_queued(self, place: Place) -> Token | None:
        """The token that queued first at a place."""
        return next(iter(self._queued.get(place, {}).values()), None)

    def count_occupied(self, place: Place) -> int:
        """How many activities at a place are begun and have not left it: running, failed or interrupted ones."""
        return self._occupied.get(place, 0)

    def list_scope(self, scope: ScopeId) -> list[Token]:
        """The tokens of a pass over the body of a loop, passes within it not included."""
        return list(self._scopes.get(scope, {}).values())
