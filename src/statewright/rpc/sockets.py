"""Sockets: listening ones, and what is asked of those of clients."""

import asyncio
import socket
from typing import Final

IDLE_S: Final = 60
"""After which TCP asks whether the client is still there, and how long sent bytes may stay unacknowledged."""


def bound(host: str, port: int, *, reuse_port: bool) -> socket.socket:
    """A socket on an address; ``::`` stands for all of both families. Raises ``OSError``."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


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
