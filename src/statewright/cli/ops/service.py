"""``statewright ops settings``: those of the process that answers (docs/reference/operations.md#nodes).

``statewright ops idempotency``: what became of a request (docs/reference/operations.md#idempotent-requests).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import Json, print_table, show_by, show_table
from statewright.cli.ops.calls import ask
from statewright.operations.table import GET_IDEMPOTENCY_RECORD, LIST_SETTINGS

if TYPE_CHECKING:
    from statewright.sdk import Client


def _show_settings(settings: Json) -> None:
    rows = [[each["name"], each["value"] or "", each["variable"] or "(default)"] for each in settings]
    print_table(("setting", "value", "from"), rows)


@show_by(_show_settings)
def settings(client: "Client") -> Json:
    """List the settings of the node that answers; secrets are not shown. For administrators."""
    return ask(client, LIST_SETTINGS)["items"]


def _show_record(found: Json) -> None:
    show_table("status | transactionId | answer: answerStatus | since: createdAt | until: expiresAt")([found])
    for entity in found["entityIds"]:
        typer.echo(f"entity {entity}")


@show_by(_show_record)
def idempotency(
    client: "Client",
    key: Annotated[str, typer.Argument(help="The `Idempotency-Key` of the request.", show_default=False)],
    principal: Annotated[str | None, typer.Option(help="Whose key it is; for operators.", show_default=False)] = None,
) -> Json:
    """Show what became of a request with an idempotency key."""
    return ask(client, GET_IDEMPOTENCY_RECORD, key, query={"principal": principal})
