"""``statewright ops explain``: why something is where it is (docs/reference/operations.md#explain).

``statewright ops wait``: until something has happened (docs/reference/operations.md#wait).
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import (
    AsJson,
    At,
    EntityId,
    Json,
    format_document,
    print_answer,
    print_table,
    show_by,
    show_table,
    with_client,
)
from statewright.cli.ops.calls import ask
from statewright.operations.table import EXPLAIN_ENTITY, EXPLAIN_INSTANCE, WAIT_FOR_ENTITY, WAIT_FOR_INSTANCE

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
