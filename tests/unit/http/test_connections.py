"""Which connections without a request make room when a port is nearly full."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.api.http import connections
from statewright.api.http.connections import (
    MIN_IDLE_MS,
    THREADS_OF_A_REQUEST,
    Client,
    ConnectionWatch,
    IdleLimits,
    choose_idle_time,
)

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


@given(IDLE, BUSY, CONNECTIONS, st.integers(0, 5000))
def test_what_came_a_moment_ago_stays_and_longer_when_we_are_late(
    idle_ms: list[int], busy: int, connections: int, late_ms: int
):
    idle = choose_idle_time(idle_ms, busy=busy, connections=connections, late_ms=late_ms)
    assert idle is None or idle >= MIN_IDLE_MS + THREADS_OF_A_REQUEST * late_ms


def test_requests_do_not_take_the_room_of_connections_that_have_none_yet():
    assert choose_idle_time([5000] * 10, busy=90, connections=100) == 5000
    assert choose_idle_time([5000] * 6, busy=90, connections=100) is None


class Requests:
    """Those under way as they were when a look began, and as they are."""

    def __init__(self) -> None:
        self.ended: dict[Client, float] = {}
        self.closing: dict[Client, float] = {}
        self.clients: set[Client] = set()
        self.arrived: set[Client] = set()

    def is_busy(self, client: Client) -> bool:
        return client in self.clients | self.arrived

    def abandon(self, client: Client) -> None:
        raise AssertionError(f"{client} is there")


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, Client]]]:
    """Fifteen clients of a port that has room for sixteen, and what the port is called by."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        found = list[tuple[socket.socket, Client]]()
        for _ in range(15):
            client = stack.enter_context(socket.create_connection(listener.getsockname()))
            stack.enter_context(listener.accept()[0])
            host, port = client.getsockname()
            found.append((client, (host, str(port))))
        yield found


def test_a_connection_whose_request_came_during_the_look_is_not_closed(
    pairs: list[tuple[socket.socket, Client]], monkeypatch: pytest.MonkeyPatch
):
    requests, now = Requests(), 1000.0
    monkeypatch.setattr(connections, "monotonic", lambda: now)
    port = pairs[0][0].getpeername()[1]
    watch = ConnectionWatch(port, IdleLimits(head_timeout_s=60, idle_timeout_s=60, connections=16), requests)
    asyncio.run(watch.look())  # they are known from now on, and too many
    now += 1
    requests.arrived = {pairs[0][1]}
    asyncio.run(watch.look())
    for client, _ in pairs:
        client.settimeout(0.2 if client is pairs[0][0] else 10)
    with pytest.raises(TimeoutError):
        pairs[0][0].recv(1)
    assert [client.recv(1) for client, _ in pairs[1:]] == [b""] * 14
