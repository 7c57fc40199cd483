"""``statewright ops audit`` and ``idempotency``: what was done (docs/reference/operations.md#audit)."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document, print_table
from statewright.cli.ops.requests import Limit, get

if TYPE_CHECKING:
    from statewright.sdk import Client


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
    rows = [(act["at"], act["actor"]["id"], act["action"], act["target"]["id"], act.get("reason", "")) for act in items]
    print_table(("at", "actor", "action", "target", "reason"), rows)


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
