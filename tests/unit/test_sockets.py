"""Sockets that listen."""

import socket
import sys

import pytest

from statewright.network.sockets import (
    KEEPALIVE_IDLE_S,
    bind_listening_socket,
    bind_watched_socket,
    refuse_connections,
)


def test_what_is_written_to_an_accepted_connection_leaves_at_once():
    with bind_listening_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.skipif(sys.platform != "linux", reason="this system cannot be told")
def test_before_a_socket_closes_those_in_its_queue_are_accepted_and_nobody_joins_them():
    with bind_listening_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()) as waiting:
            refuse_connections(listener)
            with pytest.raises(TimeoutError):
                socket.create_connection(listener.getsockname(), timeout=0.2)
            with listener.accept()[0] as accepted:
                waiting.sendall(b"a request")
                assert accepted.recv(9) == b"a request"


def test_a_system_that_takes_no_filter_lets_the_socket_close_as_it_is():
    listener = bind_listening_socket("127.0.0.1", 0)
    listener.close()  # nor does a closed one
    refuse_connections(listener)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system cannot be asked")
def test_connections_of_a_watched_socket_are_asked_after():
    with bind_watched_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_S
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == KEEPALIVE_IDLE_S * 1000
