"""``statewright ops diff`` and ``restore``: former documents (docs/reference/operations.md#versions).

``statewright ops wait``: until something has happened (docs/reference/operations.md#wait).
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import (
    AsJson,
    EntityId,
    Json,
    print_answer,
    show_by,
    with_client,
)
from statewright.cli.ops.calls import ask, drop_none, print_patch
from statewright.cli.ops.explanations import is_instance
from statewright.operations.table import (
    COMPARE_VERSIONS,
    RESTORE_VERSION,
    WAIT_FOR_ENTITY,
    WAIT_FOR_INSTANCE,
)

if TYPE_CHECKING:
    from statewright.sdk import Client


def _show_difference(found: Json) -> None:
    typer.echo(f"{found['state']['from'] or '(nothing)'} -> {found['state']['to']}")
    print_patch(found["patch"])


@show_by(_show_difference)
def diff(
    client: "Client",
    entity: EntityId,
    older: Annotated[
        str | None,
        typer.Option("--from", help="A transaction, an instant, or `previous`.", metavar="VERSION", show_default=False),
    ] = None,
    newer: Annotated[
        str | None,
        typer.Option("--to", help="A transaction, an instant, or `current`.", metavar="VERSION", show_default=False),
    ] = None,
) -> Json:
    """Show what changed between two versions of an entity; without options, by the last one."""
    return ask(client, COMPARE_VERSIONS, entity, query={"from": older, "to": newer})


def _show_restored(done: Json) -> None:
    if not done["restored"]:
        typer.echo("The document is the same: nothing was written.")
    print_patch(done["patch"])


@show_by(_show_restored)
def restore(
    client: "Client",
    entity: EntityId,
    version: Annotated[str, typer.Argument(help="A transaction, an instant, or `previous`.")],
    reason: Annotated[str, typer.Option(help="Why; it is on record.", show_default=False)],
    path: Annotated[
        list[str] | None, typer.Option(help="Only what is at this JSON Pointer; repeatable.", show_default=False)
    ] = None,
    transition: Annotated[str | None, typer.Option(help="Fire it with the change.", show_default=False)] = None,
    if_match: Annotated[
        str | None, typer.Option(help="Only if the entity is still at this transaction.", show_default=False)
    ] = None,
) -> Json:
    """Write a former document of an entity as its next version."""
    body = {"version": version, "reason": reason, "transition": transition, "ifMatch": if_match, "paths": path or None}
    return ask(client, RESTORE_VERSION, entity, body=drop_none(body))


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
    query: dict[str, Json] = {"timeout": f"PT{timeout}S", "state": state, "after": after or None}
    if is_instance(subject):
        found = ask(client, WAIT_FOR_INSTANCE, subject, query=query | {"until": _read_until(until)})
    elif until is None:
        found = ask(client, WAIT_FOR_ENTITY, subject, query=query)
    else:
        raise typer.BadParameter("this is no instance: --state says what is awaited", param_hint="--until")
    print_answer(found, None if as_json else _show_wait)
    if not found["reached"]:
        raise typer.Exit(1)


def _show_wait(found: Json) -> None:
    outcome = "reached" if found["reached"] else "deleted" if found["deleted"] else "not reached"
    typer.echo(f"{outcome}: {found.get('state') or found.get('status', '')} after {found['waitedMs']} ms")


def _read_until(given: str | None) -> str:
    until = (given or UNTIL[0]).upper()
    if until not in UNTIL:
        raise typer.BadParameter(f"it is one of {', '.join(UNTIL)}", param_hint="--until")
    return until
