"""Every token that was sent is consumed by one firing, or is in the marking (docs/reference/kernel.md#guarantees)."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from msgspec.structs import replace

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Completed, Many, Net, Node, NodeId, Outcome, Problem, Visit
from statewright.net.effects import Effect, Event, RecordEntry, RecordExit
from statewright.net.nodes import Body
from tests.unit.net.strategies import nets
from tests.unit.net.test_invariants import EXAMPLES, FINAL, KINDS, FewLetters, Ledger, draw_event

OUTCOMES: dict[str, Outcome] = {"COMPLETED": "DONE", "BYPASSED": "SKIPPED", "FAILED": "FAILED"}


class Tagged(FewLetters):
    """What a firing sends along its arcs is its own alone, and inputs are the list of what was taken."""

    def build_input(self, data: JsonObject, node: Node, payloads: Sequence[JsonValue]) -> "JsonValue | Problem":
        return list(payloads)

    def complete(self, data: JsonObject, visit: Visit) -> Completed | Problem:
        count = int(str(data.get("firings", 0))) + 1
        return Completed(data={**data, "firings": count}, payloads=(f"{visit.node.id}#{count}",), output=visit.output)

    def list_items(self, data: JsonObject, visit: Visit) -> Sequence[JsonValue]:
        return ["a", "b"]


class TokenLedger(Ledger):
    """Keeps what was sent to each node, and what was taken there.

    A firing sends when it has ended and its token has left: one that waits for a restart has not. What begins again
    takes the same once more, and counts once.
    """

    def __init__(self, net: Net) -> None:
        super().__init__(net, Tagged())
        self.sent: dict[NodeId, int] = dict.fromkeys(net.nodes, 0)
        self.firings: dict[NodeId, dict[str, tuple[JsonValue, ...]]] = {node: {} for node in net.nodes}
        self._elements: set[str] = set()
        self._ended: dict[str, tuple[NodeId, Outcome]] = {}
        self._bodies = {
            entry
            for node in net.nodes.values()
            if isinstance(node.activity, Many) and isinstance(node.activity.body, Body)
            for entry in node.activity.body.entries
        }

    def play(self, event: Event | None) -> tuple[Effect, ...]:
        effects = super().play(event)
        for effect in effects:
            if isinstance(effect, RecordEntry) and effect.element is None:
                self._take(effect)
            elif isinstance(effect, RecordEntry):
                self._elements.add(effect.execution)
            elif (
                isinstance(effect, RecordExit) and effect.status in OUTCOMES and effect.execution not in self._elements
            ):
                self._ended[effect.execution] = (effect.node, OUTCOMES[effect.status])
        self._send()
        if self.marking.phase not in FINAL:
            self.compare()
        return effects

    def _take(self, entry: RecordEntry) -> None:
        assert isinstance(entry.input, list)
        taken = tuple(entry.input)
        for value in taken:
            assert self.firings[entry.node].setdefault(str(value), taken) == taken, "taken by two firings"

    def _send(self) -> None:
        at_rest = {token.id: token for token in self.marking.tokens}
        for execution, (node, outcome) in list(self._ended.items()):
            token = at_rest.get(execution)
            if token is not None and token.stage == "ANSWERED":
                continue  # it goes on when the instance does
            del self._ended[execution]
            if token is None:
                for arc in self.net.nodes[node].routing.arcs:
                    self.sent[arc.target] += outcome in arc.on

    def compare(self) -> None:
        """What was sent to a node was taken there, waits there, or is on its way."""
        for name in self.net.nodes:
            if name in self._bodies or name in self.net.entries:
                continue
            taken = len(self.firings[name])
            waiting = sum(
                len(token.payloads) for token in self.marking.tokens if token.node == name and not token.attempt
            )
            moves = (move.payloads for move in self.marking.pending if move.target == name)
            moving = sum(len(payloads) for payloads in moves if str(payloads[0]) not in self.firings[name])
            assert self.sent[name] == taken + waiting + moving, name


def open_all_arcs(net: Net) -> Net:
    """The same net, in which every arc for an outcome is taken, and neither a timer nor a failure within a loop adds or
    removes tokens.
    """
    nodes = {}
    for name, node in net.nodes.items():
        arcs = tuple(replace(arc, guard=None) for arc in node.routing.arcs)
        activity = node.activity
        if isinstance(activity, Many):
            activity = replace(activity, on_failure="FAIL")
        nodes[name] = replace(node, activity=activity, routing=replace(node.routing, mode="ALL", arcs=arcs), timers=())
    return replace(net, nodes=nodes)


@settings(max_examples=EXAMPLES, deadline=None)
@given(nets(), st.data())
def test_every_token_that_was_sent_is_taken_once_or_is_in_the_marking(net: Net, data: DataObject):
    ledger = TokenLedger(open_all_arcs(net))
    ledger.play(None)
    for _ in range(data.draw(st.integers(0, 14), label="events")):
        ledger.play(draw_event(data, ledger, KINDS))
