"""Which addresses outgoing requests may reach: those of the public internet, and networks that the operator names.

The blocked ranges are listed here rather than asked of :mod:`ipaddress`, whose answers change between versions of
Python. For IPv6 it is the other way round: only what has been given out for global unicast is not blocked.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

BLOCKED_IPV4: Final = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; metadata of some clouds
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a public address by which machines of a large cloud reach their host
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
GLOBAL_IPV6: Final = IPv6Network("2000::/3")
"""What lies outside is loopback, link-local, unique local, multicast, or not given out."""
BLOCKED_IPV6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",  # documentation
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_reachable(address: Address, allowed: Sequence[Network] = ()) -> bool:
    """Whether requests may go to ``address``: it is public, or in one of the ``allowed`` networks.

    An IPv4 address that an IPv6 one stands for (mapped, or translated by NAT64) is judged itself.
    """
    if isinstance(address, IPv6Address):
        inner = _find_ipv4(address)
        if inner is not None:
            address = inner
    if any(address in network for network in allowed if network.version == address.version):
        return True
    if isinstance(address, IPv4Address):
        return not any(address in block for block in BLOCKED_IPV4)
    return address in GLOBAL_IPV6 and not any(address in block for block in BLOCKED_IPV6)


def _find_ipv4(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else None
