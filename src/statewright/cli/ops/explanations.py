"""``statewright ops explain``: why something is where it is (docs/reference/operations.md#explain)."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import (
    At,
    EntityId,
    Json,
    format_document,
    print_table,
    show_by,
    show_table,
)
from statewright.cli.ops.calls import ask
from statewright.operations.table import EXPLAIN_ENTITY, EXPLAIN_INSTANCE

if TYPE_CHECKING:
    from statewright.sdk import Client


SIGNS: Final = {True: "yes", False: "no", None: "unknown"}


def _show_explanation(found: Json) -> None:
    if "status" in found:
        typer.echo(f"{found['status']} ({found['definitionId']})")
        typer.echo(f"{found['verdict']}: {found['summary']}")
        show_table("stepId | waitsFor | since | job type: jobType | phase | worker", "tokens")(found)
        return
    workflow = found["workflow"]
    typer.echo(f"{found['state']} since {found.get('since', '?')} ({workflow['name'] or 'no workflow'})")
    typer.echo(f"{found['verdict']}: {found['summary']}")
    rows = [
        (each["name"], each["next"], each["kind"].lower(), SIGNS[each["wouldFire"]], ", ".join(each["blockedBy"]))
        for each in found["transitions"]
    ]
    print_table(("transition", "next", "kind", "would fire", "blocked by"), rows)
    for each in found["transitions"]:
        if each["criterion"] is not None and each["criterion"]["result"] is not True:
            typer.echo(f"{each['name']}:")
            _print_criterion(each["criterion"], "  ")


@show_by(_show_explanation)
def explain(
    client: "Client",
    entity: EntityId,
    at: At = None,
    evaluates: Annotated[bool, typer.Option("--ask", help="Have members judge the criteria that are theirs.")] = False,
) -> Json:
    """Say why an entity is where it is, and what would move it; of an instance, what it waits for."""
    if is_instance(entity):
        return ask(client, EXPLAIN_INSTANCE, entity)
    query = {"pointInTime": at, "evaluateFunctions": "true" if evaluates else None}
    return ask(client, EXPLAIN_ENTITY, entity, query=query)


def is_instance(id_: str) -> bool:
    """Whether an id is that of an instance: a ULID, which has no dashes."""
    return "-" not in id_


def _print_criterion(criterion: Json, indent: str) -> None:
    """The parts that do not hold, each with what was found."""
    if criterion.get("type") == "group":
        typer.echo(f"{indent}{criterion['operator']}: {SIGNS[criterion['result']]}")
        for child in criterion["conditions"]:
            _print_criterion(child, indent + "  ")
        return
    place = criterion.get("path") or criterion.get("field") or criterion.get("name", "")
    found = criterion.get("value", criterion.get("values", "absent" if criterion.get("absent") else ""))
    parts = (place, criterion.get("operator", ""), criterion.get("operand", ""), f"found {format_document(found)}")
    why = criterion.get("error") or SIGNS[criterion["result"]]
    typer.echo(f"{indent}{' '.join(str(part) for part in parts if part != '')}: {why}")
