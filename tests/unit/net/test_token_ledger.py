"""Where tokens take turns, each that was made is taken by one firing or one join, absorbed, discarded for a reason, or
in the marking (docs/reference/kernel.md#guarantees).
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from statewright.net import Net
from statewright.net.effects import Effect, Event, RecordEntry, Trace
from tests.unit.net.strategies import routed_nets
from tests.unit.net.test_invariants import EXAMPLES, KINDS, Ledger, draw_event

NOT_BEGUN = ("READY", "PENDING", "WAITING")


class TurnLedger(Ledger):
    """Keeps what became of each token."""

    def __init__(self, net: Net) -> None:
        super().__init__(net)
        self.open: set[str] = set()
        self.badly = 0

    def play(self, event: Event | None) -> tuple[Effect, ...]:
        effects = super().play(event)
        for effect in effects:
            if isinstance(effect, RecordEntry) and effect.token is not None and effect.element is None:
                self.open.remove(effect.token)
            elif isinstance(effect, Trace):
                self._take(effect)
        if self.marking.phase not in ("COMPLETED", "CANCELLED"):
            assert self.open == {token.id for token in self.marking.tokens if token.stage in NOT_BEGUN}
        return effects

    def _take(self, trace: Trace) -> None:
        match trace.kind:
            case "token.created":
                assert trace.token not in self.open
                self.open.add(str(trace.token))
            case "token.discarded":
                assert trace.details["reason"]
                self.open.remove(str(trace.token))
            case "join.absorbed":
                self.open.remove(str(trace.token))
            case "join.fired":
                tokens = trace.details["tokens"]
                assert isinstance(tokens, list)
                self.open -= {str(token) for token in tokens if str(token) in self.open or self._miss(token)}
            case _:
                pass

    def _miss(self, token: object) -> bool:
        raise AssertionError(f"{token} was taken before")


@settings(max_examples=EXAMPLES, deadline=None)
@given(routed_nets(), st.data())
def test_every_token_is_taken_once_discarded_or_in_the_marking(net: Net, data: DataObject):
    ledger = TurnLedger(net)
    ledger.play(None)
    for _ in range(data.draw(st.integers(0, 14), label="events")):
        ledger.play(draw_event(data, ledger, KINDS))
