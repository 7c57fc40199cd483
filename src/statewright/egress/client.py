"""Sending a request under a policy.

How many requests are under way at a time is limited, in all and of each tenant. A redirect is followed as RFC 9110,
section 15.4, says. Servers prove who they are to the usual authorities, and to those that the policy adds.

Bodies of responses are no longer than permitted, packed or not. Responses are asked for as they are. A server that
packs its own all the same is understood, within the same limit: a few bytes of gzip can stand for gigabytes, so they
are unpacked in small steps.
"""

import asyncio
import socket
import ssl
import zlib
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

import h11
import httpcore
import httpx
from msgspec import structs

from statewright.egress.connecting import CheckedBackend, Refused, Resolver, SystemResolver, connect_socket, try_each
from statewright.egress.policy import (
    EgressLimits,
    EgressPolicy,
    FailureReason,
    HttpFailure,
    HttpRequest,
    HttpResponse,
    NotReached,
    format_host,
    get_port,
)
from statewright.network.tls import TLS_VERSIONS, load_authorities


def build_client_context(policy: EgressPolicy) -> ssl.SSLContext:
    """What a client of TLS needs. ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` replace the usual authorities. Raises
    ``OSError`` when the file of the policy cannot be used.
    """
    context = httpx.create_ssl_context()
    context.minimum_version = TLS_VERSIONS[policy.min_tls]
    if policy.certificates is not None:
        load_authorities(context, policy.certificates)
    return context


_STEP_BYTES: Final = 64 * 1024
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


async def read_body(parts: AsyncIterable[bytes], encoding: str, max_bytes: int, *, cuts: bool = False) -> bytes:
    """The whole body, unpacked. One of more than ``max_bytes`` is cut, or raises ``Refused``, as do other encodings
    than gzip and deflate.
    """
    body = bytearray()
    async for part in parts if encoding in {"", "identity"} else _unpack(parts, encoding):
        body += part
        if len(body) > max_bytes:
            if cuts:
                break
            raise Refused(HttpFailure(reason="body_too_large", detail=f"more than {max_bytes} bytes", was_sent=True))
    return bytes(body[:max_bytes])


