"""Sockets that listen, and peers that are watched."""

import socket


def bind_listening_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound socket; ``::`` stands for all addresses of both families. ``shared`` lets others of the same user
    bind the port too, and the kernel spreads connections. What is written to an accepted connection leaves at once:
    the HTTP server sends a streamed response in small pieces, the next of which would wait for the acknowledgement of
    the one before, up to 40 ms.

    Raises ``OSError`` when the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


def enable_keepalive(
    connected: socket.socket, *, idle_s: int, interval_s: int, unacknowledged_s: int, probes: int | None = None
) -> None:
    """Have TCP find out that a peer is gone which could not say so: after ``idle_s`` it is asked every ``interval_s``,
    and what was sent may stay unacknowledged for ``unacknowledged_s``. Options that the platform lacks are skipped, and
    a Unix socket needs no watching.
    """
    if connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", idle_s),
        ("TCP_KEEPINTVL", interval_s),
        ("TCP_KEEPCNT", probes),
        ("TCP_USER_TIMEOUT", unacknowledged_s * 1000),
    ):
        option = getattr(socket, name, None)
        if option is not None and value is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
