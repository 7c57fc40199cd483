"""The ASGI application of the step dialect, in front of the one for entities (spec/step-engine.md §1).

Everything at ``/v1`` and below is its own, and so are ``/healthz`` and ``/readyz``; all the rest passes through.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Final
from urllib.parse import unquote

import structlog
from msgspec import Struct

from statewright.api.http.cors import Cors, is_preflight
from statewright.api.http.exchange import Answer, ClientGone, Exchange, Receive, Scope, Send
from statewright.api.http.steps.bodies import TEXT
from statewright.api.http.steps.refusals import error, internal_error, refused
from statewright.api.http.steps.routes import STEP_ROUTES, StepRoute
from statewright.api.http.watch import Watch
from statewright.auth import AuthenticationFailed, Authenticator
from statewright.entity import Principal
from statewright.failures import Failure, StorageUnavailable
from statewright.services.runtime import Caller, Runtime

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]
Observe = Callable[[str, str, int, float], None]
"""Is told method, pattern of the route, status and seconds of every answer."""

ROOT: Final = "/v1"
NOT_FOUND: Final = Answer(b"404 page not found\n", 404, TEXT)
ANY_ORIGIN: Final[Headers] = ((b"access-control-allow-origin", b"*"),)
PREFLIGHT: Final[Headers] = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (b"access-control-allow-headers", b"Accept, Authorization, Content-Type"),
    (b"access-control-max-age", b"300"),
)
_NOBODY_LISTENS: Final = Answer(b"", 499, TEXT)
"""Never sent; the status is what access logs of proxies say for it."""

log = structlog.get_logger(__name__)


class Found(Struct, frozen=True):
    """A route and the parameters of a path that matches it."""

    route: StepRoute
    segments: Mapping[str, str]


class StepDoor:
    """Serves the step dialect, and passes other requests on to ``beyond``.

    ``cors`` is None where it is switched off; without configured origins any may call, as clients of this dialect
    expect. ``ready`` says whether the service can do its work now.
    """

    def __init__(
        self,
        beyond: Application,
        runtime: Runtime,
        authenticator: Authenticator,
        *,
        cors: Cors | None,
        ready: Callable[[], Awaitable[bool]],
        observe: Observe,
        verbose_errors: bool = False,
    ) -> None:
        self._beyond = beyond
        self._runtime = runtime
        self._authenticator = authenticator
        self._cors = cors
        self._ready = ready
        self._observe = observe
        self._verbose_errors = verbose_errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] != "http":
            await self._beyond(scope, receive, send)
        elif path.startswith(ROOT) and path[len(ROOT) : len(ROOT) + 1] in {"", "/"}:
            await self._serve(scope, receive, send)
        elif path in {"/healthz", "/readyz"} and scope["method"] == "GET":
            await _send(await self._state(path), (), send)
        else:
            await self._beyond(scope, receive, send)

    async def _state(self, path: str) -> Answer:
        is_well = path == "/healthz" or await self._ready()
        return Answer(b"", 200 if is_well else 503, "")

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = perf_counter()
        given: dict[bytes, bytes] = dict(scope["headers"])
        extra = self._cross_origin(given.get(b"origin"))
        if self._cors and scope["method"] == "OPTIONS" and is_preflight(given):
            await _send(Answer(b"", 200, "", PREFLIGHT), extra, send)
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        found = match(scope["method"], path)
        answer = found if isinstance(found, Answer) else await self._answer(found, path, scope, receive)
        if answer is not _NOBODY_LISTENS:
            await _send(answer, extra, send)
        pattern = "" if isinstance(found, Answer) else found.route.path
        self._observe(scope["method"], pattern, answer.status, perf_counter() - begun)

    async def _answer(self, found: Found, path: str, scope: Scope, receive: Receive) -> Answer:
        """Run an endpoint. Whatever happens becomes an answer."""
        shown = unquote(path)
        try:
            principal = self._principal(scope)
            return await self._work(found, principal, scope, receive)
        except AuthenticationFailed as failed:
            log.warning("authentication_failed", reason=failed.reason, detail=failed.detail_for_log, path=shown)
            return error(401, "authentication required")
        except ClientGone:
            log.info("client_gone", method=scope["method"], path=shown)
            return _NOBODY_LISTENS
        except TimeoutError:
            log.error("request_timed_out", method=scope["method"], path=shown)  # noqa: TRY400 - no defect, no traceback
            return error(504, "the request took too long")
        except asyncio.CancelledError:  # not the client: the server cuts off what outlasts its shutdown
            return refused(StorageUnavailable("the service is stopping"), shown)
        except Failure as failure:
            return refused(failure, shown)
        except Exception as defect:  # the door: whatever went wrong, the client gets an answer without details
            return internal_error(defect, shown, verbose=self._verbose_errors)

    async def _work(self, found: Found, principal: Principal, scope: Scope, receive: Receive) -> Answer:
        exchange = Exchange(scope, receive, runtime=self._runtime, caller=Caller(principal), segments=found.segments)
        with Watch(scope):
            async with asyncio.timeout(found.route.within.total_seconds()):
                return await found.route.endpoint(exchange)

    def _principal(self, scope: Scope) -> Principal:
        header = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        return self._authenticator.authenticate(None if header is None else header.decode("latin-1"))

    def _cross_origin(self, origin: bytes | None) -> Headers:
        if self._cors is None:
            return ()
        return self._cors.headers(origin) if self._cors.origins else ANY_ORIGIN


def match(method: str, path: str) -> Found | Answer:
    """The route of a request, or the answer to one that has none. Parameters are decoded one by one, so that an
    escaped slash is part of its segment.
    """
    parts = path.split("/")[1:]
    shapes = [(shape, route) for shape, route in _SHAPES.get(len(parts), ()) if _fits(shape, parts)]
    if not shapes:
        return NOT_FOUND
    for shape, route in shapes:
        if route.method == method:
            named = zip(shape, parts, strict=True)
            return Found(route, {name[1:-1]: unquote(part) for name, part in named if name.startswith("{")})
    allowed = ", ".join(sorted({route.method for _, route in shapes}))
    return Answer(b"", 405, "", ((b"allow", allowed.encode()),))


def _fits(shape: list[str], parts: list[str]) -> bool:
    return all(part != "" if name.startswith("{") else name == part for name, part in zip(shape, parts, strict=True))


def _shapes() -> Mapping[int, list[tuple[list[str], StepRoute]]]:
    """The routes by the number of segments of their paths."""
    split = [(route.path.split("/")[1:], route) for route in STEP_ROUTES]
    return {count: [one for one in split if len(one[0]) == count] for count in {len(shape) for shape, _ in split}}


_SHAPES: Final = _shapes()


async def _send(answer: Answer, extra: Headers, send: Send) -> None:
    body = answer.body
    assert isinstance(body, bytes)  # noqa: S101 - nothing here is streamed
    headers = [*extra, *answer.headers]
    if answer.status != 204:
        headers.append((b"content-length", str(len(body)).encode()))
    if answer.media_type:
        headers.append((b"content-type", answer.media_type.encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
