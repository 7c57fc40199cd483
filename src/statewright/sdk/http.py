"""Requests to the service over HTTP, for clients and nodes alike.

Traces of functions: their callouts may be a part of one, and so are the requests that they send
(docs/sdk.md#traces).

Where the program uses OpenTelemetry a function runs in a span of its own. Nothing is imported for that: who uses it has
imported it. Otherwise the trace is passed on as it came.
"""

import asyncio
import os
import socket
import ssl
import sys
import threading
from contextvars import Token
from typing import TYPE_CHECKING, Final, TypeAlias

import httpx

from statewright.network.sockets import translate_resets
from statewright.sdk.endpoint import NO_FILES, Address, Tls, advise_on_tls
from statewright.sdk.errors import Unreachable
from statewright.sdk.operations.calls import Call, HttpResponse
from statewright.sdk.tokens import TokenSource
from statewright.telemetry.tracing import Span, TraceContext, get_error_code, get_trace, list_trace_headers

if TYPE_CHECKING:
    from opentelemetry import trace as otel
    from opentelemetry.context import Context as OtelContext


def get_active_trace() -> TraceContext | None:
    """The place in a trace of what this task or thread does: by OpenTelemetry, where it is used, else as it came."""
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import trace as otel

        context = otel.get_current_span().get_span_context()
        if context.is_valid:
            return _to_trace(context)
    return get_trace()


def begin_function_span(name: str, trace: TraceContext | None) -> Span | None:
    """The span of a function; None outside all traces. ``trace`` is the one of its callout."""
    if "opentelemetry.trace" in sys.modules:
        return _begin_otel_span(name, trace)
    return None if trace is None else Span(trace)


