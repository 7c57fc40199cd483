"""Routes of process languages: what a table of them says to the router and to the OpenAPI document alike."""

from datetime import timedelta
from typing import Final, Literal

from msgspec import Struct

from statewright.api.http.router import Operation

DEFAULT_TIMEOUT: Final = timedelta(seconds=30)
"""How long the work of a request may take (docs/reference/steps.md#conventions)."""


class Parameter(Struct, frozen=True):
    """A documented query parameter, in the words of OpenAPI."""

    name: str
    type: Literal["string", "integer", "boolean"]
    description: str


class ProcessRoute(Operation, frozen=True, kw_only=True):
    """An operation of a process language. ``reply`` names a schema of the OpenAPI document, ``errors`` are the statuses
    of its own.
    """

    query: tuple[Parameter, ...] = ()
    status: int = 200
    reply: str | None = None
    errors: tuple[int, ...] = ()
    timeout: timedelta | None = DEFAULT_TIMEOUT
    is_extension: bool = False
    body_types: tuple[str, ...] = ("application/json",)

    @property
    def parameter_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.query)


PAGE: Final = (
    Parameter("page", "integer", "from 0"),
    Parameter("pageSize", "integer", "20 when absent or not positive, at most 1000"),
)
