"""``statewright ops diff`` and ``restore``: former documents (docs/reference/operations.md#versions).

``statewright ops idempotency``: what became of a request (docs/reference/operations.md#idempotent-requests).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import EntityId, Json, format_document, show_by, show_table
from statewright.cli.ops.calls import ask, drop_none
from statewright.operations.table import COMPARE_VERSIONS, GET_IDEMPOTENCY_RECORD, RESTORE_VERSION

if TYPE_CHECKING:
    from statewright.sdk import Client


def _show_difference(found: Json) -> None:
    typer.echo(f"{found['state']['from'] or '(nothing)'} -> {found['state']['to']}")
    _print_patch(found["patch"])


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
    _print_patch(done["patch"])


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


def _print_patch(patch: list[Json]) -> None:
    for operation in patch:
        value = f" {format_document(operation['value'])}" if "value" in operation else ""
        typer.echo(f"{operation['op']} {operation['path']}{value}")


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
