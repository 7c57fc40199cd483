"""Requests of commands to the operations API (docs/reference/operations.md), and the options that they share."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statewright.sdk import Client

EntityId = Annotated[str, typer.Argument(help="The id of the entity.", metavar="ID")]
At = Annotated[
    str | None,
    typer.Option("--at", help="The instant to look at; now when absent.", metavar="RFC3339", show_default=False),
]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")]

Json = Any  # what a service answers is checked where it is used

ROOT: Final = "/ops/v1"
MAX_PAGE_SIZE: Final = 1000
"""Items of a page when a whole list is read."""


def post(client: "Client", path: str, body: dict[str, Json]) -> Json:
    """The answer to a request below the root of the operations API that changes something."""
    return client.request("POST", f"{ROOT}{path}", body, at_root=True)


def ask(client: "Client", path: str, body: dict[str, Json]) -> Json:
    """The answer to a question that has a body; it changes nothing, and may be repeated."""
    return client.request("POST", f"{ROOT}{path}", body, at_root=True, only_asks=True)


def get(client: "Client", path: str, query: dict[str, str | None]) -> Json:
    """What is below the root of the operations API; values that are None are left out of the query."""
    given = {name: value for name, value in query.items() if value is not None}
    return client.request("GET", f"{ROOT}{path}", query=given, at_root=True, only_asks=True)


def list_all(client: "Client", path: str, query: dict[str, str | None]) -> list[Json]:
    """All items of a list."""
    return list(_iterate(client, path, query, MAX_PAGE_SIZE))


def list_first(client: "Client", path: str, query: dict[str, str | None], limit: int) -> list[Json]:
    """The first items of a list, ``limit`` at most."""
    return list(islice(_iterate(client, path, query, min(limit, MAX_PAGE_SIZE)), limit))


def _iterate(client: "Client", path: str, query: dict[str, str | None], size: int) -> "Iterator[Json]":
    page: Json = {"nextCursor": None}
    while "nextCursor" in page:
        page = get(client, path, {**query, "limit": str(size), "cursor": page["nextCursor"]})
        yield from page["items"]
