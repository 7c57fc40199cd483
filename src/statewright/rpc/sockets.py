"""What is asked of the sockets of clients."""

import asyncio
import socket
from typing import Final

IDLE_S: Final = 60
"""After which TCP asks whether the client is still there, and how long sent bytes may stay unacknowledged."""


def watch(transport: asyncio.Transport) -> None:
    """Has TCP find out that a client is gone which could not say so."""
    connected = transport.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", IDLE_S), ("TCP_KEEPINTVL", 10), ("TCP_USER_TIMEOUT", IDLE_S * 1000)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def peer_of(transport: asyncio.Transport) -> str:
    """The client's address, spelled as grpcio spells it."""
    host, port, *_ = transport.get_extra_info("peername") or ("", 0)
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
