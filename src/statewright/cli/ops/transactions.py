"""``statewright ops transaction`` and ``events``: what a transaction has written, and what happened to an entity
(docs/reference/operations.md#transactions, docs/reference/operations.md#events-of-runs).
"""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document, print_table
from statewright.cli.ops.requests import EntityId, Json, Limit, list_all, list_first

if TYPE_CHECKING:
    from statewright.sdk import Client


@with_client
def transaction(
    client: "Client",
    id_: Annotated[str, typer.Argument(help="The id of the transaction.", metavar="ID")],
    as_json: AsJson = False,
) -> None:
    """List the entities that a transaction has written, by id."""
    listed = list_all(client, f"/transactions/{quote(id_, safe='')}/entities", {})
    if as_json:
        print_document(listed)
        return
    print_table(
        ("entity", "model", "state", "transition", "change", "versions", "events"),
        [_describe_written(each) for each in listed],
    )


def _describe_written(written: Json) -> tuple[object, ...]:
    """What of it is known: versions may have been pruned."""
    model = written.get("model")
    known = (written.get(name, "") for name in ("state", "transition", "changeType"))
    name = f"{model['name']}/{model['version']}" if model else ""
    return (written["entityId"], name, *known, written["versions"], written["events"])


@with_client
def events(
    client: "Client",
    entity: EntityId,
    run: Annotated[
        str | None,
        typer.Option("--transaction", help="Only those of its run.", metavar="TRANSACTION", show_default=False),
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List the events of the runs of an entity, those of the newest run first."""
    listed = list_first(client, f"/entities/{quote(entity, safe='')}/events", {"transactionId": run}, limit)
    if as_json:
        print_document(listed)
        return
    rows = [(each["at"], each["eventType"], each.get("state", ""), each["details"]) for each in listed]
    print_table(("at", "event", "state", "details"), rows)
