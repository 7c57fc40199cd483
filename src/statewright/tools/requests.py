"""Tasks of the kind ``http`` within pipelines of this worker: sent by the worker itself, to any address but those by
which machines of clouds are told their credentials.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

import httpx

from statewright.network.sockets import translate_resets

METADATA: Final = (
    IPv4Network("169.254.0.0/16"),  # link-local; metadata of most clouds
    IPv4Network("168.63.129.16/32"),  # a public address by which machines of a large cloud reach their host
    IPv4Network("100.100.100.200/32"),  # metadata of another
    IPv6Network("fe80::/10"),  # link-local
    IPv6Network("fd00:ec2::/32"),  # metadata and time of a cloud
)


class AddressRefused(httpx.ConnectError):
    """The host has an address that this worker sends nothing to."""


class GuardedTransport(httpx.AsyncBaseTransport):
    """Connects to the very addresses that were judged, so that a name cannot mean another one afterwards."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises :class:`AddressRefused`, and what httpx raises."""
        host = request.url.host
        addresses = await _resolve(host)
        if any(map(is_metadata, addresses)):
            raise AddressRefused("the host has an address that is not permitted", request=request)
        named = [] if _is_literal(host) else [("sni_hostname", host)]
        failure: httpx.ConnectError | None = None
        for address in addresses:
            sent = httpx.Request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers=request.headers,  # the header Host among them
                stream=request.stream,
                extensions={**request.extensions, **dict(named)},
            )
            try:
                with translate_resets(httpx.ConnectError):
                    return await self._inner.handle_async_request(sent)
            except httpx.ConnectError as error:
                failure = error
        raise failure or httpx.ConnectError("the host has no address", request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def is_metadata(address: IPv4Address | IPv6Address) -> bool:
    """Whether it is, or stands for, one of :data:`METADATA`."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in METADATA if network.version == address.version)


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _resolve(host: str) -> list[IPv4Address | IPv6Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpx.ConnectError(f"the name cannot be resolved: {error}") from error
    return list(dict.fromkeys(ip_address(str(address[4][0]).partition("%")[0]) for address in found))
