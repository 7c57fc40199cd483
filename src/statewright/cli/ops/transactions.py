"""``statewright ops transaction``, ``events`` and ``changes``: what a transaction has written, what happened to one
entity, and to all (docs/reference/operations.md#transactions, docs/reference/operations.md#events-of-runs,
docs/reference/operations.md#changes).

``statewright ops audit`` and ``idempotency``: what was done (docs/reference/operations.md#audit).
"""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from statewright.cli.client import AsJson, print_document, print_table, with_client
from statewright.cli.ops.searches import EntityId, Json, Limit, get, list_all, list_first

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


@with_client
def changes(
    client: "Client",
    model: Annotated[str | None, typer.Option(help="Only of models with this name.", show_default=False)] = None,
    actor: Annotated[str | None, typer.Option(help="Only by or for who has this id.", show_default=False)] = None,
    since: Annotated[
        str | None, typer.Option(help="Not before this instant.", metavar="RFC3339", show_default=False)
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Before this instant.", metavar="RFC3339", show_default=False)
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what was done to entities, the newest first."""
    query = {"model": model, "actor": actor, "atFrom": since, "atTo": before}
    listed = list_first(client, "/changes", query, limit)
    if as_json:
        print_document(listed)
        return
    print_table(("at", "who", "entity", "model", "change", "state"), [_describe_change(each) for each in listed])


def _describe_change(change: Json) -> tuple[object, ...]:
    model, who = change.get("model"), change.get("attributedTo")
    name = f"{model['name']}/{model['version']}" if model else ""
    known = (change.get("changeType", ""), change.get("state", ""))
    return (change["at"], who["id"] if who else "", change["entityId"], name, *known)


@with_client
def audit(
    client: "Client",
    action: Annotated[str | None, typer.Option(help="Such as `entity.restore`.", show_default=False)] = None,
    target: Annotated[str | None, typer.Option(help="Id of what it was done to.", show_default=False)] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what operators have done, newest first."""
    items = get(client, "/audit", {"action": action, "targetId": target, "limit": str(limit)})["items"]
    if as_json:
        print_document(items)
        return
    rows = [
        (
            act["at"],
            act["actor"]["id"],
            act["action"],
            act["target"]["id"],
            act.get("reason", ""),
            ", ".join(f"{name} {value}" for name, value in act["details"].items()),
        )
        for act in items
    ]
    print_table(("at", "actor", "action", "target", "reason", "details"), rows)


@with_client
def idempotency(
    client: "Client",
    key: Annotated[str, typer.Argument(help="The `Idempotency-Key` of the request.", show_default=False)],
    principal: Annotated[str | None, typer.Option(help="Whose key it is; for operators.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show what became of a request with an idempotency key."""
    found = get(client, f"/idempotency/{quote(key, safe='')}", {"principal": principal})
    if as_json:
        print_document(found)
        return
    names = ("status", "transactionId", "answerStatus", "createdAt", "expiresAt")
    print_table(("status", "transaction", "answer", "since", "until"), [[found.get(name, "") for name in names]])
    for entity in found["entityIds"]:
        typer.echo(f"entity {entity}")
