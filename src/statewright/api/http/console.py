"""The console behind the HTTP listener: its routes, and the request as it sees it (docs/console.md).

The console is imported and its routes are built at the first request for it: a service that nobody looks at pays
nothing for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from statewright.api.http.application import Dialect, ErrorFormat
from statewright.api.http.asgi import Application, ClientGone, get_address
from statewright.api.http.response import TEXT, Response
from statewright.api.http.router import PublicRequest, PublicRoute, RouteEntry, Router
from statewright.api.http.security import Headers, PageGuard
from statewright.failures import Failure

if TYPE_CHECKING:
    from statewright.console.application import BrowserRequest, Console, LoginStep
    from statewright.console.response import ConsoleResponse

ROOT: Final = "/console"

BuildConsole = Callable[[Application], "Console"]
"""Builds the console for the application that it is part of, and calls."""


class ConsoleEndpoint:
    """Answers everything at and below ``/console``."""

    def __init__(self, build: BuildConsole) -> None:
        self._build = build
        self._router: Router | None = None
        self._console: Console | None = None
        self._application: Application | None = None
        self._opening = asyncio.Lock()

    def attach(self, application: Application) -> None:
        """Say what the console is to call: the application that all other requests come to."""
        self._application = application

    async def close(self) -> None:
        """End what pages have begun."""
        if self._console is not None:
            await self._console.close()

    async def __call__(self, request: PublicRequest) -> Response:
        """The answer to one request."""
        scope = request.scope
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        if path == ROOT:
            return _redirect(f"{ROOT}/")
        router = self._router or await self._open()
        method: str = scope["method"]
        found = router.find(method, path)
        if not isinstance(found, RouteEntry):
            assert self._console is not None  # noqa: S101 - it was built with the router
            scope["path_params"] = {}
            if found:
                return _refuse(405, "not with this method\n")
            return _convert(await self._console.show_missing(_build_browser_request(request)))
        assert isinstance(found.route, PublicRoute)  # noqa: S101 - the router has no other
        scope["path_params"] = found.path_params(path)
        return await found.route.endpoint(request)

    async def _open(self) -> Router:
        """Build everything, in a thread: it takes long enough for others to notice."""
        async with self._opening:
            if self._router is None:
                assert self._application is not None  # noqa: S101 - it is attached before the listener opens
                self._console, router = await asyncio.to_thread(_open, self._build, self._application)
                self._router = router
            return self._router


def _open(build: BuildConsole, application: Application) -> tuple["Console", Router]:
    from statewright.console.response import load_static_files

    load_static_files()
    console = build(application)
    return console, Router(("", route) for route in _list_routes(console))


def _list_routes(console: "Console") -> list[PublicRoute]:
    from statewright.console.request import Page
    from statewright.console.response import find_static_file, refuse_static_file
    from statewright.console.routes import ROUTES

    async def listen(request: PublicRequest) -> Response:
        return _convert(await console.open_live_stream(_build_browser_request(request)))

    async def confirm(request: PublicRequest) -> Response:
        browser = _build_browser_request(request)
        return _convert(await console.confirm_action(browser.params["action"], browser))

    async def show_call(request: PublicRequest) -> Response:
        browser = _build_browser_request(request)
        return _convert(await console.show_call(browser.params["action"], browser))

    async def perform(request: PublicRequest) -> Response:
        browser = _build_browser_request(request)
        return _convert(await console.perform_action(browser.params["action"], browser))

    def build_login_endpoint(step: "LoginStep") -> Callable[[PublicRequest], Awaitable[Response]]:
        async def log_in(request: PublicRequest) -> Response:
            return _convert(await console.log_in(step, _build_browser_request(request)))

        return log_in

    async def log_out(request: PublicRequest) -> Response:
        return _convert(await console.log_out(_build_browser_request(request)))

    async def send_file(request: PublicRequest) -> Response:
        found = find_static_file(request.scope["path"])
        takes_gzip = b"gzip" in dict(request.scope["headers"]).get(b"accept-encoding", b"")
        return _convert(refuse_static_file() if found is None else found.respond(takes_gzip=takes_gzip))

    def build_endpoint(page: Page) -> Callable[[PublicRequest], Awaitable[Response]]:
        async def show(request: PublicRequest) -> Response:
            return _convert(await console.show_page(page, _build_browser_request(request)))

        return show

    pages = [route for route in ROUTES if isinstance(route, Page)]
    return [
        *(PublicRoute(method="GET", path=page.path, endpoint=build_endpoint(page)) for page in pages),
        PublicRoute(method="GET", path=f"{ROOT}/login", endpoint=build_login_endpoint("show")),
        PublicRoute(method="POST", path=f"{ROOT}/login", endpoint=build_login_endpoint("check")),
        PublicRoute(method="GET", path=f"{ROOT}/login/start", endpoint=build_login_endpoint("start")),
        PublicRoute(method="GET", path=f"{ROOT}/login/callback", endpoint=build_login_endpoint("finish")),
        PublicRoute(method="POST", path=f"{ROOT}/logout", endpoint=log_out),
        PublicRoute(method="GET", path=f"{ROOT}/live", endpoint=listen),
        PublicRoute(method="GET", path=f"{ROOT}/confirm/{{action}}", endpoint=confirm),
        PublicRoute(method="POST", path=f"{ROOT}/call/{{action}}", endpoint=show_call),
        PublicRoute(method="POST", path=f"{ROOT}/do/{{action}}", endpoint=perform),
        PublicRoute(method="GET", path=f"{ROOT}/static", endpoint=send_file, is_tree=True),
    ]


def _build_browser_request(request: PublicRequest) -> "BrowserRequest":
    from statewright.console.application import BodyTooLong, BrowserRequest

    scope = request.scope
    headers: dict[bytes, bytes] = dict(scope["headers"])

    async def read_body(limit: int) -> bytes:
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise BodyTooLong
            more = message.get("more_body", False)
        return b"".join(parts)

    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    host = headers.get(b"host", b"localhost").decode("latin-1")
    return BrowserRequest(
        method=scope["method"],
        path=raw.decode("latin-1").partition("?")[0],
        params=scope["path_params"],
        query=scope["query_string"],
        headers=headers,
        origin=f"{scope['scheme']}://{host}",
        address=get_address(scope),
        read_body=read_body,
    )


def _convert(response: "ConsoleResponse") -> Response:
    return Response(response.body, response.status, response.media_type, response.headers)


def _redirect(target: str) -> Response:
    return Response(b"", 302, "", (*_list_headers(), (b"location", target.encode())))


def _refuse(status: int, text: str) -> Response:
    return Response(text.encode(), status, TEXT, _list_headers())


def _list_headers() -> Headers:
    """Those of every page, also where the console itself is not asked."""
    from statewright.console.response import NO_STORE, SECURITY_HEADERS

    return (*SECURITY_HEADERS, NO_STORE)


def _show_failure(failure: Failure, _path: str) -> Response:
    return _refuse(failure.status, f"{failure.message}\n")


def _show_defect(_error: BaseException, _path: str, _verbose: bool) -> Response:
    return _refuse(500, "this page could not be made\n")


def _observe_nothing(_method: str, _path: str, _status: int, _seconds: float) -> None:
    """Pages have metrics of their own, and must not blur those of the API."""


CONSOLE_ERRORS: Final = ErrorFormat(failure=_show_failure, unauthenticated=_show_failure, defect=_show_defect)


def build_console_dialect(endpoint: ConsoleEndpoint, guard: PageGuard) -> Dialect:
    """The console at ``/console``, outside the context path. ``guard`` knows the names of the service; pages of other
    origins may do nothing, whatever CORS allows the API.
    """
    return Dialect(
        base="",
        roots=(ROOT,),
        public=(PublicRoute(method="ANY", path=ROOT, endpoint=endpoint, is_tree=True),),
        errors=CONSOLE_ERRORS,
        observe=_observe_nothing,
        guard=guard,
    )
