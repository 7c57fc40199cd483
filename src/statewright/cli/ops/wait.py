"""``statewright ops wait``: until something has happened (docs/reference/operations.md#wait)."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document
from statewright.cli.ops.requests import EntityId, Json, get

if TYPE_CHECKING:
    from statewright.sdk import Client


@with_client
def wait(
    client: "Client",
    entity: EntityId,
    state: Annotated[list[str] | None, typer.Option(help="Awaited; repeatable.", show_default=False)] = None,
    after: Annotated[str | None, typer.Option(help="Only what came after it counts.", show_default=False)] = None,
    timeout: Annotated[int, typer.Option(min=0, max=50, help="Seconds.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Wait until an entity is in a state; without one, until no transition leads out of its state."""
    states = "".join(f"&state={quote(each, safe='')}" for each in state or ())
    later = f"&after={quote(after, safe='')}" if after else ""
    path = f"/entities/{quote(entity, safe='')}/wait?timeout=PT{timeout}S{states}{later}"
    found: Json = get(client, path, {})
    if as_json:
        print_document(found)
    else:
        outcome = "reached" if found["reached"] else "deleted" if found["deleted"] else "not reached"
        typer.echo(f"{outcome}: {found.get('state', '')} after {found['waitedMs']} ms")
    if not found["reached"]:
        raise typer.Exit(1)
