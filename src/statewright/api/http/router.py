"""Routes, and how the route of a request is found. Litestar holds them and is the only one that matches paths.

It is asked for the route and not to answer: its request and response objects would double the cost of reading an
entity (docs/adr/0019). It matches undecoded paths, because a name may contain an escaped slash, and knows nothing of
what a parameter is called; parameters are taken from the path by their position.

Litestar overlooks empty segments, and does not turn back where a path begins as one with a static segment does and then
differs, so that a model called ``stats`` could not be listed. Here every slash counts, and such paths are routes, too
(docs/reference/entities.md#paths-and-authentication).
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import product
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from litestar import Litestar
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.plugins import PluginProtocol
from msgspec import Struct

from statewright.api.http.request import Request
from statewright.api.http.response import JSON, Response
from statewright.failures import BadRequest, InvalidParameter
from statewright.operations.idempotency import Recording
from statewright.services.builtin import ModelScope

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Endpoint = Callable[[Request], Awaitable[Response]]
Hold = Callable[[Request, Response], Awaitable[Response]]


class Query(Struct, frozen=True):
    """A documented query parameter, in the words of OpenAPI."""

    name: str
    type: Literal["string", "integer", "boolean"]
    description: str
    format: str | None = None
    repeatable: bool = False


class Operation(Struct, frozen=True, kw_only=True):
    """What an authenticated caller can ask for. ``path`` is that below the base of its dialect, ``body`` names a schema
    of the OpenAPI document. With a ``timeout`` its work is broken off after so long.
    """

    method: Method
    path: str
    endpoint: Endpoint
    id: str
    tag: str
    summary: str
    body: str | None = None
    body_required: bool = True
    media_type: str = JSON
    timeout: timedelta | None = None
    recording: Recording = "commit"
    answers_secret: bool = False
    """Whether an answer must not be readable where it is stored."""
    is_read: bool = False
    """Whether it changes nothing, though its method might."""
    hold: Hold | None = None
    """How the response waits for what becomes of a write, where its client asks for it."""
    is_ours: bool = False
    """Whether no other server of the dialect has it, so that no existing client sends it surplus parameters."""

    @property
    def parameter_names(self) -> frozenset[str]:
        """The query parameters that it knows."""
        return frozenset()

    @property
    def allowed_roles(self) -> frozenset[str]:
        """One of these the caller must have; none: whoever is authenticated may ask."""
        return frozenset()


class PublicRoute(Struct, frozen=True, kw_only=True):
    """What needs no credentials, or brings its own, at a path of the whole service. ``ANY`` is every method;
    ``is_tree``: everything below the path, too. ``is_probe``: it is answered however busy the listener is.
    """

    method: Method | Literal["ANY"]
    path: str
    endpoint: Endpoint
    is_tree: bool = False
    is_probe: bool = False


class Route(Operation, frozen=True, kw_only=True):
    """An operation of the entity API. ``reply`` names a schema of the OpenAPI document and is empty for an answer
    without a body; ``problems`` lists the error codes. ``body_limited``: too large a body has a status of its own.
    """

    query: tuple[Query, ...] = ()
    headers: tuple[str, ...] = ()
    if_match: bool = False
    body_types: tuple[str, ...] = (JSON,)
    body_limited: bool = False
    reply: str
    status: int = 200
    other_replies: tuple[tuple[str, str], ...] = ()
    """Media types and schemas of answers that a query parameter asks for."""
    problems: tuple[str, ...] = ()
    markers: tuple[tuple[str, str], ...] = ()
    """Extensions of the OpenAPI document, by name: what clients of the dialect look at."""

    @property
    def parameter_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.query)


# Parameters that several groups of routes have in common.

POINT_IN_TIME: Final = Query(
    "pointInTime", "string", "the instant to look at; RFC 3339, UTC when it has no offset", "date-time"
)
TRANSACTION: Final = Query("transactionId", "string", "the transaction whose version is wanted", "uuid")
BUILTIN: Final = Query(
    "includeBuiltin", "boolean", "the built-in models, too: those whose entities the service itself writes"
)
TIMEOUT: Final = Query("transactionTimeoutMillis", "integer", "accepted for compatibility", "int64")
MODEL: Final = "/model/{entityName}/{modelVersion}"


# Parameters that all writes of entities share (docs/reference/entities.md#parameters-without-effect).

MAX_WINDOW: Final = 1000
"""Items per transaction of a collection (docs/reference/entities.md#limits)."""

DEFAULT_WINDOW: Final = 100


def bind_write_parameters(request: Request) -> None:
    """Parameters that have no effect, but must be well-formed."""
    if request.has_query:
        request.query_flag("waitForConsistencyAfter")
        request.query_int64("transactionTimeoutMillis")


def bind_scope(request: Request) -> ModelScope:
    """Which models a list is about."""
    return "all" if request.query_flag(BUILTIN.name) else "own"


def bind_window(request: Request) -> int:
    """The wanted number of items per transaction, whatever it is."""
    return request.query_int32("transactionWindow", DEFAULT_WINDOW)


def check_window(window: int) -> int:
    """The same number. Raises ``BadRequest`` when it is out of range."""
    if not 1 <= window <= MAX_WINDOW:
        raise BadRequest(f"transactionWindow must be between 1 and {MAX_WINDOW}")
    return window


MAX_CACHED_SHAPES: Final = 1024
MAX_SHAPE_CHARS: Final = 256
MAX_SEGMENTS: Final = 16
MAX_SEGMENT_CHARS: Final = 64
"""The routes of so many paths are kept, whichever clients asked for them. Longer ones are cut to these limits, which
makes none match that did not before.
"""

_ID: Final = re.compile(r"/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?=/|$)")

AnyMethod = Method | Literal["HEAD", "OPTIONS"]

_ALL_METHODS: Final[tuple[AnyMethod, ...]] = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_NO_METHOD: Final = "-"
_ANY: Final = "{}"

Segments: TypeAlias = tuple[str, ...]
Methods: TypeAlias = tuple[AnyMethod, ...]


class RouteEntry(Struct, frozen=True, eq=False):
    """A route under its whole path."""

    route: Operation | PublicRoute
    path: str
    positions: tuple[tuple[int, str], ...]
    """Of the parameters, and their names."""

    def path_params(self, path: str) -> Mapping[str, str]:
        """The parameters, decoded, from an undecoded path that matches.

        Raises ``InvalidParameter`` for one that is not UTF-8: replacing what cannot be read would make different names
        one.
        """
        parts = path.split("/")
        if "%" not in path:
            return {name: parts[position] for position, name in self.positions}
        return {name: _decode(name, parts[position]) for position, name in self.positions}

    def covers(self, path: str) -> bool:
        """Whether the path is spelt as the route's is, with every slash."""
        if isinstance(self.route, PublicRoute) and self.route.is_tree:
            return path == self.path or path.startswith(f"{self.path}/")
        return "//" not in path and path.endswith("/") == self.path.endswith("/")


class _RouteTree(Litestar):
    """Routes without what Litestar has for handlers that answer."""

    @staticmethod
    def _get_default_plugins(plugins: list[PluginProtocol]) -> list[PluginProtocol]:
        """None: they would import Pydantic, which takes longer than to build the tree."""
        return plugins


class Router:
    """The routes of one application, each with the base that its path is below. Raises ``ValueError`` for two that are
    the same.
    """

    def __init__(self, routes: Iterable[tuple[str, Operation | PublicRoute]]) -> None:
        self._entries: dict[tuple[str, str], RouteEntry] = {}
        paths: dict[Methods, list[str]] = {}
        for entry, methods, segments in _list_paths([_build_entry(base, route) for base, route in routes]):
            for path in _format_paths(entry, segments):
                template = _reduce_to_template(path)
                for method in methods:
                    if self._entries.setdefault((method, template), entry) is not entry:
                        raise ValueError(f"two routes are {method} {template}")
                paths.setdefault(methods, []).append(path)
        litestar = _RouteTree(
            route_handlers=[_build_handler(*same) for same in paths.items()], openapi_config=None, logging_config=None
        )
        self._find_handler = litestar.asgi_router.handle_routing
        self._find = lru_cache(MAX_CACHED_SHAPES)(self._find_by_shape)

    def find(self, method: str, path: str) -> RouteEntry | tuple[str, ...]:
        """The route, or the methods that the path has: none when there is no such path. What can be got has a head, too
        (decision A7).
        """
        return self._find(method, _reduce_to_shape(path))

    def _find_by_shape(self, method: str, path: str) -> RouteEntry | tuple[str, ...]:
        try:
            *_, template = self._find_handler(path=path.rstrip("/") or "/", method=method)
        except NotFoundException:
            return ()
        except MethodNotAllowedException as refused:
            if method == "HEAD" and isinstance(got := self._find_by_shape("GET", path), RouteEntry):
                return got
            return self._list_methods((refused.headers or {}).get("allow", ""), path)
        entry = self._entries.get((method, template))
        if entry is None:  # Litestar answers OPTIONS itself
            return self._find_by_shape(_NO_METHOD, path)
        return entry if entry.covers(path) else ()

    def _list_methods(self, allowed: str, path: str) -> tuple[str, ...]:
        methods = set(allowed.split(", ")) - {"OPTIONS"}
        if not isinstance(self._find_by_shape(min(methods), path), RouteEntry):
            return ()
        return tuple(sorted(methods | {"HEAD"} if "GET" in methods else methods))


def _build_entry(base: str, route: Operation | PublicRoute) -> RouteEntry:
    path = base + route.path
    named = [(n, part[1:-1]) for n, part in enumerate(path.split("/")) if part.startswith("{")]
    return RouteEntry(route, path, tuple(named))


def _build_handler(methods: Methods, paths: list[str]) -> HTTPRouteHandler:
    """One for all paths with these methods: to look at a handler takes Litestar longer than to enter a path."""

    async def handle() -> None:
        raise NotImplementedError("routes are found by Litestar, and not answered")

    return HTTPRouteHandler(paths, http_method=methods, status_code=200)(handle)


def _format_paths(entry: RouteEntry, segments: Segments) -> list[str]:
    """Litestar wants one name per position in its tree, whatever the routes call their parameters."""
    path = "/".join(f"{{p{n}:str}}" if part == _ANY else part for n, part in enumerate(segments))
    is_tree = isinstance(entry.route, PublicRoute) and entry.route.is_tree
    return [path, f"{path}/{{rest:path}}"] if is_tree else [path]


def _reduce_to_template(path: str) -> str:
    """A path as Litestar tells which it has found."""
    return re.sub(r":\w+}", "}", path).rstrip("/") or "/"


def _list_paths(entries: Sequence[RouteEntry]) -> Iterator[tuple[RouteEntry, Methods, Segments]]:
    """The paths of all routes, and those that only look like the path of another route at first: static segments win
    over parameters, from the left.
    """
    shapes = {entry: tuple(_ANY if p.startswith("{") else p for p in entry.path.split("/")) for entry in entries}
    taken = {(method, shapes[entry]) for entry in entries for method in _list_methods(entry)}
    for entry in entries:
        yield entry, _list_methods(entry), shapes[entry]
    for entry in sorted(entries, key=lambda one: [part == _ANY for part in shapes[one]]):
        for alias in product(*_list_readings(shapes[entry], shapes.values())):
            methods: Methods = tuple(method for method in _list_methods(entry) if (method, alias) not in taken)
            taken |= {(method, alias) for method in methods}
            if methods:
                yield entry, methods, alias


def _list_methods(entry: RouteEntry) -> Methods:
    return _ALL_METHODS if entry.route.method == "ANY" else (entry.route.method,)


def _list_readings(shape: Segments, shapes: Iterable[Segments]) -> list[set[str]]:
    """For each segment, itself and what other routes have in the place of a parameter."""
    readings = [{part} for part in shape]
    for other in shapes:
        for reading, mine, theirs in zip(readings, shape, other, strict=False):
            if mine != theirs and _ANY not in {mine, theirs}:
                break
            if mine == _ANY:
                reading.add(theirs)
    return readings


def _reduce_to_shape(path: str) -> str:
    """A path that has the same route: with one id for all, and not too long to be kept."""
    shape = _ID.sub("/0", path)
    if len(shape) <= MAX_SHAPE_CHARS:
        return shape
    return "/".join(part[:MAX_SEGMENT_CHARS] for part in shape.split("/")[:MAX_SEGMENTS])


def _decode(name: str, part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as malformed:
        raise InvalidParameter(name) from malformed
