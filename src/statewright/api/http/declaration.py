"""How operations of the entity API are declared: at the functions that carry them out. The first line of the docstring
is what the OpenAPI document says of the operation.

All of them are one table, which serves routing, help and the document, so none of them can know a route that another
does not.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TypedDict, TypeVar, Unpack

from msgspec import Struct, convert

from statewright.api.http.router import Endpoint, Hold, Method, Route
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
