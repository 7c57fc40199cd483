"""How operations of the entity API are declared: at the functions that carry them out. The first line of the docstring
is what the OpenAPI document says of the operation.

All of them are one table, which serves routing, help and the document, so none of them can know a route that another
does not.

Query parameters that none of them declares (docs/reference/entities.md#unknown-parameters): on paths of the dialects
existing clients may send any; they are told in a header that one has no effect. Where the path or the option is ours,
ignoring it would do something else than was asked for: it is refused.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Final, TypedDict, TypeVar, Unpack
from urllib.parse import unquote_plus

from msgspec import Struct, convert

from statewright.api.http.router import Endpoint, Hold, Method, Operation, Route
from statewright.failures import BadRequest
from statewright.operations.idempotency import Recording
from statewright.operations.records import QueryParameter

RouteT = TypeVar("RouteT", bound=Route)


class RouteDetails(TypedDict, total=False):
    """What not every operation has (``Route``)."""

    query: tuple[QueryParameter, ...]
    headers: tuple[str, ...]
    if_match: bool
    body: str
    body_required: bool
    body_types: tuple[str, ...]
    body_limited: bool
    media_type: str
    other_replies: tuple[tuple[str, str], ...]
    recording: Recording
    answers_secret: bool
    is_read: bool
    is_ours: bool
    hold: Hold


class Subject(Struct, frozen=True, kw_only=True):
    """What the operations of a tag have in common."""

    tag: str
    problems: tuple[str, ...] = ()
    recording: Recording = "commit"
    """Of those that are no reads."""
    markers: tuple[tuple[str, str], ...] = ()

    def declare(
        self,
        asked: str,
        id_: str,
        *,
        reply: str = "",
        problems: tuple[str, ...] = (),
        **details: Unpack[RouteDetails],
    ) -> Callable[[Endpoint], Route]:
        """A decorator that makes an endpoint an operation. ``asked`` is method and path, ``problems`` are those beside
        the common ones.
        """
        method, _, path = asked.partition(" ")
        details.setdefault("recording", self.recording)

        def build(endpoint: Endpoint) -> Route:
            return Route(
                method=convert(method, Method),
                path=path,
                endpoint=endpoint,
                id=id_,
                tag=self.tag,
                summary=(endpoint.__doc__ or "").partition("\n")[0].rstrip("."),
                reply=reply,
                problems=(*self.problems, *problems),
                markers=self.markers,
                **details,
            )

        return build


def list_routes(module: ModuleType, kind: type[RouteT]) -> Iterator[RouteT]:
    """The operations that a module declares, in their order."""
    return (value for value in vars(module).values() if isinstance(value, kind))


OWN_OPTIONS: Final = frozenset({"dryRun", "warnings"})
"""Options that other servers of the dialects do not have: whoever sends one expects it to work."""

MAX_NAME_CHARS: Final = 100


class UnknownParameter(BadRequest):
    """A query parameter that the operation does not have."""

    def __init__(self, name: str, route: Operation) -> None:
        super().__init__(_name_unknown(name, route), {"parameter": name[:MAX_NAME_CHARS]})


def check_parameters(route: Operation, query: bytes) -> tuple[str, ...]:
    """Warnings about parameters without effect. Raises :class:`UnknownParameter` where the path or option is ours."""
    known = route.parameter_names
    names = {unquote_plus(pair.partition("=")[0]) for pair in query.decode("latin-1").split("&") if pair}
    unknown = sorted(names - known)
    for name in unknown:
        if route.is_ours or name in OWN_OPTIONS:
            raise UnknownParameter(name, route)
    return tuple(f"{_name_unknown(name, route)}; it has no effect" for name in unknown)


def _name_unknown(name: str, route: Operation) -> str:
    known = ", ".join(sorted(route.parameter_names)) or "none"
    return f"unknown query parameter '{name[:MAX_NAME_CHARS]}'; known: {known}"
