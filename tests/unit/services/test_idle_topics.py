"""What a process knows to be idle, so that an empty poll needs no statement."""

import pytest

from statewright.ids import TenantId
from statewright.services.processes.wakeups import ANY_TYPE, MAX_AGE_US, IdleTopics

ACME = TenantId("acme")
A, B = (ACME, "steps", "a"), (ACME, "steps", "b")


class Watch:
    def __init__(self) -> None:
        self.now = 5_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def idle(watch: Watch) -> IdleTopics:
    topics = IdleTopics(watch)
    topics.set_listening(True)
    return topics


def prove(idle: IdleTopics, *topics: tuple[TenantId, str, str]) -> None:
    with idle.look(topics) as look:
        idle.prove(look)


def test_what_was_claimed_to_the_last_is_idle(idle: IdleTopics):
    assert not idle.are_idle([A])
    prove(idle, A)
    assert idle.are_idle([A])


def test_all_topics_of_a_poll_have_to_be_idle(idle: IdleTopics):
    prove(idle, A)
    assert not idle.are_idle([A, B])
    prove(idle, B)
    assert idle.are_idle([A, B])


def test_a_hint_ends_it_for_its_topic_alone(idle: IdleTopics):
    prove(idle, A, B)
    idle.forget([A])
    assert not idle.are_idle([A])
    assert idle.are_idle([B])


def test_a_hint_of_any_type_ends_it_for_all(idle: IdleTopics):
    prove(idle, A, B)
    idle.forget([(ACME, "steps", ANY_TYPE)])
    assert not idle.are_idle([A])
    assert not idle.are_idle([B])


def test_a_claim_proves_nothing_of_what_was_hinted_at_meanwhile(idle: IdleTopics):
    """Its snapshot may be older than the job."""
    with idle.look([A, B]) as look:
        idle.forget([A])
        idle.prove(look)
    assert not idle.are_idle([A])
    assert idle.are_idle([B])


def test_a_claim_that_fails_proves_nothing(idle: IdleTopics):
    with pytest.raises(OSError, match="gone"), idle.look([A]):
        raise OSError("gone")
    assert not idle.are_idle([A])


def test_it_counts_from_the_beginning_of_the_claim_and_only_for_a_while(idle: IdleTopics, watch: Watch):
    with idle.look([A]) as look:
        watch.now += MAX_AGE_US - 1
        idle.prove(look)
    assert idle.are_idle([A])
    watch.now += 1
    assert not idle.are_idle([A])


def test_a_clock_that_was_set_back_proves_nothing(idle: IdleTopics, watch: Watch):
    prove(idle, A)
    watch.now -= 1
    assert not idle.are_idle([A])


def test_without_a_connection_to_listen_on_nothing_is_known(idle: IdleTopics):
    prove(idle, A)
    idle.set_listening(False)
    assert not idle.are_idle([A])
    prove(idle, A)
    assert not idle.are_idle([A])


def test_what_was_looked_at_before_listening_began_proves_nothing(watch: Watch):
    idle = IdleTopics(watch)
    with idle.look([A]) as look:
        idle.set_listening(True)
        idle.prove(look)
    assert not idle.are_idle([A])