class _FunctionSpan(Span):
    """A span of the program's own OpenTelemetry, which is the active one until it ends."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: "otel.Span", token: "Token[OtelContext]") -> None:
        super().__init__(_to_trace(span.get_span_context()))
        self._span = span
        self._token = token

    def end(self, error: BaseException | None = None) -> None:
        """The function has returned, or raised ``error``; its text stays with the program."""
        from opentelemetry import context, trace

        if error is not None:
            self._span.set_status(trace.StatusCode.ERROR, get_error_code(error))
        context.detach(self._token)
        self._span.end()
        super().end()


def _begin_otel_span(name: str, trace: TraceContext | None) -> Span | None:
    from opentelemetry import context
    from opentelemetry import trace as otel

    above = context.Context() if trace is None else otel.set_span_in_context(_to_remote_span(trace), context.Context())
    span = otel.get_tracer("statewright.sdk").start_span(name, above, otel.SpanKind.SERVER, record_exception=False)
    if not span.get_span_context().is_valid:
        return None
    return _FunctionSpan(span, context.attach(otel.set_span_in_context(span)))


def _to_remote_span(trace: TraceContext) -> "otel.Span":
    from opentelemetry import trace as otel

    state = otel.TraceState.from_header([trace.state]) if trace.state else None
    return otel.NonRecordingSpan(
        otel.SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), True, otel.TraceFlags(trace.flags), state)
    )


def _to_trace(context: "otel.SpanContext") -> TraceContext:
    state = context.trace_state.to_header()
    return TraceContext(f"{context.trace_id:032x}", f"{context.span_id:016x}", int(context.trace_flags), state)


CONNECT_TIMEOUT_S: Final = 10.0
RESPONSE_TIMEOUT_S: Final = 90.0
"""The validity of a transaction token, since a joined request may itself wait for processors."""

KEEPALIVE_EXPIRY_S: Final = 2.0
"""Shorter than servers keep idle connections, so that none is used that the server is just closing."""

LIMITS: Final = httpx.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_EXPIRY_S)
"""No limit to connections: a request may wait for one that it causes, and functions are limited already."""

UNAUTHORIZED: Final = 401

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)

_AnyClient: TypeAlias = httpx.Client | httpx.AsyncClient


class HttpTransport:
    """Connections to one service, made when the first request needs them. Safe in any thread, each request of which
    waits there; ``send_async`` belongs to one event loop.
    """

    def __init__(
        self,
        address: Address,
        tokens: TokenSource,
        tls: Tls = NO_FILES,
        *,
        timeout_s: float = RESPONSE_TIMEOUT_S,
    ) -> None:
        """``timeout_s``: how long an answer may take, unless its request says otherwise."""
        self._address = address
        self._tokens = tokens
        self._tls = tls
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._blocking: httpx.Client | None = None
        self._async: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"HttpTransport({self._address.api!r})"

    def send(self, call: Call) -> HttpResponse:
        """Wait for the answer in this thread.

        Raises ``Unreachable``; ``RuntimeError`` on an event loop, which must not wait.
        """
        if _is_on_event_loop():
            raise RuntimeError(
                "this client would hold up the event loop: async functions use AsyncClient, or context.async_client"
            )
        client = self._open_blocking()
        token = self._tokens.get_token_blocking()
        answer = self._send(client, call, token)
        if answer.status == UNAUTHORIZED and token is not None:
            self._tokens.invalidate()
            newer = self._tokens.get_token_blocking()
            if newer != token:
                return self._send(client, call, newer)
        return answer

    async def send_async(self, call: Call) -> HttpResponse:
        """Wait for the answer on the event loop. Raises ``Unreachable``."""
        client = self._open_async()
        token = await self._tokens.get_token()
        answer = await self._send_async(client, call, token)
        if answer.status == UNAUTHORIZED and token is not None:
            self._tokens.invalidate()
            newer = await self._tokens.get_token()
            if newer != token:
                return await self._send_async(client, call, newer)
        return answer

    def close(self) -> None:
        """Ends the connections of requests that waited in threads."""
        if self._blocking is not None:
            self._blocking.close()

    async def close_async(self) -> None:
        """Ends all connections."""
        self.close()
        if self._async is not None:
            await self._async.aclose()

    def _open_blocking(self) -> httpx.Client:
        with self._lock:
            self._blocking = self._blocking or httpx.Client(
                timeout=self._build_timeout(self._timeout_s),
                limits=LIMITS,
                verify=self._build_verification(),
                trust_env=not self._address.is_local,
            )
        return self._blocking

    def _open_async(self) -> httpx.AsyncClient:
        self._async = self._async or httpx.AsyncClient(
            timeout=self._build_timeout(self._timeout_s),
            limits=LIMITS,
            verify=self._build_verification(),
            trust_env=not self._address.is_local,
        )
        return self._async

    def _build_verification(self) -> ssl.SSLContext | bool:
        """What certificates are checked with; to read the system's takes longer than many a request."""
        return self._tls.build_context() if self._address.is_encrypted else False

    def _send(self, client: httpx.Client, call: Call, token: str | None) -> HttpResponse:
        request = self._build_request(client, call, token)
        try:
            return _to_response(client.send(request))
        except httpx.HTTPError as error:
            raise _to_unreachable(request, error) from error

    async def _send_async(self, client: httpx.AsyncClient, call: Call, token: str | None) -> HttpResponse:
        request = self._build_request(client, call, token)
        try:
            with translate_resets(httpx.ConnectError):
                return _to_response(await client.send(request))
        except httpx.HTTPError as error:
            raise _to_unreachable(request, error) from error

    def _build_request(self, client: _AnyClient, call: Call, token: str | None) -> httpx.Request:
        headers = {"Accept": "application/json", "Content-Type": "application/json", **call.headers}
        headers.update(list_trace_headers(get_active_trace()))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        base = self._address.origin if call.at_root else self._address.api
        timeout = self._build_timeout(call.timeout_s or self._timeout_s)
        return client.build_request(
            call.method,
            f"{base}{call.path}",
            params=call.query or None,
            content=call.body,
            headers=httpx.Headers(headers, encoding="utf-8"),
            timeout=timeout,
        )

    def _build_timeout(self, response_s: float) -> httpx.Timeout:
        return httpx.Timeout(response_s, connect=min(CONNECT_TIMEOUT_S, response_s))


def _to_response(response: httpx.Response) -> HttpResponse:
    return HttpResponse(response.status_code, response.content, dict(response.headers))


def _to_unreachable(request: httpx.Request, error: httpx.HTTPError) -> Unreachable:
    place = f"{request.url.scheme}://{request.url.netloc.decode()}"
    text = f"{request.method} {request.url.path} at {place}: {advise_on_tls(explain_failure(error))}"
    return Unreachable(text, was_sent=not isinstance(error, _NOT_SENT))


def explain_failure(error: BaseException) -> str:
    """What went wrong, in the words of the innermost cause that has some, without numbers of the operating system."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    for found in reversed(causes):
        if isinstance(found, OSError) and not isinstance(found, ssl.SSLError) and found.errno and found.strerror:
            is_own = isinstance(found, socket.gaierror)  # its numbers are not those of the system
            return found.strerror if is_own else os.strerror(found.errno)
    return str(error) or type(error).__name__


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
