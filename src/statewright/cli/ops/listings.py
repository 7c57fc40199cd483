"""``statewright ops idle``: lists of what is stored (docs/reference/operations.md#idle-entities)."""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document, print_table
from statewright.cli.ops.requests import Json, get

if TYPE_CHECKING:
    from statewright.sdk import Client


@with_client
def idle(
    client: "Client",
    model: Annotated[str | None, typer.Option(help="Name of the model.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the entities that could move and were written the longest time ago."""
    found: list[Json] = []
    query = {"model": model, "limit": str(limit)}
    while True:
        page = get(client, "/idle-entities", query)
        found = sorted([*found, *page["items"]], key=lambda each: each["writtenAt"])[:limit]
        if "nextCursor" not in page:
            break
        query["cursor"] = page["nextCursor"]
    if as_json:
        print_document(found)
        return
    rows = [
        (each["writtenAt"], each.get("since", ""), each["entityId"], f"{name['name']}/{name['version']}", each["state"])
        for each in found
        for name in (each["model"],)
    ]
    print_table(("written", "since", "entity", "model", "state"), rows)
