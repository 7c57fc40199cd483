"""Query parameters that an operation does not have (docs/reference/entities.md#unknown-parameters).

On paths of the dialects existing clients may send any; they are told in a header that one has no effect. Where the path
or the option is ours, ignoring it would do something else than was asked for: it is refused.
"""

from typing import Final
from urllib.parse import unquote_plus

from statewright.api.http.router import Operation
from statewright.failures import BadRequest

OWN_OPTIONS: Final = frozenset({"dryRun", "warnings"})
"""Options that other servers of the dialects do not have: whoever sends one expects it to work."""

MAX_NAME_CHARS: Final = 100


class UnknownParameter(BadRequest):
    """A query parameter that the operation does not have."""

    def __init__(self, name: str, route: Operation) -> None:
        super().__init__(_describe(name, route), {"parameter": name[:MAX_NAME_CHARS]})


def check_parameters(route: Operation, query: bytes) -> tuple[str, ...]:
    """Warnings about parameters without effect. Raises :class:`UnknownParameter` where the path or option is ours."""
    known = route.parameter_names
    names = {unquote_plus(pair.partition("=")[0]) for pair in query.decode("latin-1").split("&") if pair}
    unknown = sorted(names - known)
    for name in unknown:
        if route.is_ours or name in OWN_OPTIONS:
            raise UnknownParameter(name, route)
    return tuple(f"{_describe(name, route)}; it has no effect" for name in unknown)


def _describe(name: str, route: Operation) -> str:
    known = ", ".join(sorted(route.parameter_names)) or "none"
    return f"unknown query parameter '{name[:MAX_NAME_CHARS]}'; known: {known}"
