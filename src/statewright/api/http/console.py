"""The console behind the HTTP listener: its routes, and the request as it sees it (docs/console.md).

The console is imported and its routes are built at the first request for it: a service that nobody looks at pays
nothing for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from statewright.api.http.application import Dialect, ErrorFormat
from statewright.api.http.asgi import Application
from statewright.api.http.request import Request
from statewright.api.http.response import TEXT, Response
from statewright.api.http.router import FoundRoute, Method, PublicRoute, Router
from statewright.api.http.security import Headers, PageGuard
from statewright.failures import Failure

if TYPE_CHECKING:
    from statewright.console.application import Console
    from statewright.console.response import ConsoleResponse

ROOT: Final = "/console"

BuildConsole = Callable[[Application], "Console"]
"""Builds the console for the application that it is part of, and calls."""
Answer = Callable[[Request], Awaitable["ConsoleResponse"]]


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

    async def __call__(self, request: Request) -> Response:
        """The answer to one request."""
        path = request.path
        if path == ROOT:
            return _redirect(f"{ROOT}/")
        router = self._router or await self._open()
        found = router.find(request.method, path)
        if not isinstance(found, FoundRoute):
            assert self._console is not None  # noqa: S101 - it was built with the router
            if found:
                return _refuse(405, "not with this method\n")
            return _convert(await self._console.show_missing(request))
        assert isinstance(found.route, PublicRoute)  # noqa: S101 - the router has no other
        request.path_params = found.read_params()
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

    async def send_file(request: Request) -> "ConsoleResponse":
        found = find_static_file(request.scope["path"])
        takes_gzip = b"gzip" in request.headers.get(b"accept-encoding", b"")
        return refuse_static_file() if found is None else found.respond(takes_gzip=takes_gzip)

    def build_route(method: Method, path: str, answer: Answer, *, is_tree: bool = False) -> PublicRoute:
        async def respond(request: Request) -> Response:
            return _convert(await answer(request))

        return PublicRoute(method=method, path=path, endpoint=respond, is_tree=is_tree)

    return [
        *(build_route("GET", page.path, partial(console.show_page, page)) for page in ROUTES if isinstance(page, Page)),
        build_route("GET", f"{ROOT}/login", partial(console.log_in, "show")),
        build_route("POST", f"{ROOT}/login", partial(console.log_in, "check")),
        build_route("GET", f"{ROOT}/login/start", partial(console.log_in, "start")),
        build_route("GET", f"{ROOT}/login/callback", partial(console.log_in, "finish")),
        build_route("POST", f"{ROOT}/logout", console.log_out),
        build_route("GET", f"{ROOT}/live", console.open_live_stream),
        build_route("GET", f"{ROOT}/confirm/{{action}}", partial(console.act, "confirm")),
        build_route("POST", f"{ROOT}/call/{{action}}", partial(console.act, "call")),
        build_route("POST", f"{ROOT}/do/{{action}}", partial(console.act, "do")),
        build_route("GET", f"{ROOT}/static", send_file, is_tree=True),
    ]


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
        guard=guard,
    )
