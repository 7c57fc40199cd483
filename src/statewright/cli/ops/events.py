"""``statewright ops events …`` (docs/reference/operations.md#events-out)."""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from statewright.cli.client import Json, command
from statewright.cli.ops.calls import add_operation, ask, drop_none
from statewright.operations.events import GET_EVENT_RECORDING, READ_EVENTS, SET_EVENT_RECORDING
from statewright.operations.table import LIST_EVENTS

if TYPE_CHECKING:
    from statewright.sdk import Client


class EventCommands(TyperGroup):
    """With an id in place of a command the events of that entity are listed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Any: of click, which typer has under its own name
        """What is to be done, and with what."""
        is_id = bool(args) and not args[0].startswith("-") and args[0] not in self.commands
        return super().parse_args(ctx, ["list", *args] if is_id else args)


events = typer.Typer(
    cls=EventCommands,
    help="What happened to an entity; what was committed, for other systems.",
    no_args_is_help=True,
)

LOOK_S: Final = 1.0
"""Between two looks of ``tail``."""


@command(events)
def record(
    client: "Client",
    off: Annotated[bool, typer.Option("--off", help="Stop it.")] = False,
) -> Json:
    """Have the tenant record events."""
    return ask(client, SET_EVENT_RECORDING, body={"enabled": not off})


@command(events)
def tail(
    client: "Client",
    since: Annotated[str | None, typer.Option(help="Begin then.", metavar="RFC3339", show_default=False)] = None,
    after: Annotated[str | None, typer.Option(help="Begin behind this position.", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(help="Such as TRANSITIONED.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model.", show_default=False)] = None,
    entity: Annotated[str | None, typer.Option(help="Id of the entity.", show_default=False)] = None,
    body: Annotated[str | None, typer.Option(help="AFTER or BEFORE_AND_AFTER.", show_default=False)] = None,
    once: Annotated[bool, typer.Option("--once", help="End with what there is by now.")] = False,
) -> Json:
    """Show events, one a line, and those to come."""
    import msgspec

    encode = msgspec.json.Encoder(decimal_format="number").encode
    query = {"since": since, "after": after, "kinds": kind, "modelName": model, "entityId": entity, "includeBody": body}
    while True:
        page = ask(client, READ_EVENTS, query=drop_none(query))
        for event in page["items"]:
            typer.echo(encode(event))
        query |= {"since": None, "after": page["nextCursor"]}
        if page["items"]:
            continue
        if once:
            return None
        time.sleep(LOOK_S)


for operation in (GET_EVENT_RECORDING, LIST_EVENTS):
    add_operation(events, operation)
