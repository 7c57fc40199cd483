"""Routes that are found without Litestar: those that make up the traffic, and those it cannot tell apart."""

from collections.abc import Sequence
from typing import Final

from statewright.api.http.routes import ROUTES
from statewright.api.http.routes.route import Route

_ENDING_IN_SLASH: Final = frozenset(route.path for route in ROUTES if route.path.endswith("/"))


def has_stray_slash(path: str) -> bool:
    """Whether the path has an empty segment that no route has. Litestar overlooks them; here every slash counts
    (spec/entities.md §1.8).
    """
    return "//" in path or (path.endswith("/") and path not in _ENDING_IN_SLASH)


_BY_ID: Final = {route.id: route for route in ROUTES}
_READ, _CREATE = _BY_ID["getOneEntity"], _BY_ID["create"]
_SEARCH = _BY_ID["searchEntities"]
_LOOPBACK, _TRANSITION = _BY_ID["updateSingleWithLoopback"], _BY_ID["updateSingle"]


def hot_route(method: str, path: str) -> Route | None:
    """The route of the requests that make up the traffic; None for all others, and for whatever is not plainly one of
    these.
    """
    if method == "POST" and path.startswith("/search/direct/"):
        return _SEARCH if path.count("/") == 4 and not has_stray_slash(path) else None
    if not path.startswith(("/entity/", "/message/")):
        return None
    parts = path.split("/")
    if "" in parts[1:]:
        return None
    if parts[1] == "message" or parts[2] == "stats":
        return _by_shape(method, parts)
    match method, len(parts):
        case "GET", 3:
            return _READ
        case "POST", 5:
            return _CREATE
        case "PUT", 4:
            return _LOOPBACK
        case "PUT", 5:
            return _TRANSITION
    return None


def _by_shape(method: str, parts: Sequence[str]) -> Route | None:
    """The route of a path that begins as a static one does. Litestar does not turn back where it then differs, so that
    a model called ``stats`` could not be listed (spec/entities.md §1.8).
    """
    for route, shape in _SHAPES:
        if route.method == method and len(shape) == len(parts) and all(map(_fits, shape, parts)):
            return route
    return None


def _fits(wanted: str, part: str) -> bool:
    return wanted.startswith("{") or wanted == part


_SHAPES: Final = sorted(
    ((route, route.path.split("/")) for route in ROUTES), key=lambda entry: [part[:1] == "{" for part in entry[1]]
)
"""Static segments win over parameters, from the left."""
