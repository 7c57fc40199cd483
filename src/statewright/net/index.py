"""The tokens of an instance by what is asked about them, so that an event looks at those it changes, not at all.

Whatever is answered here follows from the tokens and their order alone: an index that was kept over many events says
the same as one that was made of a marking just read.

What :class:`~statewright.net.index.TokenIndex` answers, by looking at all tokens: cheaper while there are few.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import TypeAlias, TypeVar

from statewright.net.marking import (
    QUIET,
    RESTING,
    ActivationId,
    ExecutionId,
    NodeId,
    Place,
    ScopeId,
    Stage,
    TimerId,
    Token,
    WorkId,
)

_Tokens: TypeAlias = dict[ExecutionId, Token]


class TokenIndex:
    """Kept by :class:`~statewright.net.run.KernelRun`, which tells it of every change.

    A token that is put again keeps its place in the order, as it does in the marking. Its node, scope, source and owner
    never change.
    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._stages: defaultdict[Stage, int] = defaultdict(int)
        self._waiting: dict[Place, dict[NodeId | None, _Tokens]] = {}
        self._collected: dict[ActivationId, _Tokens] = {}
        self._members: dict[ActivationId, int] = {}
        self._queued: dict[Place, _Tokens] = {}
        self._ready: list[ExecutionId] = []
        """A heap; what is ready no more stays in it until it is the first."""
        self._is_ready: _Tokens = {}
        self._pending: dict[NodeId, _Tokens] = {}
        self._running = 0
        self._working: dict[NodeId, _Tokens] = {}
        self._occupied: dict[Place, int] = {}
        self._scopes: dict[ScopeId, _Tokens] = {}
        self._active: dict[ScopeId, int] = {}
        self._elements: dict[ExecutionId, _Tokens] = {}
        self._work: dict[WorkId, ExecutionId] = {}
        self._timers: dict[TimerId, ExecutionId] = {}
        for token in tokens:
            self.put(token, None)

    def put(self, token: Token, known: Token | None) -> None:
        """Take note of a token; ``known``: what it was before, ``None`` when it is new."""
        stage = token.stage
        if known is None or known.stage != stage:
            if known is not None:
                self._leave_stage(known)
            self._stages[stage] += 1
            if stage not in RESTING and token.owner is None:
                _add(self._occupied, (token.node, token.scope))
            if token.scope is not None and stage not in QUIET:
                _add(self._active, token.scope)
            self._enter_stage(token)
        self._file(token)
        if token.scope is not None:
            self._scopes.setdefault(token.scope, {})[token.id] = token
        if token.owner is not None:
            self._elements.setdefault(token.owner, {})[token.id] = token
        self._follow_activity(token, known)

    def remove(self, token: Token) -> None:
        """Forget a token, in the state in which it was put."""
        self._leave_stage(token)
        if token.scope is not None:
            _drop(self._scopes, token.scope, token)
        if token.owner is not None:
            _drop(self._elements, token.owner, token)
        if token.work is not None:
            del self._work[token.work]
        for timer in token.timers:
            del self._timers[timer.id]
        for branch in token.branches:
            _subtract(self._members, branch.activation)

    def _file(self, token: Token) -> None:
        """Where it is looked for by what it does; again when it is put again, since it is another value then."""
        stage = token.stage
        if stage == "WORKING":
            if token.owner is None:
                self._working.setdefault(token.node, {})[token.id] = token
        elif stage == "WAITING":
            self._file_waiting(token)
        elif stage == "QUEUED":
            self._queued.setdefault((token.node, token.scope), {})[token.id] = token
        elif stage == "READY":
            self._is_ready[token.id] = token
        elif stage == "PENDING":
            self._pending.setdefault(token.node, {})[token.id] = token

    def _enter_stage(self, token: Token) -> None:
        if token.stage == "READY":
            heappush(self._ready, token.id)
        elif token.stage == "WORKING" and token.owner is None:
            self._running += 1

    def _leave_stage(self, token: Token) -> None:
        stage, place = token.stage, (token.node, token.scope)
        self._stages[stage] -= 1
        if stage not in RESTING and token.owner is None:
            _subtract(self._occupied, place)
        if token.scope is not None and stage not in QUIET:
            _subtract(self._active, token.scope)
        if stage == "WORKING":
            if token.owner is None:
                _drop(self._working, token.node, token)
                self._running -= 1
        elif stage == "WAITING":
            _drop(self._waiting[place], token.source, token)
            if not self._waiting[place]:
                del self._waiting[place]
            if token.branches:
                _drop(self._collected, token.branches[-1].activation, token)
        elif stage == "QUEUED":
            _drop(self._queued, place, token)
        elif stage == "READY":
            del self._is_ready[token.id]
        elif stage == "PENDING":
            _drop(self._pending, token.node, token)

    def _file_waiting(self, token: Token) -> None:
        self._waiting.setdefault((token.node, token.scope), {}).setdefault(token.source, {})[token.id] = token
        if token.branches:
            self._collected.setdefault(token.branches[-1].activation, {})[token.id] = token

    def _follow_activity(self, token: Token, known: Token | None) -> None:
        """Task, timers and branches, as far as they are others than before."""
        work, timers, branches = (None, (), ()) if known is None else (known.work, known.timers, known.branches)
        if work != token.work:
            if work is not None:
                del self._work[work]
            if token.work is not None:
                self._work[token.work] = token.id
        if timers != token.timers:
            for timer in timers:
                del self._timers[timer.id]
            for timer in token.timers:
                self._timers[timer.id] = token.id
        if branches is not token.branches:
            for branch in token.branches:
                _add(self._members, branch.activation)
            for branch in branches:
                _subtract(self._members, branch.activation)

    def count(self, stage: Stage) -> int:
        """How many tokens are in a stage."""
        return self._stages.get(stage, 0)

    def count_tasks(self) -> int:
        """How many tokens wait for a task, of a worker or a person."""
        return len(self._work)

    def count_occupied(self, place: Place) -> int:
        """How many activities at a place are begun and have not left it: running, failed or interrupted ones."""
        return self._occupied.get(place, 0)

    def is_quiet(self, scope: ScopeId) -> bool:
        """Whether no token of a pass over the body of a loop can go on by itself, or by what it does."""
        return scope not in self._active

    def list_scope(self, scope: ScopeId) -> list[Token]:
        """The tokens of a pass over the body of a loop, passes within it not included."""
        return list(self._scopes.get(scope, {}).values())

    def list_elements(self, owner: ExecutionId) -> list[Token]:
        """The tokens that do one element each of the loop of a token."""
        return list(self._elements.get(owner, {}).values())

    def has_members(self, activation: ActivationId) -> bool:
        """Whether any token is part of a branch of an activation."""
        return activation in self._members

    def list_collected(self, activation: ActivationId) -> list[Token]:
        """The tokens that wait for the other branches of an activation."""
        return list(self._collected.get(activation, {}).values())

    def find_for_work(self, work: WorkId) -> ExecutionId | None:
        """The token that waits for a task."""
        return self._work.get(work)

    def find_for_timer(self, timer: TimerId) -> ExecutionId | None:
        """The token that a timer was armed for."""
        return self._timers.get(timer)

    def find_working(self, node: NodeId) -> Token | None:
        """The oldest token whose activity runs at a node; those of elements do not count."""
        return next(iter(self._working.get(node, {}).values()), None)

    def find_queued(self, place: Place) -> Token | None:
        """The token that queued first at a place."""
        return next(iter(self._queued.get(place, {}).values()), None)

    def count_running(self) -> int:
        """How many activities run; a loop counts once, whatever runs in it."""
        return self._running

    def find_ready(self) -> Token | None:
        """The oldest token that is ready."""
        while self._ready and self._ready[0] not in self._is_ready:
            heappop(self._ready)
        return self._is_ready[self._ready[0]] if self._ready else None

    def list_pending(self, node: NodeId) -> list[Token]:
        """The tokens that are not admitted to a node, the oldest first."""
        return sorted(self._pending.get(node, {}).values(), key=_get_id)

    def list_pending_nodes(self) -> list[NodeId]:
        """The nodes at which tokens are not admitted."""
        return list(self._pending)

    def count_sources(self, place: Place) -> int:
        """From how many sources tokens wait at a place."""
        return len(self._waiting.get(place, ()))

    def list_oldest(self, place: Place) -> list[Token]:
        """The oldest token from each source that waits at a place, the oldest first."""
        waiting = self._waiting.get(place, {})
        return sorted((next(iter(tokens.values())) for tokens in waiting.values()), key=_get_id)

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


_Key = TypeVar("_Key")


def _get_id(token: Token) -> ExecutionId:
    return token.id


def _drop(filed: dict[_Key, _Tokens], key: _Key, token: Token) -> None:
    tokens = filed[key]
    del tokens[token.id]
    if not tokens:
        del filed[key]


def _add(counts: dict[_Key, int], key: _Key) -> None:
    counts[key] = counts.get(key, 0) + 1


def _subtract(counts: dict[_Key, int], key: _Key) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]


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


def _find_oldest(tokens: Iterable[Token]) -> dict[NodeId | None, Token]:
    """The first of the tokens from each source."""
    oldest: dict[NodeId | None, Token] = {}
    for token in tokens:
        oldest.setdefault(token.source, token)
    return oldest
