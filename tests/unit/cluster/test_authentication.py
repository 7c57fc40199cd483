"""How nodes prove that they belong together."""

from hypothesis import given
from hypothesis import strategies as st

from statewright.cluster.channels import (
    CALLER_KEY,
    NUMBER_KEY,
    REPLAY_WINDOW_SIZE,
    NodeAuthenticator,
    ReplayWindow,
)
from statewright.ids import NodeId

SECRET = b"s" * 32
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
METHOD = "/service/Method"


def test_a_call_of_a_node_is_accepted_once():
    metadata = NodeAuthenticator(SECRET, A).sign(B, METHOD)
    called = NodeAuthenticator(SECRET, B)
    assert called.accepts(METHOD, metadata)
    assert not called.accepts(METHOD, metadata)


def test_a_call_is_good_for_one_node_and_one_method_only():
    metadata = NodeAuthenticator(SECRET, A).sign(B, METHOD)
    assert not NodeAuthenticator(SECRET, C).accepts(METHOD, metadata)
    assert not NodeAuthenticator(SECRET, B).accepts("/service/Other", metadata)


def test_who_does_not_know_the_secret_is_refused():
    assert not NodeAuthenticator(SECRET, B).accepts(METHOD, NodeAuthenticator(b"another", A).sign(B, METHOD))
    assert not NodeAuthenticator(SECRET, B).accepts(METHOD, ())
    assert not NodeAuthenticator(SECRET, B).accepts(METHOD, ((CALLER_KEY, "a"), (NUMBER_KEY, "1")))


def test_nobody_can_claim_to_be_another_node_or_to_make_another_call():
    caller, number, proof = NodeAuthenticator(SECRET, A).sign(B, METHOD)
    called = NodeAuthenticator(SECRET, B)
    assert not called.accepts(METHOD, ((CALLER_KEY, "c"), number, proof))
    assert not called.accepts(METHOD, (caller, (NUMBER_KEY, "2"), proof))
    assert not called.accepts(METHOD, (caller, (NUMBER_KEY, "\u0661"), proof))
    assert called.accepts(METHOD, (caller, number, proof))


@given(st.permutations(range(1, 60)))
def test_calls_may_overtake_each_other(order: list[int]):
    seen = ReplayWindow()
    assert all(seen.is_new(number) for number in order)
    assert not any(seen.is_new(number) for number in order)


def test_a_number_that_is_too_old_to_tell_is_taken_for_a_repetition():
    seen = ReplayWindow()
    for number in range(1, 3 * REPLAY_WINDOW_SIZE):
        assert seen.is_new(number)
    assert not seen.is_new(1)
    assert not seen.is_new(3 * REPLAY_WINDOW_SIZE - 1)
