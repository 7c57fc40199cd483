"""The index of the tokens says what looking at all of them says, however it came about."""

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from statewright.net import Marking, Net, Stage, Token
from statewright.net.index import TokenIndex, TokenScan
from tests.unit.net.strategies import nets, routed_nets
from tests.unit.net.test_invariants import EXAMPLES, KINDS, Ledger, draw_event

STAGES = get_args(Stage)


def change(index: TokenIndex, before: Marking, after: Marking) -> None:
    """Tell the index of the changes only, as the kernel does."""
    known, new = ({token.id: token for token in marking.tokens} for marking in (before, after))
    for token in known.values():
        if token.id not in new:
            index.remove(token)
    for token in new.values():
        if known.get(token.id) is not token:
            index.put(token, known.get(token.id))


def describe(index: TokenIndex | TokenScan, tokens: list[Token]) -> object:
    """All that can be asked about tokens that are or were there."""
    places = [(token.node, token.scope) for token in tokens]
    sources = [(token.source,) for token in tokens if token.source is not None]
    return [
        [index.count(stage) for stage in STAGES],
        index.count_tasks(),
        (index.count_running(), index.find_ready(), sorted(index.list_pending_nodes())),
        [(index.list_pending(node), index.count_sources((node, scope))) for node, scope in places],
        [index.list_oldest(place) for place in places],
        [(index.count_occupied(place), index.find_queued(place)) for place in places],
        [index.take_set(place, one) for place in places for one in sources],
        [(index.is_quiet(token.scope), index.list_scope(token.scope)) for token in tokens if token.scope],
        [(index.list_elements(token.id), index.find_working(token.node)) for token in tokens],
        [index.find_for_work(token.work) for token in tokens if token.work],
        [index.find_for_timer(timer.id) for token in tokens for timer in token.timers],
        [
            (index.has_members(branch.activation), index.list_collected(branch.activation))
            for token in tokens
            for branch in token.branches
        ],
    ]


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(nets() | routed_nets(), st.data())
def test_an_index_kept_over_events_answers_as_a_scan_of_the_marking_does(net: Net, data: DataObject):
    ledger, index, seen = Ledger(net), TokenIndex(()), list[Token]()
    for number in range(data.draw(st.integers(1, 12), label="events")):
        before = ledger.marking
        ledger.play(draw_event(data, ledger, KINDS) if number else None)
        change(index, before, ledger.marking)
        seen += ledger.marking.tokens
        scan = TokenScan({token.id: token for token in ledger.marking.tokens})
        assert describe(index, seen) == describe(scan, seen)
