"""``statewright ops wait``: until something has happened (docs/reference/operations.md#wait)."""

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote, urlencode

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document
from statewright.cli.ops.explain import is_instance
from statewright.cli.ops.requests import Json, get

if TYPE_CHECKING:
    from statewright.sdk import Client

UNTIL: Final = ("FINISHED", "WAITING")
"""What an instance can be waited for."""


@with_client
def wait(
    client: "Client",
    subject: Annotated[str, typer.Argument(help="The id of the entity, or of the instance.", metavar="ID")],
    state: Annotated[list[str] | None, typer.Option(help="Awaited; repeatable.", show_default=False)] = None,
    after: Annotated[str | None, typer.Option(help="Only what came after it counts.", show_default=False)] = None,
    until: Annotated[str | None, typer.Option(help="Of an instance: FINISHED or WAITING.", show_default=False)] = None,
    timeout: Annotated[int, typer.Option(min=0, max=50, help="Seconds.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Wait until an entity is in a state, or, without one, until no transition leads out of its state; until an
    instance has ended, or waits for somebody.
    """
    query = [("timeout", f"PT{timeout}S"), *(("state", each) for each in state or ())]
    query += [("after", after)] if after else []
    kind = "entities"
    if is_instance(subject):
        kind, query = "instances", [*query, ("until", _read_until(until))]
    elif until is not None:
        raise typer.BadParameter("this is no instance: --state says what is awaited", param_hint="--until")
    found: Json = get(client, f"/{kind}/{quote(subject, safe='')}/wait?{urlencode(query)}", {})
    if as_json:
        print_document(found)
    else:
        outcome = "reached" if found["reached"] else "deleted" if found["deleted"] else "not reached"
        typer.echo(f"{outcome}: {found.get('state') or found.get('status', '')} after {found['waitedMs']} ms")
    if not found["reached"]:
        raise typer.Exit(1)


def _read_until(given: str | None) -> str:
    until = (given or UNTIL[0]).upper()
    if until not in UNTIL:
        raise typer.BadParameter(f"it is one of {', '.join(UNTIL)}", param_hint="--until")
    return until
