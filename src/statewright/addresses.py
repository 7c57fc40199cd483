"""Whom the address of a client stands for where requests are counted."""

from ipaddress import IPv6Address, ip_address
from typing import Final

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
