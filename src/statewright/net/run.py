"""Nets, and the state of the kernel while it handles one event: a marking taken apart, and the effects so far.

What languages decide in more than one way, they hand to the kernel as values of their nets: how failures are taken, and
how an instance ends.

Taking a marking apart and building its index costs as much as it has tokens. So a large marking keeps what it was made
of, and the next event goes on with that (:meth:`KernelRun.take_up`): it then costs what it changes, and a copy of the
list of tokens. To all who see the marking only, nothing tells the difference.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net.durations import Delay, add_delay
from statewright.net.effects import ArmTimer, ChangePhase, DisarmTimer, Effect, Event, Trace
from statewright.net.index import TokenIndex, TokenScan
from statewright.net.language import Language, Problem, Visit
from statewright.net.marking import (
    Activation,
    ActivationId,
    Counts,
    ElementResult,
    ExecutionId,
    IdGenerator,
    Loop,
    Marking,
    Moment,
    Move,
    NodeId,
    Phase,
    Place,
    Round,
    Scope,
    ScopeId,
    Stage,
    TimerId,
    Token,
)
from statewright.net.nodes import Arc, Node, rank_nodes

TOO_MANY: Final = "TOO_MANY_TOKENS"
"""The reason of an instance that makes more tokens than it may hold at once."""
OUT_OF_TIME: Final = "EXECUTION_TIMEOUT"
"""The reason of an instance that takes longer than its net allows."""
_KEPT: Final = "kernel_run"
FEW_TOKENS: Final = 16
"""Up to so many are looked through rather than indexed."""
MIN_TOKENS_KEPT: Final = 256
"""From so many tokens on, a marking keeps what was made of it: below, that is made anew in no time."""


Ending: TypeAlias = "Callable[[KernelRun], None]"


class FailureRule(Struct, frozen=True, kw_only=True):
    """What a failure does for which no arc is taken and that no loop absorbs, and how an instance rests in it."""

    settle: "Callable[[KernelRun, Token, str, JsonValue, Visit | None], None]"
    """Have an execution fail for a reason, with an error; the visit: it has arcs for that, of which none was taken."""
    end_branch: "Callable[[KernelRun, Token], None]"
    """A branch came to its end."""
    judge_dead_end: Callable[[Problem], Problem | None]
    """Why a node fails from which no arc leads on, or one of its guards cannot be evaluated; ``None``: it does not, and
    its branch ends badly if none is open.
    """
    fails_without_way_on: Callable[[Node], bool]
    """Whether a node whose activity is done fails when its arcs cannot be taken; else its token is stranded."""
    is_handled_by: Callable[[Sequence[Arc]], bool]
    """Whether a failure is handled after which these arcs are taken."""
    told_when_failed: tuple[Effect, ...] = ()
    """What the host is told when the instance fails, and when it goes on."""
    told_when_resumed: tuple[Effect, ...] = ()
    refused_while_stopped: tuple[type[Event], ...] = ()
    """Events that an instance which is not running does not take."""
    refused_result: Stage = "FAILED"
    """The stage of a token whose result came while the instance was not running, and cannot be applied later."""


class Net(Struct, frozen=True, kw_only=True, dict=True):
    """A compiled definition; immutable, shared by all its instances."""

    nodes: Mapping[NodeId, Node]
    entries: tuple[NodeId, ...]
    on_failure: FailureRule
    """What a failure that nothing is there for does to the rest (:mod:`statewright.net.policies`)."""
    ending: "Ending | None" = None
    """How an instance ends in which nothing moves or works any more (:mod:`statewright.net.policies`); ``None``: only
    a node that ends it does.
    """
    fails_fast: bool = False
    """Where failures are routed: whether the first one that ends a branch discards all tokens that have not begun."""
    capacity: int | None = None
    """How many executions may run at once. With it, tokens fire one after the other in the order in which they were
    made; without, a branch goes on until it rests before the next one starts.
    """
    on_pending: Literal["WAIT", "DISCARD", "FAIL"] = "WAIT"
    """What becomes of an instance in which only tokens that are not admitted are left."""
    finalizer: NodeId | None = None
    """The node that is run once after all others, unless it was run before. It needs no admission, waits for no others,
    and nothing comes after it.
    """
    time_limit: Delay | None = None
    """How long an instance may take from its start or restart until it is quiet, where failures are routed; then all
    that runs fails, and what has not begun is discarded. The finalizer still is run.
    """
    max_tokens: int | None = None
    """How many tokens an instance may hold, where they take turns: with more it fails. ``None``: any number."""
    max_runs: int | None = None
    """How many executions an instance may have over its life; ``None``: any number."""
    max_visits: int | None = None
    """How often a node may be entered (in one scope) over the life of an instance; ``None``: any number."""
    max_entries: int = 10_000
    """Nodes that may be entered for one event before the instance fails: a loop without activities would never pause.
    """
    keeps_order: bool = False
    """Whether tokens arrive in the order in which they were sent, whatever those do that arrive before them. Else a
    branch goes on until it rests before the next one starts, and may overtake what was sent before along an arc.
    """
    node_label: str = "node"
    """What the language calls a node, for messages."""

    @property
    def traces(self) -> bool:
        """Whether every decision about a token is told by an effect: where tokens take turns."""
        return self.capacity is not None

    @cached_property
    def ranks(self) -> Mapping[NodeId, int]:
        """Lower for a node than for those it leads to (:func:`~statewright.net.nodes.rank_nodes`)."""
        return rank_nodes(self.nodes)


class KernelRun:
    """One instance in the hands of the kernel. Mutable, and therefore never visible outside a call of it."""

    def __init__(self, net: Net, language: Language, marking: Marking, moment: Moment) -> None:
        self._data = marking.data
        self.phase: Phase = marking.phase
        self.reason = marking.reason
        self.tokens: dict[ExecutionId, Token] = {token.id: token for token in marking.tokens}
        self._scan = TokenScan(self.tokens)
        self._index: TokenIndex | None = None
        self.activations: dict[ActivationId, Activation] = {each.id: each for each in marking.activations}
        self.attempts = Counts(marking.attempts)
        self.agenda = deque(marking.pending)
        """What moves next is at the end."""
        self.held_results = list(marking.answers)
        self.loops: dict[ExecutionId, Loop] = {loop.token: loop for loop in marking.loops}
        """Without the results that came since the last marking."""
        self._results: dict[ExecutionId, list[ElementResult]] = {}
        self._grown: dict[ExecutionId, None] = {}
        """Loops that have new results: appending them to a frozen loop one by one would copy it."""
        self.scopes: dict[ScopeId, Scope] = {scope.id: scope for scope in marking.scopes}
        self.rounds: dict[Place, Round] = {(each.node, each.scope): each for each in marking.rounds}
        self.tally = marking.tally
        self.yielded = marking.yielded
        self.result = marking.result
        self.warning = marking.warning
        self.deadline = marking.deadline
        self._begin_event(net, language, moment)

    def _begin_event(self, net: Net, language: Language, moment: Moment) -> None:
        self.net = net
        self.language = language
        self.at = moment.at
        self.next_id = IdGenerator(moment)
        self.due_loops: dict[ExecutionId, None] = {}
        """Loops to look after once nothing moves; in order."""
        self.due_scopes: dict[ScopeId, None] = {}
        """Passes in which something came to rest; in order."""
        self.data_before: JsonObject | None = None
        """The data as they were when tokens that are not admitted were last looked at; ``None``: as they are now."""
        self.entered = 0
        self.effects: list[Effect] = []

    @classmethod
    def take_up(cls, net: Net, language: Language, marking: Marking, moment: Moment) -> "KernelRun":
        """An instance for one more event: as it was kept with its marking, else made of it.

        What was kept is taken away, since it is about to change: another event for the same marking makes it anew.
        """
        kept = vars(marking).pop(_KEPT, None)
        if not isinstance(kept, cls):
            return cls(net, language, marking, moment)
        kept._begin_event(net, language, moment)
        return kept

    def keep_with(self, marking: Marking) -> None:
        """Keep a large instance with the marking that it is equal to, so that the next event need not look at all."""
        self.effects = []
        if len(self.tokens) >= MIN_TOKENS_KEPT:
            vars(marking)[_KEPT] = self

    @property
    def data(self) -> JsonObject:
        """The shared data."""
        return self._data

    @data.setter
    def data(self, data: JsonObject) -> None:
        if data is not self._data and self.data_before is None:
            self.data_before = self._data
        self._data = data

    @property
    def executions(self) -> int:
        """How many there were so far."""
        return self.attempts.total

    @property
    def begun_at(self) -> int | None:
        """What tokens keep of the instant at which their executions begin."""
        return self.at if self.net.traces else None

    @property
    def is_live(self) -> bool:
        """Whether the instance goes on by what happens to it."""
        return self.phase in ("RUNNING", "WAITING")

    @property
    def is_draining(self) -> bool:
        """Whether a failure lets only that end which runs."""
        is_given_up = self.tally.verdict in (TOO_MANY, OUT_OF_TIME)
        return is_given_up or (self.net.fails_fast and self.tally.failed > self.tally.overlooked)

    @property
    def index(self) -> TokenIndex | TokenScan:
        """The tokens by what is asked about them."""
        if self._index is None:
            if len(self.tokens) <= FEW_TOKENS:
                return self._scan
            self._index = TokenIndex(self.tokens.values())
        return self._index

    def get_node(self, token: Token) -> Node:
        """The node the token is at. The net has it: tokens move along its arcs only."""
        return self.net.nodes[token.node]

    def build_visit(self, node: Node, payloads: tuple[JsonValue, ...], entry_input: JsonValue) -> Visit:
        """A firing of a node, from what fired it."""
        return Visit(node=node, at=self.at, payloads=payloads, input=entry_input)

    def emit(self, effect: Effect) -> None:
        """Add an effect."""
        self.effects.append(effect)

    def change_phase(self, phase: Phase, reason: str | None = None) -> None:
        """Record another phase; ``reason`` replaces the present one. The time limit is one of what is live."""
        self.phase = phase
        if not self.is_live:
            self.disarm_deadline()
        self.reason = reason
        self.emit(ChangePhase(phase=phase, reason=reason))

    def arm_deadline(self) -> None:
        """Begin to count the time that the instance may take."""
        at = None if self.net.time_limit is None else add_delay(self.at, self.net.time_limit)
        if at is None:
            return
        timer, node = TimerId(self.next_id()), self.net.entries[0]
        self.deadline = timer
        self.emit(ArmTimer(timer=timer, execution=ExecutionId(timer), node=node, at=at, target=node, interrupting=True))
        if self.net.traces:
            self.emit(Trace(kind="deadline.armed", node=node, details={"timer": timer, "at": at}))

    def disarm_deadline(self) -> None:
        """Count it no more."""
        if self.deadline is not None:
            self.emit(DisarmTimer(self.deadline))
            self.deadline = None

    def put_token(self, token: Token) -> None:
        """Add a token, or replace the one with its id, which keeps its place in the order."""
        if self._index is not None:
            self._index.put(token, self.tokens.get(token.id))
        self.tokens[token.id] = token
        if token.scope is not None:
            self.due_scopes[token.scope] = None

    def remove_token(self, token: Token) -> None:
        """Remove a token."""
        known = self.tokens.pop(token.id)
        if self._index is not None:
            self._index.remove(known)
        if known.scope is not None:
            self.due_scopes[known.scope] = None

    def clear(self) -> None:
        """Remove all tokens, and what belongs to them."""
        self.tokens.clear()
        self._index = None
        self.scopes.clear()
        self.rounds.clear()
        for token in list(self.loops):
            self.drop_loop(token)

    def send(self, moves: Iterable[Move]) -> None:
        """Send tokens along their arcs: after all that were sent before, where the net keeps their order."""
        if self.net.keeps_order:
            self.agenda.extendleft(moves)
        else:
            self.send_next(moves)

    def send_next(self, moves: Iterable[Move]) -> None:
        """Send tokens of which the first one moves next."""
        self.agenda.extend(reversed(list(moves)))

    def find_failed(self, node: NodeId) -> Token | None:
        """The oldest token that failed at a node; those of elements of loops do not count."""
        for token in self.tokens.values():
            if token.node == node and token.stage == "FAILED" and token.owner is None:
                return token
        return None

    def count_visit(self, node: NodeId, scope: ScopeId | None) -> tuple[int, int]:
        """Count an entry into a node: how many there were, over all and in this scope."""
        attempt = self.attempts.count(node)
        if scope is None:
            return attempt, attempt
        known = self.scopes[scope]
        visit = known.visits.get(node, 0) + 1
        self.scopes[scope] = replace(known, visits={**known.visits, node: visit})
        return attempt, visit

    def set_yielded(self, scope: ScopeId | None, payloads: tuple[JsonValue, ...]) -> None:
        """Keep what a node that yields a result sent, in place of what was sent before."""
        if scope is None:
            self.yielded = payloads
        else:
            self.scopes[scope] = replace(self.scopes[scope], yielded=payloads)

    def to_marking(self) -> Marking:
        """The marking after the event."""
        for token in self._grown:
            self.loops[token] = replace(self.loops[token], results=tuple(self._results[token]))
        self._grown.clear()
        if self.activations:
            self.activations = {each.id: each for each in self._list_open_activations()}
        return Marking(
            data=self.data,
            phase=self.phase,
            reason=self.reason,
            tokens=tuple(self.tokens.values()),
            activations=tuple(self.activations.values()),
            attempts=self.attempts.freeze(),
            pending=tuple(self.agenda),
            answers=tuple(self.held_results),
            loops=tuple(self.loops.values()),
            scopes=tuple(self.scopes.values()),
            rounds=tuple(self.rounds.values()),
            tally=self.tally,
            yielded=self.yielded,
            result=self.result,
            warning=self.warning,
            deadline=self.deadline,
        )

    def list_results(self, token: ExecutionId) -> list[ElementResult]:
        """The results of the loop of a token so far, in the order in which they came."""
        results = self._results.get(token)
        if results is None:
            results = self._results[token] = list(self.loops[token].results)
        return results

    def add_result(self, token: ExecutionId, result: ElementResult) -> None:
        """Add the result of an element to the loop of a token, which is due then."""
        self.list_results(token).append(result)
        if result.outcome == "FAILED":
            loop = self.loops[token]
            self.loops[token] = replace(loop, failed=loop.failed + 1)
        self._grown[token] = None
        self.due_loops[token] = None

    def drop_loop(self, token: ExecutionId) -> bool:
        """Forget the loop of a token; False when it has none."""
        self._results.pop(token, None)
        self._grown.pop(token, None)
        return self.loops.pop(token, None) is not None

    def _list_open_activations(self) -> list[Activation]:
        """Activations that some token can still arrive for."""
        moving = {branch.activation for move in self.agenda for branch in move.branches}
        return [each for each in self.activations.values() if self.index.has_members(each.id) or each.id in moving]

    def record_arrival(self, activation: Activation, index: int) -> bool:
        """Record that a branch has reached the join of its activation; True when it was the last one."""
        arrived = activation.arrived | {index}
        self.activations[activation.id] = replace(activation, arrived=arrived)
        return len(arrived) == activation.size
