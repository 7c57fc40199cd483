"""``statewright ops incidents …``: failed work (docs/reference/operations.md#incidents)."""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import (
    AsJson,
    Json,
    command,
    print_answer,
    read_document,
    show_table,
)
from statewright.cli.ops.bulk_jobs import follow
from statewright.cli.ops.calls import add_operation, ask, list_all
from statewright.operations.table import (
    GET_INCIDENT,
    LIST_BULK_ITEMS,
    LIST_INCIDENT_GROUPS,
    LIST_INCIDENTS,
    RESOLVE_INCIDENT,
    RESOLVE_INCIDENT_GROUP,
    RETRY_INCIDENT,
    RETRY_INCIDENT_GROUP,
    ApiOperation,
)

if TYPE_CHECKING:
    from statewright.sdk import Client


incidents = typer.Typer(help="Look at failed work, do it again, close it.", no_args_is_help=True)

OneIncident = Annotated[str | None, typer.Argument(help="The id of the incident.", metavar="[ID]", show_default=False)]
Group = Annotated[
    str | None,
    typer.Option("--group", help="All open ones of this fingerprint.", metavar="FINGERPRINT", show_default=False),
]


@command(incidents, name="list")
def list_incidents(
    client: "Client",
    kind: Annotated[str | None, typer.Option(help="Such as RUN_FAILED.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Name, or name/version.", show_default=False)] = None,
    groups: Annotated[bool, typer.Option("--groups", help="One line for each cause.")] = False,
    as_json: AsJson = False,
) -> None:
    """List failed work that is open, the last first."""
    if groups:
        found, columns = (
            list_all(client, LIST_INCIDENT_GROUPS),
            "group: fingerprint | open | occurrences | lastAt | what: title",
        )
    else:
        found = list_all(client, LIST_INCIDENTS, query={"kind": kind, "model": model})
        columns = "id | kind | occurrences | lastAt | what: title"
    print_answer(found, None if as_json else show_table(columns))


add_operation(incidents, GET_INCIDENT)


@command(incidents)
def retry(
    client: "Client",
    incident: OneIncident = None,
    group: Group = None,
    document: Annotated[
        str | None, typer.Option(help="JSON to use in place of what was kept.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also when the entity was written since.")] = False,
) -> Json:
    """Do again what failed; of a group by a bulk job, whatever becomes of each."""
    body: dict[str, Json] = {"force": force} | ({} if document is None else {"document": read_document(document)})
    if group is not None and document is not None:
        raise typer.BadParameter("a document is for one incident", param_hint="--document")
    done = _act(client, (RETRY_INCIDENT, RETRY_INCIDENT_GROUP), incident, group, body)
    return done and done["result"]


@command(incidents)
def resolve(
    client: "Client",
    reason: Annotated[str, typer.Option(help="Why it needs nobody any more.", show_default=False)],
    incident: OneIncident = None,
    group: Group = None,
) -> Json:
    """Close an incident, or a group of them."""
    done = _act(client, (RESOLVE_INCIDENT, RESOLVE_INCIDENT_GROUP), incident, group, {"reason": reason})
    return done and done["status"]


def _act(
    client: "Client",
    operations: tuple[ApiOperation[object], ApiOperation[object]],
    incident: str | None,
    group: str | None,
    body: dict[str, Json],
) -> Json:
    """What becomes of an incident. Those of a group are done by a bulk job, with a line for each at its end, and exit
    code 1 where one was not done.
    """
    if (incident is None) == (group is None):
        raise typer.BadParameter("name an incident, or a group by --group")
    if incident is not None:
        return ask(client, operations[0], incident, body=body)
    job = follow(client, ask(client, operations[1], group or "", body=body))
    for item in list_all(client, LIST_BULK_ITEMS, job["id"]):
        told = "done" if item["status"] == "SUCCEEDED" else f"{item['code']}: {item['message']}"
        typer.echo(f"{item['id']}: {told}")
    if job["totals"]["succeeded"] < job["totals"]["total"]:
        raise typer.Exit(1)
    return None
