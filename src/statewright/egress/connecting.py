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
from typing import Any, Final, TypeAlias, TypeVar, cast

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

_MAX_AHEAD_BYTES: Final = 256 * 1024
"""That have come and are not read yet; for more the server has to wait."""

_MAX_HELD_BYTES: Final = 64 * 1024
"""Of one piece that waits for others to be sent with."""

_INFO: Final = {"client_addr": "sockname", "server_addr": "peername"}
"""What the event loop calls what the pool asks for."""


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

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface of httpcore
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to ``host``, within ``timeout`` seconds."""
        del local_address, socket_options  # the pool gives none
        try:
            async with asyncio.timeout(timeout):
                addresses = await self.find_addresses(host, port)
                return await try_each(addresses, lambda address: self._connect(address, port))
        except TimeoutError as late:
            raise httpcore.ConnectTimeout from late
        except OSError as failure:
            raise httpcore.ConnectError(str(failure)) from failure

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

    async def _connect(self, address: Address, port: int) -> httpcore.AsyncNetworkStream:
        connected = await connect_socket(address, port)
        try:
            loop = asyncio.get_running_loop()
            _, stream = await loop.create_connection(lambda: _Connection(self._policy), sock=connected)
        except BaseException:  # cancelled, too
            connected.close()
            raise
        return stream

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


class _Connection(httpcore.AsyncNetworkStream, asyncio.Protocol):
    """A connection, as the pool reads and writes it. It reads in portions, and no more for one request than any
    response may come to: framing and heads that come before that of the response count as well.

    The stream of ``httpcore`` itself goes through another library, which costs the event loop several turns, timers and
    system calls per request. Here what is written is sent when the answer is waited for: head and body at once.
    """

    def __init__(self, policy: EgressPolicy) -> None:
        self._max_bytes = 2 * (policy.limits.max_body_bytes + policy.limits.max_header_bytes)
        self._count = 0
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._received = bytearray()
        self._is_paused = False
        self._is_over = False
        self._failure: Exception | None = None
        self._changed = asyncio.Event()
        self._is_full = False

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See :class:`asyncio.Protocol`, as for the next five."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class, which does not derive from it

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _MAX_AHEAD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self._failure = True, exc
        self._changed.set()

    def eof_received(self) -> None:
        self._is_over = True
        self._changed.set()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._changed.set()

    async def _wait_while(
        self, lasts: Callable[[], bool], seconds: float | None, late: type[httpcore.TimeoutException]
    ) -> None:
        """As long as something lasts, and the connection. Raises ``late``."""
        try:
            async with asyncio.timeout(seconds):
                while lasts() and not self._is_over:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise late from None

    # What the pool asks for.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """See ``httpcore.AsyncNetworkStream``, as for the next four."""
        await self._flush(timeout)
        await self._wait_while(lambda: not self._received, timeout, httpcore.ReadTimeout)
        if not self._received and self._failure is not None:
            raise httpcore.ReadError(str(self._failure)) from self._failure
        part = bytes(self._received[: min(max_bytes, MAX_READ_BYTES)])
        del self._received[: len(part)]
        if self._is_paused and not self._received and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self._count += len(part)
        if self._count > self._max_bytes:
            raise Refused(HttpFailure(reason="body_too_large", detail="the response has no end", was_sent=True))
        return part

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._count = 0
        self._unsent.append(buffer)
        if len(buffer) > _MAX_HELD_BYTES:
            await self._flush(timeout)

    async def _flush(self, timeout: float | None) -> None:  # noqa: ASYNC109
        if not self._unsent:
            return
        data = b"".join(self._unsent)
        self._unsent.clear()
        if self._is_over or self._transport is None or self._transport.is_closing():
            return  # what the server has said before is still to be read
        self._transport.write(data)
        if self._is_full:
            await self._wait_while(lambda: self._is_full, timeout, httpcore.WriteTimeout)

    async def aclose(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        plain, self._transport = self._transport, None
        assert plain is not None  # noqa: S101 - connected
        if self._received:  # in the clear, by anybody on the way; it would be taken for the answer
            plain.abort()
            raise httpcore.ConnectError("the server speaks before TLS")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                self._transport = await loop.start_tls(plain, self, ssl_context, server_hostname=server_hostname)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        except OSError as failure:  # of TLS, too
            raise httpcore.ConnectError(str(failure)) from failure
        finally:
            if self._transport is None:  # cancelled, too
                plain.abort()
        return self

    def get_extra_info(self, info: str) -> Any:  # Any: the interface of httpcore
        if info == "is_readable":  # while nothing is asked for: the server has closed, or says what it was not asked
            return self._is_over or bool(self._received)
        return None if self._transport is None else self._transport.get_extra_info(_INFO.get(info, info))
