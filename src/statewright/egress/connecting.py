"""Connections to checked addresses only.

The pool of ``httpcore`` asks its backend for a connection to a host, by name, and then speaks TLS with the server in
that name. So checking stands between the two: the name is resolved here, every address it has must be permitted, and
the connection is made to one of those. There is no second look-up that could be answered otherwise (DNS rebinding).
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, Final, TypeAlias, TypeVar

import httpcore

from statewright.egress.policy import Address, EgressPolicy, HttpFailure, read_literal

T = TypeVar("T")

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


MAX_READ_BYTES: Final = 16 * 1024
"""Bytes that are parsed at a time. A server may send them as thousands of parts, which must not take a long turn."""


class Refused(Exception):
    """The request ends with ``failure``."""

    def __init__(self, failure: HttpFailure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses that the policy permits. Raises :class:`Refused`."""

    def __init__(self, policy: EgressPolicy, resolve: Resolver) -> None:
        self._policy = policy
        self._resolve = resolve
        # pyright sees the class that stands in where anyio is missing.
        self._inner: httpcore.AsyncNetworkBackend = httpcore.AnyIOBackend()  # pyright: ignore[reportAttributeAccessIssue]

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to ``host``, within ``timeout`` seconds."""
        del local_address
        try:
            async with asyncio.timeout(timeout):
                addresses = await self.find_addresses(host, port)
                return await try_each(addresses, lambda address: self._connect(address, port, socket_options))
        except TimeoutError as late:
            raise httpcore.ConnectTimeout from late

    async def find_addresses(self, host: str, port: int) -> Sequence[Address]:
        """The addresses of ``host``, all of them permitted."""
        literal = read_literal(host)
        addresses = [literal] if literal is not None else await self._look_up(host, port)
        for address in addresses:
            problem = self._policy.find_address_problem(host, address)
            if problem is not None:
                raise Refused(problem)
        return addresses

    async def _look_up(self, host: str, port: int) -> Sequence[Address]:
        try:
            addresses = await self._resolve(host, port)
        except OSError:
            addresses = ()
        if not addresses:
            raise Refused(HttpFailure(reason="name_unresolved", detail=f"{host:.253} cannot be resolved"))
        return addresses

    async def _connect(
        self, address: Address, port: int, options: Iterable[httpcore.SOCKET_OPTION] | None
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(str(address), port, socket_options=options)
        return _MeteredStream(stream, self._policy)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Sockets of this machine are not called."""
        raise Refused(HttpFailure(reason="address_refused"))

    async def sleep(self, seconds: float) -> None:
        """Between attempts, of which there is one."""
        await asyncio.sleep(seconds)


async def try_each(addresses: Sequence[Address], connect: Callable[[Address], Awaitable[T]]) -> T:
    """What ``connect`` makes of the first address that accepts; raises what it does at the last one."""
    *others, last = addresses
    for address in others:
        try:
            return await connect(address)
        except (OSError, httpcore.ConnectError):
            continue
    return await connect(last)


async def connect_socket(address: Address, port: int) -> socket.socket:
    """A socket that is connected with an address. Raises ``OSError``."""
    made = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (str(address), port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:  # cancelled, too
        made.close()
        raise
    return made


class _MeteredStream(httpcore.AsyncNetworkStream):
    """Reads in portions, and no more for one request than any response may come to: framing and heads that come before
    that of the response count as well.
    """

    def __init__(self, inner: httpcore.AsyncNetworkStream, policy: EgressPolicy) -> None:
        self._inner = inner
        self._policy = policy
        self._max_bytes = 2 * (policy.limits.max_body_bytes + policy.limits.max_header_bytes)
        self._received = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        received = await self._inner.read(min(max_bytes, MAX_READ_BYTES), timeout)
        self._received += len(received)
        if self._received > self._max_bytes:
            raise Refused(HttpFailure(reason="body_too_large", detail="the response has no end", was_sent=True))
        return received

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._received = 0
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        inner = await self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _MeteredStream(inner, self._policy)

    def get_extra_info(self, info: str) -> Any:  # Any: the interface of httpcore
        return self._inner.get_extra_info(info)
