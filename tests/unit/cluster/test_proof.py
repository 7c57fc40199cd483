"""How nodes prove that they belong together."""

from hypothesis import given
from hypothesis import strategies as st

from statewright.cluster.proof import CALLER, NUMBER, WINDOW, Prover, Seen
from statewright.identity import NodeId

SECRET = b"s" * 32
A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
METHOD = "/service/Method"


def test_a_call_of_a_node_is_accepted_once():
    metadata = Prover(SECRET, A).sign(B, METHOD)
    called = Prover(SECRET, B)
    assert called.accepts(METHOD, metadata)
    assert not called.accepts(METHOD, metadata)


def test_a_call_is_good_for_one_node_and_one_method_only():
    metadata = Prover(SECRET, A).sign(B, METHOD)
    assert not Prover(SECRET, C).accepts(METHOD, metadata)
    assert not Prover(SECRET, B).accepts("/service/Other", metadata)


def test_who_does_not_know_the_secret_is_refused():
    assert not Prover(SECRET, B).accepts(METHOD, Prover(b"another", A).sign(B, METHOD))
    assert not Prover(SECRET, B).accepts(METHOD, ())
    assert not Prover(SECRET, B).accepts(METHOD, ((CALLER, "a"), (NUMBER, "1")))


def test_nobody_can_claim_to_be_another_node_or_to_make_another_call():
    caller, number, proof = Prover(SECRET, A).sign(B, METHOD)
    called = Prover(SECRET, B)
    assert not called.accepts(METHOD, ((CALLER, "c"), number, proof))
    assert not called.accepts(METHOD, (caller, (NUMBER, "2"), proof))
    assert not called.accepts(METHOD, (caller, (NUMBER, "\u0661"), proof))
    assert called.accepts(METHOD, (caller, number, proof))


@given(st.permutations(range(1, 60)))
def test_calls_may_overtake_each_other(order: list[int]):
    seen = Seen()
    assert all(seen.is_new(number) for number in order)
    assert not any(seen.is_new(number) for number in order)


def test_a_number_that_is_too_old_to_tell_is_taken_for_a_repetition():
    seen = Seen()
    for number in range(1, 3 * WINDOW):
        assert seen.is_new(number)
    assert not seen.is_new(1)
    assert not seen.is_new(3 * WINDOW - 1)
