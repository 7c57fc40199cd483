"""Requests of commands to the operations API (docs/reference/operations.md)."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from statewright.sdk import Client

EntityId = Annotated[str, typer.Argument(help="The id of the entity.", metavar="ID")]

Json = Any  # what a service answers is checked where it is used

ROOT: Final = "/ops/v1"


def post(client: "Client", path: str, body: dict[str, Json]) -> Json:
    """The answer to a request below the root of the operations API that changes something."""
    return client.request("POST", f"{ROOT}{path}", body, at_root=True)


def get(client: "Client", path: str, query: dict[str, str | None]) -> Json:
    """What is below the root of the operations API; values that are None are left out of the query."""
    given = {name: value for name, value in query.items() if value is not None}
    return client.request("GET", f"{ROOT}{path}", query=given, at_root=True, only_asks=True)


def list_all(client: "Client", path: str, query: dict[str, str | None]) -> list[Json]:
    """All items of a list."""
    page = get(client, path, {**query, "limit": "1000"})
    items: list[Json] = list(page["items"])
    while "nextCursor" in page:
        page = get(client, path, {**query, "limit": "1000", "cursor": page["nextCursor"]})
        items += page["items"]
    return items
