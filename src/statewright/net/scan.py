"""What :class:`~statewright.net.index.TokenIndex` answers, by looking at all tokens: cheaper while there are few."""

from collections.abc import Iterable, Iterator, Mapping

from statewright.net.identifiers import ActivationId, ExecutionId, NodeId, ScopeId, TimerId, WorkId
from statewright.net.marking import Stage, Token
from statewright.net.places import QUIET, RESTING, Place


class TokenScan:
    """The tokens of an instance as they are at the moment of each question."""

    def __init__(self, tokens: Mapping[ExecutionId, Token]) -> None:
        self._tokens = tokens

    def count(self, stage: Stage) -> int:
        """How many tokens are in a stage."""
        return sum([token.stage == stage for token in self._tokens.values()])

    def count_tasks(self) -> int:
        """How many tokens wait for a task, of a worker or a person."""
        return sum([token.work is not None for token in self._tokens.values()])

    def count_occupied(self, place: Place) -> int:
        """How many activities at a place are begun and have not left it: running, failed or interrupted ones."""
        return len([token for token in self._list_at(place) if token.stage not in RESTING and token.owner is None])

    def is_quiet(self, scope: ScopeId) -> bool:
        """Whether no token of a pass over the body of a loop can go on by itself, or by what it does."""
        return all(token.stage in QUIET for token in self.list_scope(scope))

    def list_scope(self, scope: ScopeId) -> list[Token]:
        """The tokens of a pass over the body of a loop, passes within it not included."""
        return [token for token in self._tokens.values() if token.scope == scope]

    def list_elements(self, owner: ExecutionId) -> list[Token]:
        """The tokens that do one element each of the loop of a token."""
        return [token for token in self._tokens.values() if token.owner == owner]

    def has_members(self, activation: ActivationId) -> bool:
        """Whether any token is part of a branch of an activation."""
        return any(branch.activation == activation for token in self._tokens.values() for branch in token.branches)

    def list_collected(self, activation: ActivationId) -> list[Token]:
        """The tokens that wait for the other branches of an activation."""
        waiting = [token for token in self._tokens.values() if token.stage == "WAITING" and token.branches]
        return [token for token in waiting if token.branches[-1].activation == activation]

    def find_for_work(self, work: WorkId) -> ExecutionId | None:
        """The token that waits for a task."""
        return next((token.id for token in self._tokens.values() if token.work == work), None)

    def find_for_timer(self, timer: TimerId) -> ExecutionId | None:
        """The token that a timer was armed for."""
        armed = (token.id for token in self._tokens.values() for each in token.timers if each.id == timer)
        return next(armed, None)

    def find_working(self, node: NodeId) -> Token | None:
        """The oldest token whose activity runs at a node; those of elements do not count."""
        return next(
            (
                token
                for token in self._tokens.values()
                if token.node == node and token.stage == "WORKING" and token.owner is None
            ),
            None,
        )

    def find_queued(self, place: Place) -> Token | None:
        """The token that queued first at a place."""
        return next((token for token in self._list_at(place) if token.stage == "QUEUED"), None)

    def count_running(self) -> int:
        """How many activities run; a loop counts once, whatever runs in it."""
        return sum([token.stage == "WORKING" and token.owner is None for token in self._tokens.values()])

    def find_ready(self) -> Token | None:
        """The oldest token that is ready."""
        return min((token for token in self._tokens.values() if token.stage == "READY"), key=_get_id, default=None)

    def list_pending(self, node: NodeId) -> list[Token]:
        """The tokens that are not admitted to a node, the oldest first."""
        pending = (token for token in self._tokens.values() if token.stage == "PENDING" and token.node == node)
        return sorted(pending, key=_get_id)

    def list_pending_nodes(self) -> list[NodeId]:
        """The nodes at which tokens are not admitted."""
        return list(dict.fromkeys(token.node for token in self._tokens.values() if token.stage == "PENDING"))

    def count_sources(self, place: Place) -> int:
        """From how many sources tokens wait at a place."""
        return len({token.source for token in self._list_at(place) if token.stage == "WAITING"})

    def list_oldest(self, place: Place) -> list[Token]:
        """The oldest token from each source that waits at a place, the oldest first."""
        oldest = _find_oldest(token for token in self._list_at(place) if token.stage == "WAITING")
        return sorted(oldest.values(), key=_get_id)

    def take_set(self, place: Place, sources: tuple[NodeId, ...]) -> list[Token] | None:
        """The oldest token from each source that waits at a place, in their order; ``None`` when one is missing."""
        oldest = _find_oldest(token for token in self._list_at(place) if token.stage == "WAITING")
        tokens = [oldest[source] for source in sources if source in oldest]
        return tokens if len(tokens) == len(sources) else None

    def _list_at(self, place: Place) -> Iterator[Token]:
        node, scope = place
        return (token for token in self._tokens.values() if token.node == node and token.scope == scope)


def _get_id(token: Token) -> ExecutionId:
    return token.id


def _find_oldest(tokens: Iterable[Token]) -> dict[NodeId | None, Token]:
    """The first of the tokens from each source."""
    oldest: dict[NodeId | None, Token] = {}
    for token in tokens:
        oldest.setdefault(token.source, token)
    return oldest
