"""``statewright ops search``, ``count`` and ``models``: entities that match, and how many there are
(docs/reference/operations.md#searching-page-by-page).
"""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from statewright.cli.client import Model, build_model_path, with_client
from statewright.cli.documents import AsJson, print_document, print_table, read_object, shorten_document
from statewright.cli.ops.requests import At, Json, Limit, ask, get, list_all

if TYPE_CHECKING:
    from statewright.sdk import Client

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
