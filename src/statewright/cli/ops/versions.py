"""``statewright ops versions``, ``diff`` and ``restore``: former documents (docs/reference/operations.md#versions)."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from statewright.cli.client import AsJson, format_document, print_document, print_table, with_client
from statewright.cli.ops.searches import EntityId, Json, get, list_all, post

if TYPE_CHECKING:
    from statewright.sdk import Client


@with_client
def versions(client: "Client", entity: EntityId, as_json: AsJson = False) -> None:
    """List the versions of an entity, newest first."""
    listed = list_all(client, f"/entities/{quote(entity, safe='')}/versions", {})
    if as_json:
        print_document(listed)
        return
    rows = [
        (each["at"], each["transactionId"], each["state"], each["transition"], each["attributedTo"]["id"])
        for each in listed
    ]
    print_table(("at", "transaction", "state", "transition", "by"), rows)


@with_client
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
    as_json: AsJson = False,
) -> None:
    """Show what changed between two versions of an entity; without options, by the last one."""
    found = get(client, f"/entities/{quote(entity, safe='')}/diff", {"from": older, "to": newer})
    if as_json:
        print_document(found)
        return
    typer.echo(f"{found['state']['from'] or '(nothing)'} -> {found['state']['to']}")
    _print_patch(found["patch"])


@with_client
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
    as_json: AsJson = False,
) -> None:
    """Write a former document of an entity as its next version."""
    body: dict[str, Json] = {"version": version, "reason": reason, "transition": transition, "ifMatch": if_match}
    body["paths"] = path or None
    given = {key: each for key, each in body.items() if each is not None}
    done = post(client, f"/entities/{quote(entity, safe='')}/restore", given)
    if as_json:
        print_document(done)
        return
    if not done["restored"]:
        typer.echo("The document is the same: nothing was written.")
    _print_patch(done["patch"])


def _print_patch(patch: list[Json]) -> None:
    for operation in patch:
        value = f" {format_document(operation['value'])}" if "value" in operation else ""
        typer.echo(f"{operation['op']} {operation['path']}{value}")
