"""The state of the kernel while it handles one event: a marking taken apart, and the effects so far."""

from collections.abc import Iterable

from msgspec.structs import replace

from statewright.jsonval.values import JsonValue
from statewright.net.effects import Effect
from statewright.net.identifiers import ActivationId, ExecutionId, IdGenerator, Moment, NodeId, ScopeId
from statewright.net.index import TokenIndex
from statewright.net.language import Language, Visit
from statewright.net.marking import Activation, ElementResult, Loop, Marking, Move, Phase, Scope, Stage, Token
from statewright.net.nodes import Net, Node


class KernelRun:
    """One call of the kernel. Mutable, and therefore never visible outside that call."""

    def __init__(self, net: Net, language: Language, marking: Marking, moment: Moment) -> None:
        self.net = net
        self.language = language
        self.at = moment.at
        self.next_id = IdGenerator(moment)
        self.data = marking.data
        self.phase: Phase = marking.phase
        self.reason = marking.reason
        self.tokens: dict[ExecutionId, Token] = {token.id: token for token in marking.tokens}
        self.activations: dict[ActivationId, Activation] = {each.id: each for each in marking.activations}
        self.attempts = dict(marking.attempts)
        self.agenda = list(marking.pending)
        """What moves next is at the end, so that a branch goes on until it rests before the next one starts."""
        self.held_results = list(marking.answers)
        self.loops: dict[ExecutionId, Loop] = {loop.token: loop for loop in marking.loops}
        self.new_results: dict[ExecutionId, list[ElementResult]] = {}
        """Results of loops that came during this event: appending them to a frozen loop one by one would copy it."""
        self.scopes: dict[ScopeId, Scope] = {scope.id: scope for scope in marking.scopes}
        self.due_loops: dict[ExecutionId, None] = {}
        """Loops to look after once nothing moves; in order."""
        self.due_scopes: dict[ScopeId, None] = {}
        """Passes in which something came to rest; in order."""
        self.yielded = marking.yielded
        self.result = marking.result
        self.warning = marking.warning
        self.entered = 0
        self.effects: list[Effect] = []
        self._index: TokenIndex | None = None

    @property
    def index(self) -> TokenIndex:
        """The tokens by place; made when it is first asked for, since most events need none."""
        if self._index is None:
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

    def put_token(self, token: Token) -> None:
        """Add a token, or replace the one with its id, which keeps its place in the order."""
        if self._index is not None:
            if (known := self.tokens.get(token.id)) is not None:
                self._index.remove(known)
            self._index.add(token)
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

    def send(self, moves: Iterable[Move]) -> None:
        """Send tokens along their arcs; the first one moves next."""
        self.agenda.extend(reversed(list(moves)))

    def find_oldest(self, node: NodeId, stage: Stage) -> Token | None:
        """The token that came first to rest at ``node`` in this stage, if any."""
        for token in self.tokens.values():
            if token.node == node and token.stage == stage and token.owner is None:
                return token
        return None

    def count_visit(self, node: NodeId, scope: ScopeId | None) -> tuple[int, int]:
        """Count an entry into a node: how many there were, over all and in this scope."""
        attempt = self.attempts[node] = self.attempts.get(node, 0) + 1
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
        return Marking(
            data=self.data,
            phase=self.phase,
            reason=self.reason,
            tokens=tuple(self.tokens.values()),
            activations=tuple(self._list_open_activations()),
            attempts=self.attempts,
            pending=tuple(self.agenda),
            answers=tuple(self.held_results),
            loops=tuple(self.get_loop(token) for token in self.loops),
            scopes=tuple(self.scopes.values()),
            yielded=self.yielded,
            result=self.result,
            warning=self.warning,
        )

    def get_loop(self, token: ExecutionId) -> Loop:
        """The loop of a token with all results so far."""
        loop = self.loops[token]
        new = self.new_results.pop(token, None)
        if new:
            loop = self.loops[token] = replace(loop, results=(*loop.results, *new))
        return loop

    def add_result(self, token: ExecutionId, result: ElementResult) -> None:
        """Add the result of an element to the loop of a token, which is due then."""
        self.new_results.setdefault(token, []).append(result)
        self.due_loops[token] = None

    def _list_open_activations(self) -> Iterable[Activation]:
        """Activations that some token can still arrive for."""
        if not self.activations:
            return ()
        memberships = [token.branches for token in self.tokens.values()] + [move.branches for move in self.agenda]
        used = {branch.activation for branches in memberships for branch in branches}
        return (each for each in self.activations.values() if each.id in used)

    def record_arrival(self, activation: Activation, index: int) -> bool:
        """Record that a branch has reached the join of its activation; True when it was the last one."""
        arrived = activation.arrived | {index}
        self.activations[activation.id] = replace(activation, arrived=arrived)
        return len(arrived) == activation.size
