"""An operation as the table of routes describes it."""

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from statewright.api.http.exchange import JSON, Answer, Exchange

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Endpoint = Callable[[Exchange], Awaitable[Answer]]


class Query(Struct, frozen=True):
    """A documented query parameter, in the words of OpenAPI."""

    name: str
    type: Literal["string", "integer", "boolean"]
    description: str
    format: str | None = None
    repeatable: bool = False


class Route(Struct, frozen=True, kw_only=True):
    """One operation. ``body`` and ``reply`` name schemas of the OpenAPI document; ``problems`` lists its error
    codes. ``body_limited``: too large a body has a status of its own.
    """

    method: Method
    path: str
    endpoint: Endpoint
    id: str
    tag: str
    summary: str
    query: tuple[Query, ...] = ()
    headers: tuple[str, ...] = ()
    if_match: bool = False
    body: str | None = None
    body_types: tuple[str, ...] = (JSON,)
    body_required: bool = True
    body_limited: bool = False
    reply: str
    media_type: str = JSON
    other_replies: tuple[tuple[str, str], ...] = ()
    """Media types and schemas of answers that a query parameter asks for."""
    problems: tuple[str, ...] = ()
