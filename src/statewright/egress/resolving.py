"""The addresses of a name."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final, TypeAlias

from statewright.egress.addresses import Address

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
"""All addresses of a name, for a port. Raises ``OSError``, also when there are none."""

_MAX_LOOKUPS: Final = 8


class SystemResolver:
    """Asks the resolver of the system, in threads of its own: who answers slowly keeps no other work waiting."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MAX_LOOKUPS, thread_name_prefix="resolver")

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return tuple(dict.fromkeys(found))

    def close(self) -> None:
        """Start no further look-up. Those under way are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as malformed:
        raise OSError("not a host name") from malformed
    return [ip_address(str(where[0]).partition("%")[0]) for *_, where in found]
