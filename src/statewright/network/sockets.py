"""Sockets that listen, peers that are watched, whom an address stands for where sources are counted, and connections
that are lost as soon as they are made.
"""

import ctypes
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

from msgspec import Struct


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


ACCEPT_TIME_S: Final = 0.2
"""At the end of a drain window, in which those are accepted that the system has let in, and no others come."""

_SO_ATTACH_FILTER: Final = 26
_DROP_SYN: Final = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the flags of the TCP header
        (0x45, 0, 1, 0x02),  # is SYN set?
        (0x06, 0, 0, 0),  # then drop the packet
        (0x06, 0, 0, 0xFFFFFFFF),  # else keep it
    )
)
"""A filter of sockets, in classic BPF."""


def refuse_connections(listener: socket.socket) -> None:
    """Let in no more connections, while those that wait are accepted. To be called before a socket is closed: those
    that still wait then are reset, when their clients have sent their first request already, and cannot know what
    became of it. Who tries to connect meanwhile hears nothing, tries again after a second, and is refused then.

    On Linux; elsewhere, and in sandboxes whose kernel has no filters, nothing happens.
    """
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(_DROP_SYN, len(_DROP_SYN))
        filter_ = struct.pack("HP", len(_DROP_SYN) // 8, ctypes.addressof(program))
        with suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)


KEEPALIVE_IDLE_S: Final = 60
"""After which TCP asks whether a client is still there, and how long sent bytes may stay unacknowledged."""


def bind_watched_socket(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """The same, for connections that clients keep: TCP finds out that one is gone which could not say so. Accepted
    connections inherit that, too.
    """
    listener = bind_listening_socket(host, port, shared=shared)
    enable_keepalive(listener, idle_s=KEEPALIVE_IDLE_S, interval_s=10, unacknowledged_s=KEEPALIVE_IDLE_S)
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


Network: TypeAlias = IPv4Network | IPv6Network

IPV6_SITE_BITS: Final = 64
"""Whoever has one address of IPv6 has so many of its last bits at will."""


def name_address(address: str) -> str:
    """The source that an address belongs to: itself, of IPv6 its site."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        if mapped is None:
            return f"{int(parsed) >> (128 - IPV6_SITE_BITS):x}::/{IPV6_SITE_BITS}"
        parsed = mapped
    return str(parsed)


def find_address(peer: str, forwarded: bytes, proxies: tuple[Network, ...]) -> str:
    """The address of a client whose connection comes from ``peer``: the same, unless that is one of the trusted
    ``proxies``. Then it is the last one in ``forwarded``, the value of ``X-Forwarded-For``, that is not of a trusted
    proxy either: what stands before it anybody may have written.
    """
    nearest = peer
    for text in (*reversed(forwarded.decode("latin-1").split(",")), ""):
        if not _is_within(nearest, proxies):
            return nearest
        try:
            nearest = str(ip_address(text.strip()))
        except ValueError:
            break
    return nearest


class PrivateConnections(Struct, frozen=True, kw_only=True):
    """Which connections may carry secrets: those with TLS, from loopback, and from trusted proxies, which are believed
    to speak TLS to the client.
    """

    has_tls: bool = False
    """Whether all listeners speak TLS."""
    proxies: tuple[Network, ...] = ()

    def is_private(self, peer: str) -> bool:
        """Whether a connection from an address is one, spelt plainly or as gRPC does (``ipv4:127.0.0.1:50123``)."""
        if self.has_tls:
            return True
        family, colon, rest = peer.partition(":")
        host = rest.rpartition(":")[0].strip("[]") if colon and family in ("ipv4", "ipv6") else peer
        return _is_within(host, (*LOOPBACK, *self.proxies))


LOOPBACK_ONLY: Final = PrivateConnections()
LOOPBACK: Final[tuple[Network, ...]] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1"))


def _is_within(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return any((mapped or parsed) in network for network in networks)


@contextmanager
def translate_resets(fail: Callable[[str], Exception]) -> Iterator[None]:
    """Raise what ``fail`` makes of a text for a connection that was reset at once, as by a server that is killed while
    clients connect.

    httpcore (1.0) asks anyio (4.16) for the TLS session of each new connection, anyio asks the socket for its peer, and
    on uvloop a connection that was lost has no socket any more: an ``AttributeError`` that nobody takes for a failure
    of the network.
    """
    try:
        yield
    except AttributeError as error:
        if error.name != "getpeername" or error.obj is not None:
            raise
        raise fail("Connection reset by peer") from error
