"""The state of the kernel while it handles one event: a marking taken apart, and the effects so far."""

from collections.abc import Iterable

from msgspec.structs import replace

from statewright.net.effects import Effect
from statewright.net.identifiers import ActivationId, ExecutionId, IdGenerator, Moment, NodeId
from statewright.net.language import Language
from statewright.net.marking import Activation, Marking, Move, Phase, Stage, Token
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
        self.entered = 0
        self.effects: list[Effect] = []

    def get_node(self, token: Token) -> Node:
        """The node the token is at. The net has it: tokens move along its arcs only."""
        return self.net.nodes[token.node]

    def emit(self, effect: Effect) -> None:
        """Add an effect."""
        self.effects.append(effect)

    def put_token(self, token: Token) -> None:
        """Add a token, or replace the one with its id, which keeps its place in the order."""
        self.tokens[token.id] = token

    def remove_token(self, token: Token) -> None:
        """Remove a token."""
        del self.tokens[token.id]

    def send(self, moves: Iterable[Move]) -> None:
        """Send tokens along their arcs; the first one moves next."""
        self.agenda.extend(reversed(list(moves)))

    def find_oldest(self, node: NodeId, stage: Stage, source: NodeId | None = None) -> Token | None:
        """The token that came first to rest at ``node`` in this stage, if any; from ``source`` if that is given."""
        for token in self.tokens.values():
            if token.node == node and token.stage == stage and source in (None, token.source):
                return token
        return None

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
        )

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
