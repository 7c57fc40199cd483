"""``statewright ops explain``: why something is where it is (docs/reference/operations.md#explain)."""

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, format_document, print_document, print_table
from statewright.cli.ops.requests import At, EntityId, Json, get

if TYPE_CHECKING:
    from statewright.sdk import Client

SIGNS: Final = {True: "yes", False: "no", None: "unknown"}


@with_client
def explain(
    client: "Client",
    entity: EntityId,
    at: At = None,
    ask: Annotated[bool, typer.Option("--ask", help="Have members judge the criteria that are theirs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say why an entity is where it is, and what would move it; of an instance, what it waits for."""
    if is_instance(entity):
        _explain_instance(get(client, f"/instances/{quote(entity, safe='')}/explain", {}), as_json)
        return
    query = {"pointInTime": at, "evaluateFunctions": "true" if ask else None}
    found = get(client, f"/entities/{quote(entity, safe='')}/explain", query)
    if as_json:
        print_document(found)
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


def is_instance(id_: str) -> bool:
    """Whether an id is that of an instance: a ULID, which has no dashes."""
    return "-" not in id_


def _explain_instance(found: Json, as_json: bool) -> None:
    if as_json:
        print_document(found)
        return
    typer.echo(f"{found['status']} ({found['definitionId']})")
    typer.echo(f"{found['verdict']}: {found['summary']}")
    names = ("stepId", "waitsFor", "since", "jobType", "phase", "worker")
    print_table(
        ("step", "waits for", "since", "job type", "phase", "worker"),
        [[each.get(name, "") for name in names] for each in found["tokens"]],
    )


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
