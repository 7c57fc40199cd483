"""Entries into the nodes of an instance: what is counted, and what an event shares with the one before."""

import pickle
import random

from statewright.net import NodeId
from statewright.net.marking import MAX_CHANGED_COUNTS, Counts


def test_counts_are_those_of_a_dictionary():
    random_ = random.Random(7)
    kept, expected, frozen = Counts({}), dict[NodeId, int](), list[tuple[object, dict[NodeId, int]]]()
    for _ in range(5_000):
        node = NodeId(f"n{random_.randrange(1_000)}")
        expected[node] = expected.get(node, 0) + 1
        assert kept.count(node) == expected[node]
        if random_.random() < 0.05:
            frozen.append((kept.freeze(), {**expected}))
            kept = Counts(kept.freeze())
    assert (kept, len(kept), kept.total) == (expected, len(expected), 5_000)
    assert (NodeId("n") in kept, set(kept)) == (False, set(expected))
    assert all(counts == then for counts, then in frozen)
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_few_counts_are_a_plain_dictionary():
    counts = Counts({NodeId("a"): 2})
    counts.count(NodeId("a"))
    assert type(counts.freeze()) is dict
    assert counts.freeze() == {"a": 3}


def test_many_counts_are_shared_with_those_before():
    before = Counts({NodeId(str(number)): 1 for number in range(MAX_CHANGED_COUNTS + 1)})
    after = Counts(before.freeze())
    after.count(NodeId("0"))
    assert (before["0"], after["0"]) == (1, 2)  # type: ignore[index]
    assert after._shared is before._shared
