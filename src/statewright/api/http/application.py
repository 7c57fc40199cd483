"""The one HTTP application of a process, and the dialects that it serves.

A request passes, in this order: CORS, routing, authentication, its endpoint. Of what routing has found a stranger is
told nothing: the entity API turns it away before, so that it cannot even learn which paths exist
(docs/reference/authentication.md#routes-without-credentials).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Final
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from statewright.api.http import idempotency
from statewright.api.http.asgi import (
    ClientGone,
    Receive,
    RequestStream,
    ResponseTorn,
    Scope,
    Send,
    cancel_on_disconnect,
    get_address,
    get_path,
)
from statewright.api.http.declaration import check_parameters
from statewright.api.http.request import Request
from statewright.api.http.response import (
    CLIENT_GONE,
    HeaderAdder,
    Response,
    build_warning_headers,
    prime_stream,
    send_response,
)
from statewright.api.http.router import FoundRoute, Operation, PublicRoute, Router
from statewright.api.http.security import Cors, Headers, PageGuard, build_challenge, is_preflight
from statewright.auth import AuthenticationFailed, Authenticator, KeyNotKnownYet
from statewright.cluster.http_proxy import HttpProxy, RelayAbandoned, RelayTorn
from statewright.entity import READ_ONLY_ROLE, Principal
from statewright.failures import (
    Failure,
    Forbidden,
    MethodNotAllowed,
    PathNotFound,
    ReadOnly,
    StorageUnavailable,
    TransactionNodeUnavailable,
)
from statewright.ids import NodeId
from statewright.operations.idempotency import StoredAnswer
from statewright.services.core import Caller
from statewright.services.idempotency.execution import execute_for
from statewright.services.idempotency.keyed import AnswerFormat
from statewright.services.runtime import Runtime
from statewright.telemetry import logs
from statewright.telemetry.tracing import TRACEPARENT, TRACESTATE, Attribute, Span, TraceContext, parse_trace

Observe = Callable[[str, str, int, float], None]
"""Is told method, path of the route (empty when there is none), status and seconds of every answer."""


class ErrorFormat(Struct, frozen=True, kw_only=True):
    """How failures become responses. Each function is given the path of the request as its clients know it."""

    failure: Callable[[Failure, str], Response]
    unauthenticated: Callable[[Failure, str], Response]
    defect: Callable[[BaseException, str, bool], Response]
    """The last argument: whether the client may see the cause."""
    timeout: Callable[[], Response] | None = None
    """Of work that has taken too long; None: that is a defect."""


class Dialect(Struct, frozen=True, kw_only=True):
    """An API: its routes, all below ``base``, and what its clients expect: errors, origins, and what they learn before
    they have said who they are.

    ``is_closed``: a stranger is turned away before it could learn which paths exist. ``answers_options``: every path
    has the method ``OPTIONS``. ``joins_transactions``: a token in a header names the transaction to work in.
    """

    base: str
    errors: ErrorFormat
    observe: Observe | None = None
    """None where answers are not counted: to probes, and with pages of the console, which have metrics of their own."""
    routes: Sequence[Operation] = ()
    public: Sequence[PublicRoute] = ()
    authenticator: Authenticator | None = None
    cors: Cors | None = None
    guard: PageGuard | None = None
    """What web pages are refused; None where every caller has to say who it is."""
    is_closed: bool = False
    answers_options: bool = False
    joins_transactions: bool = False
    redirects: Mapping[str, str] = {}
    """Where paths lead that people type."""
    is_logged: bool = True
    """Whether its requests have lines in the access log; probes would fill it."""
    roots: tuple[str, ...] = ()
    """Paths that this dialect answers with everything below them; none: all that no other dialect answers."""


METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
OTHER_METHOD: Final = "OTHER"
"""What any further method is counted as: clients invent them at will."""

TRACE_HEADER: Final = TRACEPARENT.encode()

FIRST_SERVER_ERROR: Final = 500

log = logs.logger(__name__)


class HttpApplication:
    """Serves dialects; the last one answers whatever no other does. Without a ``runtime`` only public routes work."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        runtime: Runtime | None = None,
        *,
        proxy: HttpProxy | None = None,
        verbose_errors: bool = False,
        access_log: bool = False,
    ) -> None:
        self._dialects = dialects
        self._by_root = [(root, f"{root}/", dialect) for dialect in dialects for root in dialect.roots]
        self._roots = tuple(root for dialect in dialects for root in dialect.roots)
        self.runtime = runtime
        self.proxy = proxy
        self.verbose_errors = verbose_errors
        self.access_log = access_log
        """Whether every request has a line in the log."""
        operations = [(dialect.base, route) for dialect in dialects for route in dialect.routes]
        public = [("", route) for dialect in dialects for route in dialect.public]
        self._router = Router([*operations, *public])
        self.makes_spans = runtime is not None and runtime.core.tracer is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI wants it."""
        if scope["type"] != "http":
            return
        begun = perf_counter()
        method: str = scope["method"]
        path = get_path(scope)
        dialect = self._find_dialect(path)
        found = self._router.find(method, path)
        call = _Call(self, dialect, path, scope, receive)
        status = 0
        try:
            refusal = call.refuse(found)
            if call.undecided is not None:
                refusal = await call.decide(found, call.undecided)
            if refusal is None and call.owner is not None:
                status = await call.forward(call.owner, send)
            else:
                response = refusal or await call.run(found)
                status = await send_response(response, call.extra_headers, scope, receive, send)
        finally:
            if call.span is not None:
                end_request_span(call.span, status)
        pattern = found.route.path if isinstance(found, FoundRoute) else ""
        seconds = perf_counter() - begun
        if dialect.observe is not None:
            dialect.observe(method if method in METHODS else OTHER_METHOD, pattern, status, seconds)
        if self.access_log and dialect.is_logged:
            log.info("request_answered", status=status, ms=round(seconds * 1000, 1), **call.describe(pattern))

    def _find_dialect(self, path: str) -> Dialect:
        if path.startswith(self._roots):
            for root, below, dialect in self._by_root:
                if path == root or path.startswith(below):
                    return dialect
        return self._dialects[-1]


def end_request_span(span: Span, status: int) -> None:
    """The request was answered with a status; 0: its response was torn."""
    span.set("http.response.status_code", status)
    if not status or status >= FIRST_SERVER_ERROR:
        span.fail(str(status))
    span.end()


class _Call:
    """One request on its way through an application."""

    __slots__ = (
        "_application",
        "_dialect",
        "_headers",
        "_is_traced",
        "_path",
        "_principal",
        "_receive",
        "_scope",
        "extra_headers",
        "owner",
        "span",
        "undecided",
    )

    def __init__(
        self, application: HttpApplication, dialect: Dialect, path: str, scope: Scope, receive: Receive
    ) -> None:
        self._application = application
        self._dialect = dialect
        self._path = path
        self._scope = scope
        self._receive = receive
        self._principal: Principal | None = None
        self.undecided: Authenticator | None = None
        """Who decides who the caller is, where the key of the token has to be looked for before."""
        self._headers = receive.headers if isinstance(receive, RequestStream) else dict(scope["headers"])
        self.extra_headers: Headers = ()
        if dialect.cors is not None:
            origin = self._headers.get(b"origin")
            self.extra_headers = dialect.cors.others if origin is None else dialect.cors.headers(origin)
        self.owner: NodeId | None = None
        """The other node that owns the transaction which the request joins, once it is authenticated."""
        self.span: Span | None = None
        """Its span, or the trace that came with it; None outside all traces."""
        self._is_traced = application.makes_spans or TRACE_HEADER in self._headers

    def refuse(self, found: FoundRoute | tuple[str, ...]) -> Response | None:
        """The response when no endpoint is to run, or the permission that a browser asks for; else None."""
        dialect = self._dialect
        public = found.route if isinstance(found, FoundRoute) and isinstance(found.route, PublicRoute) else None
        stream = self._receive if isinstance(self._receive, RequestStream) else None
        if stream is not None and not (public is not None and public.is_probe):
            excess = stream.excess if public is None else stream.count(None)
            if excess is not None:
                return dialect.errors.failure(excess, self._shown_path)
        if dialect.guard is not None and (fault := dialect.guard.find_fault(self._scope["method"], self._headers)):
            return dialect.errors.failure(fault, self._shown_path)
        if dialect.cors is not None and self._scope["method"] == "OPTIONS" and is_preflight(self._headers):
            return Response(b"", dialect.cors.preflight_status, "", dialect.cors.preflight)
        if public is not None:
            if self._is_traced:
                self._begin_span(found)
            return None
        if isinstance(found, FoundRoute):
            pass
        elif (target := dialect.redirects.get(self._path)) and self._scope["method"] in {"GET", "HEAD"}:
            return Response(b"", 302, "", ((b"location", target.encode()),))
        elif not dialect.is_closed or not self._path.startswith(f"{dialect.base}/"):
            return self._refuse_path(found)
        authenticator = dialect.authenticator
        assert authenticator is not None  # noqa: S101 - a dialect with operations has one
        try:
            self._principal = authenticator.authenticate(self._get_header(b"authorization"))
        except KeyNotKnownYet:
            self.undecided = authenticator
            return None
        except AuthenticationFailed as refused:
            return self._refuse_stranger(refused, found)
        return self._admit(found)

    async def decide(self, found: FoundRoute | tuple[str, ...], authenticator: Authenticator) -> Response | None:
        """The same for a caller who was undecided."""
        try:
            self._principal = await authenticator.authenticate_later(self._get_header(b"authorization"))
        except AuthenticationFailed as refused:
            return self._refuse_stranger(refused, found)
        return self._admit(found)

    def _admit(self, found: FoundRoute | tuple[str, ...]) -> Response | None:
        """The response to a caller who is known, when no endpoint is to run; else None."""
        dialect = self._dialect
        if self._is_traced:
            self._begin_span(found)
        if isinstance(self._receive, RequestStream) and (excess := self._receive.count(self._principal)) is not None:
            return dialect.errors.failure(excess, self._shown_path)
        if dialect.joins_transactions and b"x-tx-token" in self._headers:
            self.owner = self._find_owner()
        return None if self.owner is not None or isinstance(found, FoundRoute) else self._refuse_path(found)

    def _begin_span(self, found: FoundRoute | tuple[str, ...]) -> None:
        """Take up the trace that came with the request. Who has not said who it is must not decide which traces are
        kept, nor whose they are.
        """
        runtime, trace = self._application.runtime, None
        if TRACE_HEADER in self._headers and self._principal is not None:
            trace = self._read_trace()
        if runtime is None or runtime.core.tracer is None or not self._dialect.is_logged:
            self.span = None if trace is None else Span(trace)
            return
        method = self._scope["method"] if self._scope["method"] in METHODS else OTHER_METHOD
        attributes: dict[str, Attribute] = {"http.request.method": method}
        name = method
        if isinstance(found, FoundRoute):
            route = found.route.path if isinstance(found.route, PublicRoute) else self._dialect.base + found.route.path
            attributes["http.route"], name = route, f"{method} {route}"
        if self._principal is not None:
            attributes["tenant"] = self._principal.tenant
        self.span = runtime.core.tracer.begin(name, "server", attributes, parent=trace)

    def _read_trace(self) -> TraceContext | None:
        return parse_trace(self._get_header(TRACE_HEADER) or "", self._get_header(TRACESTATE.encode()))

    def describe(self, pattern: str) -> dict[str, object]:
        """Who asked for what, for the access log; never the query, which may hold what is nobody's business."""
        principal = self._principal
        who = {} if principal is None else {"tenant": principal.tenant, "user": principal.id}
        asked = {"method": self._scope["method"], "path": unquote(self._path), "route": pattern or None}
        return {**asked, "client": get_address(self._scope) or None, **who}

    async def run(self, found: FoundRoute | tuple[str, ...]) -> Response:
        """Run the endpoint of a request that was not refused. Whatever happens becomes a response."""
        assert isinstance(found, FoundRoute)  # noqa: S101 - all else was refused
        errors, route = self._dialect.errors, found.route
        if isinstance(route, PublicRoute):
            return await self._run_public(route)
        try:
            with cancel_on_disconnect(self._receive):
                request = self._build_request(found, route)
                if idempotency.HEADER in self._headers and self._scope["method"] not in idempotency.SAFE_METHODS:
                    request, response = await self._answer_keyed(request, route)
                else:
                    response = await self._answer(route, request)
                if route.hold is not None and b"prefer" in self._headers and response.status < 300:
                    response = await route.hold(request, response)
                if isinstance(response.body, bytes):
                    return response
                return replace(response, body=await prime_stream(response.body))
        except ClientGone:
            log.info("client_gone", method=self._scope["method"], path=self._shown_path)
            return CLIENT_GONE
        except asyncio.CancelledError:  # not the client: the server cuts off what outlasts its shutdown
            return errors.failure(StorageUnavailable("the service is stopping"), self._shown_path)
        except Failure as failure:
            if self.span is not None:
                self.span.set("error.code", failure.code)
            return errors.failure(failure, self._shown_path)
        except Exception as error:  # whatever went wrong, the client gets an answer without details
            if isinstance(error, TimeoutError) and errors.timeout is not None:
                log.error("request_timed_out", method=self._scope["method"], path=self._shown_path)  # noqa: TRY400
                return errors.timeout()
            return errors.defect(error, self._shown_path, self._application.verbose_errors)

    async def _answer(self, route: Operation, request: Request) -> Response:
        allowed = route.allowed_roles
        if allowed and allowed.isdisjoint(request.caller.principal.roles):
            raise Forbidden(f"one of these roles is required: {', '.join(sorted(allowed))}")
        query = self._scope["query_string"]
        warnings = check_parameters(route, query) if query else ()
        if route.timeout is None:
            response = await route.endpoint(request)
        else:
            async with asyncio.timeout(route.timeout.total_seconds()):
                response = await route.endpoint(request)
        if warnings:
            response = replace(response, headers=(*response.headers, *build_warning_headers(warnings)))
        return response

    async def _answer_keyed(self, asked: Request, route: Operation) -> tuple[Request, Response]:
        """Answer a request with an ``Idempotency-Key``: its record counts before anything but who sends it. Gives the
        request as its endpoint had it, too.
        """
        key = idempotency.read_key(self._scope)
        if route.recording == "nothing":
            return asked, await self._answer(route, asked)
        body = await asked.body()  # as a whole, to be compared with others
        sealing = idempotency.find_sealing(asked.runtime) if route.answers_secret else None
        carried_out = asked
        fresh: Response | None = None

        async def work(runtime: Runtime, caller: Caller) -> StoredAnswer:
            nonlocal carried_out, fresh
            carried_out = asked.repeat(runtime, caller, body)
            fresh = await self._answer(route, carried_out)
            answer = caller.answer or idempotency.to_stored(fresh)
            return sealing.seal(answer) if sealing is not None and answer.is_success else answer

        errors, verbose = self._dialect.errors, self._application.verbose_errors
        executed = await execute_for(
            asked.runtime.core,
            asked.runtime,
            asked.caller,
            work,
            key=key,
            request_hash=await idempotency.hash_request(self._scope, self._headers, body),
            answer_format=AnswerFormat(
                lambda failure: idempotency.to_stored(errors.failure(failure, self._shown_path)),
                lambda defect: idempotency.to_stored(errors.defect(defect, self._shown_path, verbose)),
            ),
            recording=route.recording,
            size=len(body),
        )
        if executed.is_replay:
            answer = idempotency.unseal(executed.answer, asked.runtime)
            return carried_out, idempotency.to_response(answer, idempotency.REPLAYED)
        if fresh is not None and fresh.status == executed.answer.status:
            return carried_out, fresh  # with its warnings
        return carried_out, idempotency.to_response(executed.answer)

    async def forward(self, owner: NodeId, send: Send) -> int:
        """Let the node answer that owns the transaction which the request joins; the status."""
        proxy = self._application.proxy
        assert proxy is not None  # noqa: S101 - or no owner would have been found
        try:
            return await proxy.forward(owner, self._scope, self._receive, HeaderAdder(self.extra_headers, send))
        except TransactionNodeUnavailable as gone:
            response = self._dialect.errors.failure(gone, self._shown_path)
            return await send_response(response, self.extra_headers, self._scope, self._receive, send)
        except RelayAbandoned:
            log.info("client_gone", method=self._scope["method"], path=self._shown_path)
            return CLIENT_GONE.status
        except RelayTorn as torn:
            raise ResponseTorn from torn

    async def _run_public(self, route: PublicRoute) -> Response:
        path = self._scope["path"]
        try:
            return await route.endpoint(Request(self._scope, self._receive))
        except ClientGone:
            return CLIENT_GONE
        except Failure as failure:
            return self._dialect.errors.failure(failure, path)
        except Exception as error:  # whatever went wrong, the client gets an answer without details
            return self._dialect.errors.defect(error, path, self._application.verbose_errors)

    def _build_request(self, found: FoundRoute, route: Operation) -> Request:
        """What the endpoint is given. Raises ``ReadOnly`` for who may only read, and wants more."""
        runtime, principal = self._application.runtime, self._principal
        assert runtime is not None and principal is not None  # noqa: S101, PT018 - or it would have been refused
        caller = Caller(principal)
        if self._dialect.joins_transactions and (token := self._headers.get(b"x-tx-token")):
            caller = Caller(principal, runtime.core.transactions.find(token.decode("latin-1"), principal))
        params = found.read_params()
        is_change = self._scope["method"] not in idempotency.SAFE_METHODS and not route.is_read
        if is_change and READ_ONLY_ROLE in principal.roles:
            raise ReadOnly
        return Request(
            self._scope,
            self._receive,
            runtime=runtime,
            caller=caller,
            path_params=params,
            authenticator=self._dialect.authenticator,
        )

    def _find_owner(self) -> NodeId | None:
        """The node that owns the transaction a request joins; None when that is this one."""
        runtime = self._application.runtime
        if runtime is None or self._application.proxy is None:
            return None
        return runtime.core.transactions.find_owner(self._get_header(b"x-tx-token") or "")

    def _refuse_stranger(self, refused: AuthenticationFailed, found: FoundRoute | tuple[str, ...]) -> Response:
        if self._is_traced:
            self._begin_span(found)
        log.warning(
            "authentication_failed",
            reason=refused.reason,
            detail=refused.detail_for_log,
            method=self._scope["method"],
            path=self._shown_path,
        )
        response = self._dialect.errors.unauthenticated(refused, self._shown_path)
        return replace(response, headers=(*response.headers, build_challenge(refused.reason)))

    def _refuse_path(self, methods: Sequence[str]) -> Response:
        """There is no such path, or it has other methods."""
        errors = self._dialect.errors
        if not methods:
            return errors.failure(PathNotFound(), self._shown_path)
        if self._dialect.answers_options:
            methods = sorted([*methods, "OPTIONS"])
        allow = (b"allow", ", ".join(methods).encode())
        if self._scope["method"] == "OPTIONS" and self._dialect.answers_options:
            return Response(b"", 204, "", (allow,))
        refused = errors.failure(MethodNotAllowed(methods), self._shown_path)
        return replace(refused, headers=(*refused.headers, allow))

    def _get_header(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return value.decode("latin-1") if value is not None else None

    @property
    def _shown_path(self) -> str:
        """The path as the client meant it."""
        return unquote(self._path)
