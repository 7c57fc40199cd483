"""``statewright ops idle``, ``messages`` and ``search-jobs``: lists of what is stored
(docs/reference/operations.md#idle-entities, docs/reference/operations.md#messages-and-search-jobs).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document, print_table
from statewright.cli.ops.requests import Json, Limit, get, list_first

if TYPE_CHECKING:
    from statewright.sdk import Client

ModelName = Annotated[str | None, typer.Option("--model", help="Name of the model.", show_default=False)]


@with_client
def idle(client: "Client", model: ModelName = None, limit: Limit = 50, as_json: AsJson = False) -> None:
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
        (each["writtenAt"], each.get("since", ""), each["entityId"], _name_model(each["model"]), each["state"])
        for each in found
    ]
    print_table(("written", "since", "entity", "model", "state"), rows)


@with_client
def messages(client: "Client", limit: Limit = 50, as_json: AsJson = False) -> None:
    """List edge messages, the newest first, without their payloads."""
    listed = list_first(client, "/messages", {}, limit)
    if as_json:
        print_document(listed)
        return
    rows = [
        (each["id"], each.get("createdAt", ""), each["header"].get("subject", ""), each["header"].get("contentType"))
        for each in listed
    ]
    print_table(("id", "created", "subject", "content type"), rows)


@with_client
def search_jobs(
    client: "Client",
    status: Annotated[
        str | None, typer.Option(help="RUNNING, SUCCESSFUL, FAILED or CANCELLED.", show_default=False)
    ] = None,
    model: ModelName = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List the searches whose results are kept, the newest first."""
    listed = list_first(
        client, "/search-jobs", {"status": None if status is None else status.upper(), "model": model}, limit
    )
    if as_json:
        print_document(listed)
        return
    rows = [
        (each["id"], _name_model(each["model"]), each["status"].lower(), each["createdAt"], each["hits"])
        for each in listed
    ]
    print_table(("id", "model", "status", "created", "hits"), rows)


def _name_model(model: Json) -> str:
    return f"{model['name']}/{model['version']}"
