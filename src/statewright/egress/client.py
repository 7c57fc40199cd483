"""Sending a request under a policy."""

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

import h11
import httpcore
import httpx
from msgspec import structs

from statewright.egress.concurrency import ConcurrencyLimit
from statewright.egress.connecting import CheckedBackend, Refused
from statewright.egress.messages import FailureReason, HttpFailure, HttpRequest, HttpResponse
from statewright.egress.policy import EgressPolicy, get_port
from statewright.egress.redirects import follow_redirect
from statewright.egress.resolving import Resolver, SystemResolver
from statewright.egress.trust import build_client_context
from statewright.egress.unpacking import read_body

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
                body = await read_body(response.aiter_stream(), encoding, most)
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
