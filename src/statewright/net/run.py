"""One step of the kernel while it is being worked out: a marking taken apart, and the effects so far."""

from collections.abc import Iterable

from msgspec.structs import replace

from statewright.net.effects import Effect
from statewright.net.identifiers import ActivationId, ExecutionId, Mint, Moment, NodeId
from statewright.net.language import Language
from statewright.net.marking import Activation, Marking, Move, Phase, Stage, Token
from statewright.net.nodes import Net, Node


class Run:
    """Mutable, and therefore never seen outside the step that made it."""

    def __init__(self, net: Net, language: Language, marking: Marking, moment: Moment) -> None:
        self.net = net
        self.language = language
        self.at = moment.at
        self.mint = Mint(moment)
        self.data = marking.data
        self.phase: Phase = marking.phase
        self.reason = marking.reason
        self.tokens: dict[ExecutionId, Token] = {token.id: token for token in marking.tokens}
        self.activations: dict[ActivationId, Activation] = {each.id: each for each in marking.activations}
        self.attempts = dict(marking.attempts)
        self.agenda = list(marking.pending)
        """What moves next is at the end, so that a branch goes on until it rests before the next one starts."""
        self.answers = list(marking.answers)
        self.entered = 0
        self.effects: list[Effect] = []

    def node_of(self, token: Token) -> Node:
        """The node the token is at. A token never gets to one that its net does not have."""
        return self.net.nodes[token.node]

    def tell(self, effect: Effect) -> None:
        """Add an effect."""
        self.effects.append(effect)

    def rest(self, token: Token) -> None:
        """Put a token down, or replace it where it is."""
        self.tokens[token.id] = token

    def take(self, token: Token) -> None:
        """Take a token up."""
        del self.tokens[token.id]

    def send(self, moves: Iterable[Move]) -> None:
        """Set tokens on their way, the first one next."""
        self.agenda.extend(reversed(list(moves)))

    def oldest_at(self, node: NodeId, stage: Stage, source: NodeId | None = None) -> Token | None:
        """The token that came first to rest at ``node`` in this stage, if any; from ``source`` if that is given."""
        for token in self.tokens.values():
            if token.node == node and token.stage == stage and source in (None, token.source):
                return token
        return None

    def marking(self) -> Marking:
        """The state after the step."""
        return Marking(
            data=self.data,
            phase=self.phase,
            reason=self.reason,
            tokens=tuple(self.tokens.values()),
            activations=tuple(self._remembered()),
            attempts=self.attempts,
            pending=tuple(self.agenda),
            answers=tuple(self.answers),
        )

    def _remembered(self) -> Iterable[Activation]:
        """Activations that some token can still arrive for."""
        if not self.activations:
            return ()
        memberships = [token.branches for token in self.tokens.values()] + [move.branches for move in self.agenda]
        used = {branch.activation for branches in memberships for branch in branches}
        return (each for each in self.activations.values() if each.id in used)

    def arrived(self, activation: Activation, index: int) -> bool:
        """Remember that a branch has reached the join of its activation; whether it was the last one."""
        arrived = activation.arrived | {index}
        self.activations[activation.id] = replace(activation, arrived=arrived)
        return len(arrived) == activation.size
