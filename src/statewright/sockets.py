"""Sockets that listen."""

import socket


def listening_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket; ``::`` stands for all addresses of both families. ``shared`` lets others of the same user
    bind the port too, and the kernel spreads connections.

    Raises ``OSError`` when the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener
