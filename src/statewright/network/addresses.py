"""Where requests come from, and whom an address stands for where they are counted."""

from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

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


def _is_within(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return any((mapped or parsed) in network for network in networks)
