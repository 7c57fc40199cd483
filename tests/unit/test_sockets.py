"""Sockets that listen."""

import socket

from statewright.network.sockets import bind_listening_socket


def test_what_is_written_to_an_accepted_connection_leaves_at_once():
    with bind_listening_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
