"""``statewright ops subscriptions …`` (docs/reference/operations.md#subscriptions)."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import Json, command, read_object
from statewright.cli.ops.calls import add_operation, ask, drop_none
from statewright.operations import subscriptions as rows
from statewright.operations.table import OPERATIONS

if TYPE_CHECKING:
    from statewright.sdk import Client

subscriptions = typer.Typer(help="Who is told of what was committed, by webhooks.", no_args_is_help=True)

_URL: Final = re.compile("[a-z]+://")

Id = Annotated[str, typer.Argument(help="The id of the subscription.", metavar="ID")]


@command(subscriptions)
def create(
    client: "Client",
    name: Annotated[str, typer.Argument(help="What it is called.")],
    target: Annotated[str, typer.Argument(help="Where events are sent to.", metavar="URL|FILE")],
    kind: Annotated[list[str] | None, typer.Option(help="Such as TRANSITIONED.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Only of models with this name.", show_default=False)] = None,
    to_state: Annotated[str | None, typer.Option(help="Only with this state.", show_default=False)] = None,
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, sent along.", show_default=False)] = None,
    body: Annotated[str, typer.Option(help="NONE, AFTER or BEFORE_AND_AFTER.")] = "NONE",
    start_at: Annotated[str, typer.Option(help="NOW, or an instant.")] = "NOW",
) -> Json:
    """Have events sent to a URL, or to the broker that a file describes: JSON, with its secrets.

    Shows the secret that signs webhooks.
    """
    pairs = [one.partition("=") for one in header or ()]
    if not all(equals for _, equals, _ in pairs):
        raise typer.BadParameter("a header is NAME=VALUE", param_hint="--header")
    headers = {name: value for name, _, value in pairs}
    described = {"url": target, "headers": headers} if _URL.match(target) else read_object(target)
    wanted = drop_none({"kinds": kind or None, "modelName": model, "toState": to_state})
    order = {"name": name, "target": described, "filters": [wanted]}
    return ask(client, rows.CREATE_SUBSCRIPTION, body={**order, "includeBody": body, "startAt": start_at})


@command(subscriptions)
def enable(client: "Client", subscription: Id) -> Json:
    """Go on where it was."""
    return ask(client, rows.CHANGE_SUBSCRIPTION, subscription, body={"enabled": True})


@command(subscriptions)
def disable(client: "Client", subscription: Id) -> Json:
    """Send nothing until it is enabled again."""
    return ask(client, rows.CHANGE_SUBSCRIPTION, subscription, body={"enabled": False})


@command(subscriptions)
def rotate(
    client: "Client",
    subscription: Id,
    overlap: Annotated[str, typer.Option(help="How long the secret before signs, too; ISO 8601.")] = "PT24H",
) -> Json:
    """Sign by a new secret, which is shown."""
    return ask(client, rows.ROTATE_SECRET, subscription, body={"overlap": overlap})


@command(subscriptions)
def redeliver(
    client: "Client",
    subscription: Id,
    delivery: Annotated[list[str] | None, typer.Option(help="Id of a delivery.", show_default=False)] = None,
    since: Annotated[
        str | None, typer.Option(help="Events from then on.", metavar="RFC3339", show_default=False)
    ] = None,
    before: Annotated[str | None, typer.Option(help="Events before.", metavar="RFC3339", show_default=False)] = None,
) -> Json:
    """Send deliveries again that have ended."""
    wanted = {"deliveryIds": delivery or None, "from": since, "to": before}
    return ask(client, rows.REDELIVER, subscription, body=drop_none(wanted))


for operation in OPERATIONS:
    if operation.command is not None and operation.command.words.startswith("subscriptions "):
        add_operation(subscriptions, operation)
