"""The ASGI application that uvicorn serves.

A request passes, in this order: CORS, the public routes, authentication, routing. Authentication comes before routing,
so that an unauthenticated caller cannot even learn which paths exist (spec/auth-and-operations.md §2). The hot routes
are recognised here and answered without Litestar, which would double the cost of reading an entity; everything else
goes through it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Final, cast
from urllib.parse import unquote

import structlog
from litestar.types import ASGIApp
from msgspec import Struct
from msgspec.structs import replace

from statewright.api.http.cors import PREFLIGHT_HEADERS, Cors, is_preflight
from statewright.api.http.cycle import LIFELINE, Cycle
from statewright.api.http.exchange import Answer, ClientGone, Exchange, Message, Receive, Scope, Send
from statewright.api.http.hot_routes import has_stray_slash, hot_route
from statewright.api.http.litestar_app import litestar_app, segments_of
from statewright.api.http.problems import internal_error, problem
from statewright.api.http.routes.route import Route
from statewright.api.http.streamed import begun, stream
from statewright.api.http.watch import Watch
from statewright.auth import AuthenticationFailed, Authenticator
from statewright.cluster.relay import HttpRelay
from statewright.entity import Principal
from statewright.failures import Failure, StorageUnavailable, TransactionNodeUnavailable
from statewright.services.runtime import Caller, Runtime

Headers = tuple[tuple[bytes, bytes], ...]
Observe = Callable[[str, int, float], None]
"""Is told method, status and seconds of every answer."""

STATE: Final = "front"
"""Under this name Litestar, which wants a mapping, carries what the front has found out."""

Public = Callable[["PublicRequest"], Awaitable[Answer]]

ANY_BELOW: Final = "*"
"""Stands for the method of what is served to any method, at a path and everywhere below."""

_TEXT: Final = "text/plain; charset=utf-8"
_NOBODY_LISTENS: Final = Answer(b"", 499, _TEXT)
"""Never sent; the status is what access logs of proxies say for it."""

_NOT_FOUND: Final = Answer(b"404 page not found\n", 404, _TEXT)

log = structlog.get_logger(__name__)


class PublicRequest(Struct, frozen=True):
    """A request that needs no credentials, or brings its own."""

    scope: Scope
    receive: Receive


class Front:
    """The HTTP door of one process. ``public`` maps (method, path) to what is served without a bearer token;
    the method may be ``ANY_BELOW``.
    """

    def __init__(
        self,
        runtime: Runtime,
        authenticator: Authenticator,
        *,
        context_path: str,
        cors: Cors | None,
        public: Mapping[tuple[str, str], Public],
        observe: Observe,
        verbose_errors: bool = False,
        relay: HttpRelay | None = None,
    ) -> None:
        self._runtime = runtime
        self._authenticator = authenticator
        self._context_path = context_path
        self._below = f"{context_path}/"
        self._observe = observe
        self._cors = cors
        self._public = public
        self._public_trees = [(path, serve) for (method, path), serve in public.items() if method == ANY_BELOW]
        self._verbose_errors = verbose_errors
        self._relay = relay
        self._routes: ASGIApp = litestar_app(self._respond)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._routes(cast("object", scope), receive, send)  # type: ignore[arg-type]
            return
        if scope["type"] != "http":
            return
        begun = perf_counter()
        status = await self._serve(scope, receive, send)
        self._observe(scope["method"], status, perf_counter() - begun)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request; the status of the answer."""
        given: dict[bytes, bytes] = dict(scope["headers"])
        extra = self._cors.headers(given.get(b"origin")) if self._cors else ()
        if self._cors and scope["method"] == "OPTIONS" and is_preflight(given):
            return await _send(Answer(b"", 204, "", PREFLIGHT_HEADERS), extra, scope, send)
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        public = self._public.get((scope["method"], path)) or self._public_tree(path)
        if public is not None:
            return await _send(await self._serve_public(public, scope, receive), extra, scope, send)
        if not path.startswith(self._below):
            return await _send(_NOT_FOUND, extra, scope, send)
        own_path = path[len(self._context_path) :]
        try:
            principal = self._authenticator.authenticate(_text(given.get(b"authorization")))
        except AuthenticationFailed as refused:
            reason, detail = refused.reason, refused.detail_for_log
            log.warning("authentication_failed", reason=reason, detail=detail, method=scope["method"], path=own_path)
            return await _send(problem(refused, unquote(own_path)), extra, scope, send)
        scope["state"] = State(principal, own_path, _text(given.get(b"x-tx-token")))
        if b"x-tx-token" in given and (status := await self._relayed(scope, receive, send, extra)) is not None:
            return status
        route = hot_route(scope["method"], own_path)
        if route is not None:
            return await _send(await self._respond(route, scope, receive), extra, scope, send)
        return await self._routed(scope, receive, send, extra)

    async def _routed(self, scope: Scope, receive: Receive, send: Send, extra: Headers) -> int:
        """Let Litestar find the route of an authenticated request."""
        path = _state(scope).path
        allowed = [method for method, public in self._public if public == f"{self._context_path}{path}"]
        if allowed:
            headers = ((b"allow", ", ".join(allowed).encode()),)
            return await _send(Answer(b"", 405, "", headers), extra, scope, send)
        if has_stray_slash(path):
            return await _send(_NOT_FOUND, extra, scope, send)
        inner = {**scope, "state": {STATE: scope["state"]}, "path": path, "raw_path": path.encode("latin-1")}
        adding = Adding(extra, send)
        await self._routes(cast("object", inner | {"root_path": ""}), receive, adding)  # type: ignore[arg-type]
        return adding.status

    async def _relayed(self, scope: Scope, receive: Receive, send: Send, extra: Headers) -> int | None:
        """Let the node answer that owns the transaction a request joins; the status. None when that is this one."""
        state = _state(scope)
        owner = self._runtime.transactions.owner(state.tx_token or "")
        if owner is None or self._relay is None:
            return None
        try:
            return await self._relay.forward(owner, scope, receive, Adding(extra, send))
        except TransactionNodeUnavailable as gone:
            return await _send(problem(gone, unquote(state.path)), extra, scope, send)

    def _public_tree(self, path: str) -> Public | None:
        for root, serve in self._public_trees:
            if path.startswith(root) and path[len(root) : len(root) + 1] in {"", "/"}:
                return serve
        return None

    async def _serve_public(self, public: Public, scope: Scope, receive: Receive) -> Answer:
        try:
            return await public(PublicRequest(scope, receive))
        except Failure as failure:
            return problem(failure, scope["path"])
        except Exception as error:  # the door: whatever went wrong, the client gets an answer without details
            return internal_error(error, scope["path"], verbose=self._verbose_errors)

    async def _respond(self, route: Route, scope: Scope, receive: Receive) -> Answer:
        """Run an endpoint. Whatever happens becomes an answer."""
        state = _state(scope)
        path = state.path
        try:
            exchange = Exchange(
                scope,
                receive,
                runtime=self._runtime,
                caller=self._caller(state),
                segments=segments_of(route, path),
            )
            with Watch(scope):
                answer = await route.endpoint(exchange)
                return answer if isinstance(answer.body, bytes) else replace(answer, body=await begun(answer.body))
        except ClientGone:
            log.info("client_gone", method=scope["method"], path=unquote(path))
            return _NOBODY_LISTENS
        except asyncio.CancelledError:  # not the client: the server cuts off what outlasts its shutdown
            return problem(StorageUnavailable("the service is stopping"), unquote(path))
        except Failure as failure:
            return problem(failure, unquote(path))
        except Exception as error:  # the door: whatever went wrong, the client gets an answer without details
            return internal_error(error, unquote(path), verbose=self._verbose_errors)

    def _caller(self, state: "State") -> Caller:
        """The principal, inside the transaction that a callback names by its token."""
        if not state.tx_token:
            return Caller(state.principal)
        return Caller(state.principal, self._runtime.transactions.find(state.tx_token, state.principal))


class State(Struct, frozen=True):
    """What the front has found out about a request: its principal, its path below the context path, its token."""

    principal: Principal
    path: str
    tx_token: str | None


def _state(scope: Scope) -> State:
    state: State | dict[str, State] = scope["state"]
    return state if isinstance(state, State) else state[STATE]


def _text(header: bytes | None) -> str | None:
    return header.decode("latin-1") if header is not None else None


async def _send(answer: Answer, extra: Headers, scope: Scope, send: Send) -> int:
    headers = [*extra, *answer.headers]
    if answer.media_type:
        headers.append((b"content-type", answer.media_type.encode()))
    if isinstance(answer.body, bytes):
        lifeline: Cycle | None = scope.get("extensions", {}).get(LIFELINE)
        if lifeline is not None:  # one call and one write instead of two
            lifeline.respond(answer.status, headers, answer.body)
            return answer.status
        headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
    else:
        await stream(answer.body, answer.status, headers, scope, send)
    return answer.status


class Adding:
    """``send`` with headers added to the response, whose ``status`` it remembers."""

    def __init__(self, extra: Headers, send: Send) -> None:
        self.status = 500
        self._extra = extra
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._extra]}
        await self._send(message)
