"""``statewright ops search`` and ``count``: entities that match, and how many there are
(docs/reference/operations.md#searching-page-by-page).

``statewright ops instances``, ``idle`` and ``search-jobs``: lists of what is stored
(docs/reference/operations.md#idle-entities, docs/reference/operations.md#messages-and-search-jobs).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import (
    AsJson,
    At,
    Condition,
    Json,
    Model,
    Sort,
    name_model,
    print_answer,
    print_table,
    read_object,
    shorten_document,
    show_by,
    show_table,
    split_model,
    with_client,
)
from statewright.cli.ops.calls import DEFAULT_LIMIT, Limit, ModelName, ask, list_first
from statewright.operations.table import (
    COUNT_INSTANCES,
    COUNT_MATCHING_ENTITIES,
    COUNT_STEPS,
    LIST_IDLE_ENTITIES,
    LIST_SEARCH_JOBS,
    SEARCH_ENTITY_PAGES,
)

if TYPE_CHECKING:
    from statewright.sdk import Client


Cursor = Annotated[
    str | None, typer.Option(help="The page after that which told it.", metavar="CURSOR", show_default=False)
]


def _show_page(page: Json) -> None:
    rows = [
        (known["id"], known["state"], known["lastUpdateTime"], shorten_document(entity["data"]))
        for entity in page["items"]
        for known in (entity["meta"],)
    ]
    print_table(("id", "state", "updated", "document"), rows)
    if "nextCursor" in page:
        typer.echo(f"next page: --cursor {page['nextCursor']}")


@show_by(_show_page)
def search(
    client: "Client",
    model: Model,
    condition: Condition,
    sort: Sort = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    at: At = None,
) -> Json:
    """Show a page of the entities that match, in order; with the cursor it tells, the next one."""
    name, version = split_model(model)
    query = {"limit": limit, "sort": sort, "cursor": cursor, "pointInTime": at}
    return ask(client, SEARCH_ENTITY_PAGES, name, str(version), query=query, body=read_object(condition))


@show_by(lambda found: typer.echo(f"{found['total']}{' or more' if found.get('totalIsLowerBound') else ''}"))
def count(client: "Client", model: Model, condition: Condition, at: At = None) -> Json:
    """Count the entities that match, up to 10,000."""
    name, version = split_model(model)
    return ask(
        client, COUNT_MATCHING_ENTITIES, name, str(version), query={"pointInTime": at}, body=read_object(condition)
    )


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
    operation, columns = (
        (COUNT_STEPS, "stepId | count") if steps else (COUNT_INSTANCES, "language | definitionId | status | count")
    )
    found = ask(client, operation, query={"language": language, "definitionId": definition})
    print_answer(found, None if as_json else show_table(columns, "items"))
    if found["isLowerBound"] and not as_json:
        typer.echo("There are more: these were counted.")


@show_by(show_table("writtenAt | since | entityId | model | state"))
def idle(client: "Client", model: ModelName = None, limit: Limit = DEFAULT_LIMIT) -> Json:
    """List the entities that could move and were written the longest time ago."""
    found: list[Json] = []
    page: Json = {"nextCursor": None}
    while "nextCursor" in page:
        query = {"model": model, "limit": limit, "cursor": page["nextCursor"]}
        page = ask(client, LIST_IDLE_ENTITIES, query=query)
        found = sorted([*found, *page["items"]], key=lambda each: each["writtenAt"])[:limit]
    return found


def _show_jobs(jobs: Json) -> None:
    rows = [(one["id"], name_model(one["model"]), one["status"].lower(), one["createdAt"], one["hits"]) for one in jobs]
    print_table(("id", "model", "status", "created", "hits"), rows)


@show_by(_show_jobs)
def search_jobs(
    client: "Client",
    status: Annotated[
        str | None, typer.Option(help="RUNNING, SUCCESSFUL, FAILED or CANCELLED.", show_default=False)
    ] = None,
    model: ModelName = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Json:
    """List the searches whose results are kept, the newest first."""
    query = {"status": None if status is None else status.upper(), "model": model}
    return list_first(client, LIST_SEARCH_JOBS, limit, query=query)
