"""``statewright ops search``, ``count`` and ``models``: entities that match, and how many there are
(docs/reference/operations.md#searching-page-by-page).

``statewright ops idle``, ``messages`` and ``search-jobs``: lists of what is stored
(docs/reference/operations.md#idle-entities, docs/reference/operations.md#messages-and-search-jobs).

Requests of commands to the operations API (docs/reference/operations.md), and the options that they share.
"""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode

import typer

from statewright.cli.client import (
    AsJson,
    Model,
    build_model_path,
    print_document,
    print_table,
    read_object,
    shorten_document,
    with_client,
)

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


Condition = Annotated[str, typer.Argument(help="The condition: JSON, or a file with it; `-` for standard input.")]
Cursor = Annotated[
    str | None, typer.Option(help="The page after that which told it.", metavar="CURSOR", show_default=False)
]


@with_client
def search(
    client: "Client",
    model: Model,
    condition: Condition,
    sort: Annotated[
        list[str] | None, typer.Option(help="A key such as `total:desc` or `@state`; repeatable.", metavar="KEY")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    at: At = None,
    as_json: AsJson = False,
) -> None:
    """Show a page of the entities that match, in order; with the cursor it tells, the next one."""
    query = [("limit", str(limit)), *(("sort", key) for key in sort or ())]
    query += [(name, text) for name, text in (("cursor", cursor), ("pointInTime", at)) if text is not None]
    path = f"/models/{build_model_path(model)}/entities/search?{urlencode(query)}"
    page = ask(client, path, read_object(condition))
    if as_json:
        print_document(page)
        return
    rows = [
        (known["id"], known["state"], known["lastUpdateTime"], shorten_document(entity["data"]))
        for entity in page["items"]
        for known in (entity["meta"],)
    ]
    print_table(("id", "state", "updated", "document"), rows)
    if "nextCursor" in page:
        typer.echo(f"next page: --cursor {page['nextCursor']}")


@with_client
def count(client: "Client", model: Model, condition: Condition, at: At = None, as_json: AsJson = False) -> None:
    """Count the entities that match, up to 10,000."""
    query = f"?{urlencode({'pointInTime': at})}" if at is not None else ""
    found = ask(client, f"/models/{build_model_path(model)}/entities/count{query}", read_object(condition))
    if as_json:
        print_document(found)
    else:
        typer.echo(f"{found['total']}{' or more' if found.get('totalIsLowerBound') else ''}")


@with_client
def models(client: "Client", as_json: AsJson = False) -> None:
    """List the models, with about how many entities each has."""
    listed = list_all(client, "/models", {})
    if as_json:
        print_document(listed)
        return
    rows = [(f"{each['name']}/{each['version']}", each["estimatedEntities"]) for each in listed]
    print_table(("model", "entities, about"), rows)


@with_client
def instances(
    client: "Client",
    language: Annotated[
        str | None, typer.Option(help="The process language, such as `steps`.", show_default=False)
    ] = None,
    definition: Annotated[str | None, typer.Option(help="Id of the definition.", show_default=False)] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="What is under way, by step; of one definition of a language.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count instances by definition and status."""
    if steps and (language is None or definition is None):
        raise typer.BadParameter("it takes --language and --definition, too", param_hint="--steps")
    path = "/instance-counts/steps" if steps else "/instance-counts"
    found = get(client, path, {"language": language, "definitionId": definition})
    if as_json:
        print_document(found)
        return
    _print_counts(found, ("stepId",) if steps else ("language", "definitionId", "status"))


def _print_counts(found: Json, names: tuple[str, ...]) -> None:
    headers = {"stepId": "step", "definitionId": "definition"}
    rows = [[each[name] for name in (*names, "count")] for each in found["items"]]
    print_table([headers.get(name, name) for name in (*names, "count")], rows)
    if found["isLowerBound"]:
        typer.echo("There are more: these were counted.")


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
