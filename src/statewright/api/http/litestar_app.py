"""The routes as a Litestar application.

Litestar finds the route; path parameters are taken from the undecoded path by position, because a name may contain an
escaped slash.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, cast
from urllib.parse import unquote

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from statewright.api.http.exchange import Answer, Receive, Scope
from statewright.api.http.routes import ROUTES
from statewright.api.http.routes.route import Route
from statewright.failures import InvalidParameter

Respond = Callable[[Route, Scope, Receive], Awaitable[Answer]]
"""Runs the endpoint of a route and translates its failures."""

HttpRequest = Request[Any, Any, State]  # Any: user and auth are not Litestar's business here


def litestar_app(respond: Respond) -> Litestar:
    """An application with one handler per route; its OpenAPI pages are replaced by our own document."""
    return Litestar(
        route_handlers=[_handler(route, respond) for route in ROUTES],
        openapi_config=None,
        logging_config=None,
        exception_handlers={NotFoundException: _not_found, MethodNotAllowedException: _method_not_allowed},
    )


def segments_of(route: Route, path: str) -> dict[str, str]:
    """The path parameters of ``route``, decoded, from an undecoded path that matches it.

    Raises ``InvalidParameter`` for one that is not UTF-8: replacing what cannot be read would make different names one.
    """
    parts = path.split("/")
    if "%" not in path:
        return {name: parts[position] for position, name in parameters(route.path)}
    return {name: _decoded(name, parts[position]) for position, name in parameters(route.path)}


def _decoded(name: str, part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as stranger:
        raise InvalidParameter(name) from stranger


@cache
def parameters(template: str) -> tuple[tuple[int, str], ...]:
    """Position and name of each parameter of a route's path."""
    return tuple((n, part[1:-1]) for n, part in enumerate(template.split("/")) if part.startswith("{"))


def _handler(route: Route, respond: Respond) -> HTTPRouteHandler:
    async def handle(request: HttpRequest) -> Response[bytes] | Stream:
        answer = await respond(route, cast("Scope", request.scope), cast("Receive", request.receive))
        headers = {key.decode(): value.decode() for key, value in answer.headers}
        if isinstance(answer.body, bytes):
            return Response(answer.body, status_code=answer.status, media_type=answer.media_type, headers=headers)
        return Stream(answer.body, status_code=answer.status, media_type=answer.media_type, headers=headers)

    handler = HTTPRouteHandler(_positional(route.path), http_method=route.method, status_code=200, name=route.id)
    return handler(handle)


def _positional(path: str) -> str:
    """Litestar wants one name per position in its tree, whatever the routes call their parameters."""
    parts = path.split("/")
    return "/".join(f"{{p{n}:str}}" if part.startswith("{") else part for n, part in enumerate(parts))


def _not_found(_request: HttpRequest, _error: NotFoundException) -> Response[bytes]:
    return Response(b"404 page not found\n", status_code=404, media_type="text/plain; charset=utf-8")


def _method_not_allowed(_request: HttpRequest, error: MethodNotAllowedException) -> Response[bytes]:
    allowed = {key: value for key, value in (error.headers or {}).items() if key.lower() == "allow"}
    return Response(b"", status_code=405, headers=allowed)
