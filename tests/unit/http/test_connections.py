"""Which connections without a request make room when a port is nearly full."""

from hypothesis import given
from hypothesis import strategies as st

from statewright.api.http.connections import MIN_IDLE_MS, choose_idle_time

IDLE = st.lists(st.integers(0, 100_000), max_size=200)
BUSY = st.integers(0, 200)
CONNECTIONS = st.integers(16, 400)


@given(IDLE, BUSY, CONNECTIONS)
def test_nothing_is_closed_while_there_is_room(idle_ms: list[int], busy: int, connections: int):
    if busy + len(idle_ms) <= connections * 3 // 4:
        assert choose_idle_time(idle_ms, busy=busy, connections=connections) is None


@given(IDLE, BUSY, CONNECTIONS)
def test_the_idlest_go_until_half_is_free_or_few_are_left(idle_ms: list[int], busy: int, connections: int):
    idle = choose_idle_time(idle_ms, busy=busy, connections=connections)
    if idle is not None and idle > MIN_IDLE_MS:
        left = [each for each in idle_ms if each < idle]
        assert len(left) <= max(connections // 2 - busy, connections // 16)


@given(IDLE, BUSY, CONNECTIONS)
def test_what_came_a_moment_ago_stays(idle_ms: list[int], busy: int, connections: int):
    idle = choose_idle_time(idle_ms, busy=busy, connections=connections)
    assert idle is None or idle >= MIN_IDLE_MS


def test_requests_do_not_take_the_room_of_connections_that_have_none_yet():
    assert choose_idle_time([5000] * 10, busy=90, connections=100) == 5000
    assert choose_idle_time([5000] * 6, busy=90, connections=100) is None