async def _unpack(parts: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    if encoding not in _WINDOWS:
        detail = "the response is neither plain nor packed by gzip or deflate"
        raise Refused(HttpFailure(reason="encoding_unsupported", detail=detail, was_sent=True))
    unpacker = zlib.decompressobj(_WINDOWS[encoding])
    async for part in parts:
        packed = part
        while packed and not unpacker.eof:
            try:
                yield unpacker.decompress(packed, _STEP_BYTES)
            except zlib.error:
                raise Refused(_describe_malformed("the response is packed badly")) from None
            packed = unpacker.unconsumed_tail
            await asyncio.sleep(0)
    if not unpacker.eof:
        raise Refused(_describe_malformed("the packed response ends early"))


def _describe_malformed(detail: str) -> HttpFailure:
    return HttpFailure(reason="response_malformed", detail=detail, was_sent=True)


_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
_GO_ANYWHERE: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers that another host than the one they were written for is sent: none that could hold a secret."""


def follow_redirect(request: HttpRequest, response: HttpResponse) -> HttpRequest | None:
    """The request that ``response`` leads to; None when it is no redirect. Raises ``Refused`` for one that leads
    nowhere, or from https to http. Whether its URL is permitted is for the policy to say.
    """
    location = response.get_header("location")
    if response.status not in _STATUSES or location is None:
        return None
    here = httpx.URL(response.url)
    try:
        there = here.join(location)
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise Refused(_refuse("the redirect leads nowhere")) from None
    if here.scheme == "https" and there.scheme != "https":
        raise Refused(_refuse("the redirect leads from https to another scheme"))
    following = structs.replace(request, url=str(there))
    if _get_origin(here) != _get_origin(there):
        kept = tuple((name, value) for name, value in following.headers if name.lower() in _GO_ANYWHERE)
        following = structs.replace(following, headers=kept)
    return _drop_body(following) if _becomes_get(response.status, request.method) else following


def _becomes_get(status: int, method: str) -> bool:
    return (status == 303 and method != "HEAD") or (status in {301, 302} and method == "POST")


def _drop_body(request: HttpRequest) -> HttpRequest:
    headers = tuple((name, value) for name, value in request.headers if name.lower() != "content-type")
    return structs.replace(request, method="GET", headers=headers, body=b"")


def _get_origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _refuse(detail: str) -> HttpFailure:
    return HttpFailure(reason="redirect_refused", detail=detail, was_sent=True)


class _Queue:
    """Requests of a tenant, under way and waiting."""

    __slots__ = ("count", "semaphore")

    def __init__(self, most: int) -> None:
        self.semaphore = asyncio.Semaphore(most)
        self.count = 0


class ConcurrencyLimit:
    """Lets so many requests begin, and so many more wait. A tenant whose servers are slow waits by itself: what the
    others may have under way it cannot take from them, as long as not all together ask for too much.
    """

    def __init__(self, limits: EgressLimits) -> None:
        self._limits = limits
        self._all = asyncio.Semaphore(limits.max_requests)
        self._tenants: dict[str, _Queue] = {}

    @asynccontextmanager
    async def hold(self, tenant: str) -> AsyncIterator[None]:
        """A request of ``tenant`` is under way inside the block. Raises ``Refused`` when too many wait already."""
        most = self._limits.max_tenant_requests
        queue = self._tenants.setdefault(tenant, _Queue(most))
        if queue.count >= most + self._limits.max_tenant_waiting:
            detail = f"{queue.count} requests of the tenant are under way or waiting"
            raise Refused(HttpFailure(reason="too_many_requests", detail=detail))
        queue.count += 1
        try:
            async with queue.semaphore, self._all:
                yield
        finally:
            queue.count -= 1
            if queue.count == 0:
                del self._tenants[tenant]


_Error = TypeVar("_Error", bound=BaseException)

_HEADERS_OF_THE_CONNECTION: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect"}
    | {"proxy-authorization", "proxy-connection", "accept-encoding"}
)
"""A caller who could set these would make two requests of one, or speak to another host than the one that is checked.
"""
_KEEP_ALIVE_S: Final = 4.0
"""How long a connection is kept for the next request: less than the servers that close them after five seconds."""


class Egress:
    """Sends requests as its policy permits. ``resolve`` replaces the resolver of the system. Close it in the end."""

    def __init__(self, policy: EgressPolicy, *, resolve: Resolver | None = None) -> None:
        self.policy = policy
        self.outcomes: Counter[str] = Counter()
        """How often there was a ``response``, or a failure for each reason."""
        self._resolver = SystemResolver()
        self._backend = CheckedBackend(policy, resolve or self._resolver)
        self._concurrency = ConcurrencyLimit(policy.limits)
        self._pool: httpcore.AsyncConnectionPool | None = None

    async def send(self, request: HttpRequest) -> HttpResponse | HttpFailure:
        """The response to a request, or why there is none."""
        sending = _Sending()
        longest = self.policy.limits.timeout_s
        limit = longest if request.timeout_s is None else min(request.timeout_s, longest)
        try:
            async with asyncio.timeout(limit), self._concurrency.hold(request.tenant):
                outcome = await self._send_all(request, sending)
        except TimeoutError:
            outcome = HttpFailure(reason="timed_out", detail=f"no response within {limit:g} s")
        except Refused as refused:
            outcome = refused.failure
        if isinstance(outcome, HttpFailure):
            outcome = structs.replace(outcome, was_sent=outcome.was_sent or sending.has_begun)
        self.outcomes[outcome.reason if isinstance(outcome, HttpFailure) else "response"] += 1
        return outcome

    async def check(self, url: str) -> HttpFailure | None:
        """Why no request would be sent to ``url`` now; None when one would be. A name in it is resolved, unless the
        policy permits every address.
        """
        parsed = self.policy.check_url(url)
        if isinstance(parsed, HttpFailure) or self.policy.is_open:
            return parsed if isinstance(parsed, HttpFailure) else None
        try:
            async with asyncio.timeout(self.policy.limits.connect_timeout_s):
                await self._backend.find_addresses(parsed.host, get_port(parsed))
        except TimeoutError:
            return HttpFailure(reason="name_unresolved", detail=f"{parsed.host:.253} cannot be resolved in time")
        except Refused as refused:
            return refused.failure
        return None

    async def connect(self, host: str, port: int) -> socket.socket:
        """A socket that is connected with a server that is not called by HTTP, at an address that was checked. Raises
        ``NotReached``.
        """
        problem = self.policy.check_url(f"https://{format_host(host)}:{port}/")
        if isinstance(problem, HttpFailure):
            raise NotReached(problem)
        try:
            async with asyncio.timeout(self.policy.limits.connect_timeout_s):
                addresses = await self._backend.find_addresses(host, port)
                return await try_each(addresses, lambda address: connect_socket(address, port))
        except TimeoutError:
            raise NotReached(_describe("timed_out", f"no connection to {host:.253} in time")) from None
        except Refused as refused:
            raise NotReached(refused.failure) from None
        except OSError:
            raise NotReached(_describe("connection_failed", f"{host:.253} does not accept connections")) from None

    async def close(self) -> None:
        """Close the connections that are kept. To be called when no request is under way."""
        self._resolver.close()
        if self._pool is not None:
            await self._pool.aclose()

    async def _send_all(self, request: HttpRequest, sending: "_Sending") -> HttpResponse | HttpFailure:
        left = request.max_redirects
        while True:
            url = self.policy.check_url(request.url)
            if isinstance(url, HttpFailure):
                return url
            response = await self._send_one(url, request, sending)
            following = follow_redirect(request, response) if request.max_redirects else None
            if following is None:
                return response
            if left == 0:
                return HttpFailure(reason="too_many_redirects", detail=f"more than {request.max_redirects} redirects")
            left -= 1
            request = following

    async def _send_one(self, url: httpx.URL, request: HttpRequest, sending: "_Sending") -> HttpResponse:
        limits = self.policy.limits
        most = limits.max_body_bytes
        if len(request.body) > most:
            raise Refused(HttpFailure(reason="request_malformed", detail=f"a body of more than {most} bytes"))
        if request.max_response_bytes is not None:
            most = min(most, request.max_response_bytes)
        with _translate_errors(url.host):
            async with (await self._open_pool()).stream(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=_build_headers(url, request),
                content=request.body or None,
                extensions={"timeout": _build_timeouts(self.policy), "trace": sending.trace},
            ) as response:
                headers = _read_headers(response, limits.max_header_bytes)
                encoding = next((value for name, value in headers if name == "content-encoding"), "").strip().lower()
                body = await read_body(response.aiter_stream(), encoding, most, cuts=request.cuts_response)
                return HttpResponse(status=response.status, headers=headers, body=body, url=str(url))

    async def _open_pool(self) -> httpcore.AsyncConnectionPool:
        if self._pool is None:
            context = await asyncio.to_thread(build_client_context, self.policy)  # it reads 150 certificates
            most = self.policy.limits.max_requests
            self._pool = self._pool or httpcore.AsyncConnectionPool(
                ssl_context=context,
                max_connections=most,
                max_keepalive_connections=most,
                keepalive_expiry=_KEEP_ALIVE_S,
                network_backend=self._backend,
            )
        return self._pool


class _Sending:
    """Whether anything has been sent."""

    def __init__(self) -> None:
        self.has_begun = False

    async def trace(self, event: str, _info: Mapping[str, object]) -> None:
        """Called by the pool at every step."""
        if event == "http11.send_request_headers.started":
            self.has_begun = True


def _build_headers(url: httpx.URL, request: HttpRequest) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in request.headers}
    refused = names & _HEADERS_OF_THE_CONNECTION
    if refused:
        detail = f"the header {min(refused)} cannot be set"
        raise Refused(HttpFailure(reason="request_malformed", detail=detail))
    headers = [(b"Host", url.netloc), (b"Accept-Encoding", b"identity")]
    if "user-agent" not in names:
        headers.append((b"User-Agent", b"statewright"))
    try:
        headers += [(name.encode("ascii"), value.encode("latin-1")) for name, value in request.headers]
        request.method.encode("ascii")
    except UnicodeError:
        detail = "a method or a header has characters that cannot be sent"
        raise Refused(HttpFailure(reason="request_malformed", detail=detail)) from None
    if request.body or request.method in {"POST", "PUT", "PATCH"}:
        headers.append((b"Content-Length", str(len(request.body)).encode()))
    return headers


def _build_timeouts(policy: EgressPolicy) -> dict[str, float]:
    limits = policy.limits
    read = limits.read_timeout_s
    return {"connect": limits.connect_timeout_s, "read": read, "write": read, "pool": limits.timeout_s}


def _read_headers(response: httpcore.Response, max_bytes: int) -> tuple[tuple[str, str], ...]:
    if response.status == 101:
        raise Refused(HttpFailure(reason="response_malformed", detail="another protocol was not asked for"))
    if sum(len(name) + len(value) for name, value in response.headers) > max_bytes:
        raise Refused(HttpFailure(reason="headers_too_large", detail=f"more than {max_bytes} bytes"))
    return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers)


@contextmanager
def _translate_errors(host: str) -> Iterator[None]:
    """Raises ``Refused`` for the failures of the pool. What they say could quote the request."""
    try:
        yield
    except httpcore.LocalProtocolError:
        raise Refused(_describe("request_malformed", "a method or a header is malformed")) from None
    except httpcore.ConnectTimeout:
        raise Refused(_describe("timed_out", f"no connection to {host:.253} in time")) from None
    except httpcore.TimeoutException:
        raise Refused(_describe("timed_out", f"{host:.253} is silent")) from None
    except httpcore.ConnectError as error:
        tls_error = _find_origin(error, ssl.SSLError)
        if tls_error is not None:
            raise Refused(_describe("tls_failed", _describe_tls_error(tls_error))) from None
        raise Refused(_describe("connection_failed", f"{host:.253} does not accept connections")) from None
    except httpcore.RemoteProtocolError as error:
        origin = _find_origin(error, h11.RemoteProtocolError)
        if origin is not None and origin.error_status_hint == 431:
            raise Refused(_describe("headers_too_large", "the head of the response is too large")) from None
        if origin is None:
            raise Refused(_describe("connection_lost", f"{host:.253} has closed the connection")) from None
        raise Refused(_describe("response_malformed", "not a response of HTTP/1.1, or a part of one")) from None
    except httpcore.NetworkError:
        raise Refused(_describe("connection_lost", f"{host:.253} has closed the connection")) from None


def _describe(reason: FailureReason, detail: str) -> HttpFailure:
    return HttpFailure(reason=reason, detail=detail)


def _find_origin(error: BaseException | None, kind: type[_Error]) -> _Error | None:
    """The failure of a ``kind`` that the pool has translated: it drops causes, and keeps contexts."""
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error


def _describe_tls_error(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return (error.reason or "the handshake failed").replace("_", " ").lower()
