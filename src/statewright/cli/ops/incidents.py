"""``statewright ops incidents …``: failed work (docs/reference/operations.md#incidents).

``statewright ops suspend``, ``resume`` and ``suspensions`` (docs/reference/operations.md#suspensions).
"""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import (
    AsJson,
    Json,
    command,
    name_model,
    print_answer,
    print_table,
    read_document,
    show_by,
    show_table,
)
from statewright.cli.ops.calls import add_operation, ask, drop_none, list_all
from statewright.operations.table import (
    GET_INCIDENT,
    LIST_INCIDENT_GROUPS,
    LIST_INCIDENTS,
    LIST_SUSPENSIONS,
    RESOLVE_INCIDENT,
    RESUME,
    RETRY_INCIDENT,
    SUSPEND,
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
        found, columns = list_all(client, LIST_INCIDENT_GROUPS), "open | occurrences | lastAt | what: title"
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
    """Do again what failed; of a group one after the other, whatever becomes of each."""
    body: dict[str, Json] = {"force": force} | ({} if document is None else {"document": read_document(document)})
    done = _act(client, RETRY_INCIDENT, incident, group, body)
    return done and done["result"]


@command(incidents)
def resolve(
    client: "Client",
    reason: Annotated[str, typer.Option(help="Why it needs nobody any more.", show_default=False)],
    incident: OneIncident = None,
    group: Group = None,
) -> Json:
    """Close an incident, or a group of them."""
    done = _act(client, RESOLVE_INCIDENT, incident, group, {"reason": reason})
    return done and done["status"]


def _act(
    client: "Client", operation: ApiOperation[object], incident: str | None, group: str | None, body: dict[str, Json]
) -> Json:
    """What becomes of an incident. Those of a group follow one after the other, with a line for each, and exit code 1
    where one was refused.
    """
    from statewright.sdk.errors import Refused

    if (incident is None) == (group is None):
        raise typer.BadParameter("name an incident, or a group by --group")
    if incident is not None:
        return ask(client, operation, incident, body=body)
    refused = 0
    for each in list_all(client, LIST_INCIDENTS, query={"fingerprint": group}):
        try:
            ask(client, operation, each["id"], body=body)
            typer.echo(f"{each['id']}: done")
        except Refused as failure:
            refused += 1
            typer.echo(f"{each['id']}: {failure}")
    if refused:
        raise typer.Exit(1)
    return None


def _show_suspension(suspension: Json) -> None:
    state = "suspended" if suspension["active"] else "resumed"
    typer.echo(f"{suspension['id']} {suspension['scope']} {_name_target(suspension)}: {state}")
    if not suspension["effective"]:
        typer.echo(f"not heard of yet by: {', '.join(suspension['pendingNodes'])}")
    if suspension["underWay"]:
        typer.echo(f"begun before, and coming to an end: {suspension['underWay']}")


@show_by(_show_suspension)
def suspend(
    client: "Client",
    scope: Annotated[
        str, typer.Argument(help="ENTITY, INSTANCE, MODEL, WORKFLOW, TRANSITION, DEFINITION, JOB_TYPE, TAG, TENANT.")
    ],
    reason: Annotated[str, typer.Option(help="Why; others read it.", show_default=False)],
    entity: Annotated[str | None, typer.Option(help="Id of the entity.", show_default=False)] = None,
    instance: Annotated[str | None, typer.Option(help="Id of the instance.", show_default=False)] = None,
    definition: Annotated[str | None, typer.Option(help="Id of the definition.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Such as `prize/1`.", show_default=False)] = None,
    workflow: Annotated[str | None, typer.Option(help="Name of the workflow.", show_default=False)] = None,
    transition: Annotated[str | None, typer.Option(help="Name of the transition.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(help="The type of jobs, or the tag.", show_default=False)] = None,
    until: Annotated[
        str | None, typer.Option(help="Ends by itself then.", metavar="RFC3339", show_default=False)
    ] = None,
) -> Json:
    """Stop movement at a chosen place, on every node."""
    body: dict[str, Json] = {"scope": scope.upper(), "reason": reason, "id": entity or instance, "until": until}
    body |= {"workflow": workflow, "transition": transition, "definitionId": definition, "name": name}
    if model is not None:
        model_name, _, version = model.rpartition("/")
        if not model_name or not version.isdigit():
            raise typer.BadParameter("a model is written name/version", param_hint="--model")
        body["model"] = {"name": model_name, "version": int(version)}
    return ask(client, SUSPEND, body=drop_none(body))


@show_by(_show_suspension)
def resume(
    client: "Client",
    suspension: Annotated[str, typer.Argument(help="The id of the suspension.", metavar="ID")],
    timers: Annotated[str, typer.Option(help="FIRE: what came due fires; SHIFT: all timers move on.")] = "FIRE",
    reason: Annotated[str | None, typer.Option(help="Why.", show_default=False)] = None,
) -> Json:
    """Let movement go on."""
    return ask(client, RESUME, suspension, body=drop_none({"timers": timers.upper(), "reason": reason}))


def _show_suspensions(found: Json) -> None:
    rows = [(one["id"], one["scope"], _name_target(one), one["since"], one["by"]["id"], one["reason"]) for one in found]
    print_table(("id", "scope", "target", "since", "by", "reason"), rows)


@show_by(_show_suspensions)
def suspensions(
    client: "Client",
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
) -> Json:
    """List what is suspended."""
    return list_all(client, LIST_SUSPENSIONS, query={} if everything else {"active": "true"})


def _name_target(suspension: Json) -> str:
    model = suspension.get("model")
    names = ("entityId", "instanceId", "workflow", "transition", "definitionId", "name")
    return " ".join([*([name_model(model)] if model else ()), *(suspension[one] for one in names if one in suspension)])
