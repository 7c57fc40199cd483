"""Routes, and how the route of a request is found. Litestar holds them and is the only one that matches paths.

Its tree is asked for the route and the values of its parameters. It is not asked to answer: its request and response
objects would double the cost of reading an entity (docs/adr/0027). It is given undecoded paths, because a name may
contain an escaped slash.

Litestar overlooks empty segments, and does not turn back where a path begins as one with a static segment does and then
differs, so that a model called ``stats`` could not be listed. So a path must be what its route and the values found
make together, with every slash, and paths that begin so are entered in the tree, too
(docs/reference/entities.md#paths-and-authentication).
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import product
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from litestar import Litestar
from litestar._asgi.routing_trie.traversal import traverse_route_map
from litestar.exceptions import NotFoundException
from litestar.handlers import ASGIRouteHandler
from litestar.plugins import PluginProtocol
from litestar.types import Receive, Scope, Send
from litestar.utils import normalize_path
from msgspec import Struct

from statewright.api.http.request import Request
from statewright.api.http.response import JSON, Response
from statewright.failures import BadRequest, InvalidParameter
from statewright.operations.idempotency import Recording
from statewright.operations.records import QueryParameter
from statewright.services.builtin import ModelScope

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Endpoint = Callable[[Request], Awaitable[Response]]
Hold = Callable[[Request, Response], Awaitable[Response]]


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
    allowed_roles: frozenset[str] = frozenset()
    """One of these the caller must have; none: whoever is authenticated may ask."""

    @property
    def parameter_names(self) -> frozenset[str]:
        """The query parameters that it knows."""
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

    query: tuple[QueryParameter, ...] = ()
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

BUILTIN: Final = QueryParameter(
    "includeBuiltin", "boolean", "the built-in models, too: those whose entities the service itself writes"
)
TIMEOUT: Final = QueryParameter("transactionTimeoutMillis", "integer", "accepted for compatibility", "int64")
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


_ALL_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_ANY: Final = "{}"

Segments: TypeAlias = tuple[str, ...]


class RouteEntry(Struct, frozen=True, eq=False):
    """A route, and how paths of one shape are read as its own. ``template`` is their text, with ``{}`` in place of each
    value that the tree finds, ``names`` are those of the values; of a tree of paths it is how all of them begin.
    ``fixed`` are parameters in whose place these paths have a segment of another route.
    """

    route: Operation | PublicRoute
    template: str
    names: Segments = ()
    fixed: Mapping[str, str] = MappingProxyType({})
    is_tree: bool = False

    def covers(self, path: str, values: Sequence[str]) -> bool:
        """Whether the path is spelt as the route's is, with every slash."""
        if self.is_tree:
            return path[: len(self.template)] == self.template
        return self.template.format(*values) == path


class FoundRoute(Struct, frozen=True, eq=False):
    """The route of a path, and the values that the path has for its parameters."""

    route: Operation | PublicRoute
    entry: RouteEntry
    values: Sequence[str]

    def read_params(self) -> Mapping[str, str]:
        """The parameters, decoded. Raises ``InvalidParameter`` for one that is not UTF-8: replacing what cannot be read
        would make different names one.
        """
        named = zip(self.entry.names, self.values, strict=False)  # the rest of a tree has no name
        params = {name: _decode(name, value) if "%" in value else value for name, value in named}
        return {**self.entry.fixed, **params} if self.entry.fixed else params


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
        self._entries: dict[str, dict[str, RouteEntry]] = {}
        """By the path as Litestar has it, and the method."""
        paths: set[str] = set()
        for entry, methods, segments in _list_entries(list(routes)):
            for path in _format_paths(entry, segments):
                same = self._entries.setdefault(path.replace(":str}", "}").replace(":path}", "}"), {})
                for method in methods:
                    if same.setdefault(method, entry) is not entry:
                        raise ValueError(f"two routes are {method} {entry.template}")
                paths.add(path)
        for same in self._entries.values():  # what can be got has a head, too (decision A7)
            if "GET" in same:
                same.setdefault("HEAD", same["GET"])
        tree = _RouteTree([_build_handler(sorted(paths))], openapi_config=None, logging_config=None)
        self._root = tree.asgi_router.root_route_map_node

    def find(self, method: str, path: str) -> FoundRoute | tuple[str, ...]:
        """The route, or the methods that the path has: none when there is no such path."""
        values: Sequence[str] = ()
        entries = self._entries.get(path)
        if entries is None and path[-1:] == "/":
            entries = self._entries.get(normalize_path(path))
        if entries is None:
            try:
                node, values, _ = traverse_route_map(self._root, path)
            except NotFoundException:
                return ()
            entries = self._entries[node.path_template]
        entry = entries.get(method)
        if entry is not None:
            return FoundRoute(entry.route, entry, values) if entry.covers(path, values) else ()
        covering = (name for name, other in entries.items() if name != "OPTIONS" and other.covers(path, values))
        return tuple(sorted(covering))


def _build_handler(paths: list[str]) -> ASGIRouteHandler:
    """One for all paths, and one that takes what a server hands over: to look at the parameters of a handler takes
    Litestar ten times as long as to enter its paths.
    """

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError("routes are found by Litestar, and not answered")

    return ASGIRouteHandler(paths, copy_scope=False)(handle)


def _format_paths(entry: RouteEntry, segments: Segments) -> list[str]:
    """Litestar wants one name per position in its tree, whatever the routes call their parameters."""
    path = "".join(f"/{{p{n}:str}}" if part == _ANY else f"/{part}" for n, part in enumerate(segments)) or "/"
    return [path, f"{path}/{{rest:path}}"] if entry.is_tree else [path]


def _list_entries(
    routes: Sequence[tuple[str, Operation | PublicRoute]],
) -> Iterator[tuple[RouteEntry, Sequence[str], Segments]]:
    """The paths of all routes, and those that only look like the path of another route at first: static segments win
    over parameters, from the left.
    """
    parts = [PurePosixPath(f"{base}{route.path}").parts[1:] for base, route in routes]
    shapes = [tuple(_ANY if part[0] == "{" else part for part in path) for path in parts]
    taken = {
        (method, shape) for (_, route), shape in zip(routes, shapes, strict=True) for method in _get_methods(route)
    }
    for (base, route), path, shape in zip(routes, parts, shapes, strict=True):
        yield _build_entry(base, route, path, shape), _get_methods(route), shape
    ranked = sorted(zip(routes, parts, shapes, strict=True), key=lambda one: [part == _ANY for part in one[2]])
    for (base, route), path, shape in ranked:
        for alias in product(*_list_readings(shape, shapes)):
            methods = [method for method in _get_methods(route) if (method, alias) not in taken]
            taken |= {(method, alias) for method in methods}
            if methods:
                yield _build_entry(base, route, path, alias), methods, alias


def _build_entry(base: str, route: Operation | PublicRoute, path: Segments, alias: Segments) -> RouteEntry:
    if isinstance(route, PublicRoute) and route.is_tree:
        return RouteEntry(route, base + route.path, is_tree=True)
    named = [(part[1:-1], read) for part, read in zip(path, alias, strict=True) if part[0] == "{"]
    return RouteEntry(
        route,
        (base + route.path).format_map(dict(named)),
        tuple(name for name, read in named if read == _ANY),
        {name: read for name, read in named if read != _ANY},
    )


def _get_methods(route: Operation | PublicRoute) -> Sequence[str]:
    return _ALL_METHODS if route.method == "ANY" else (route.method,)


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


def _decode(name: str, part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as malformed:
        raise InvalidParameter(name) from malformed
