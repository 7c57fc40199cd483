"""``statewright ops incidents …``: failed work (docs/reference/operations.md#incidents).

``statewright ops suspend``, ``resume`` and ``suspensions`` (docs/reference/operations.md#suspensions).
"""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from statewright.cli.client import AsJson, print_document, print_table, read_document, with_client
from statewright.cli.ops.searches import Json, get, list_all, post

if TYPE_CHECKING:
    from statewright.sdk import Client


incidents = typer.Typer(help="Look at failed work, do it again, close it.", no_args_is_help=True)

IncidentId = Annotated[str, typer.Argument(help="The id of the incident.", metavar="ID")]
OneIncident = Annotated[str | None, typer.Argument(help="The id of the incident.", metavar="[ID]", show_default=False)]
Group = Annotated[
    str | None,
    typer.Option("--group", help="All open ones of this fingerprint.", metavar="FINGERPRINT", show_default=False),
]


@incidents.command("list")
@with_client
def list_incidents(
    client: "Client",
    kind: Annotated[str | None, typer.Option(help="Such as RUN_FAILED.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(help="Name, or name/version.", show_default=False)] = None,
    groups: Annotated[bool, typer.Option("--groups", help="One line for each cause.")] = False,
    as_json: AsJson = False,
) -> None:
    """List failed work that is open, the last first."""
    if groups:
        found = list_all(client, "/incident-groups", {})
        rows = [[each[name] for name in ("open", "occurrences", "lastAt", "title")] for each in found]
        headers: tuple[str, ...] = ("open", "occurrences", "last", "what")
    else:
        found = list_all(client, "/incidents", {"kind": kind, "model": model})
        rows = [[each[name] for name in ("id", "kind", "occurrences", "lastAt", "title")] for each in found]
        headers = ("id", "kind", "occurrences", "last", "what")
    if as_json:
        print_document(found)
    else:
        print_table(headers, rows)


@incidents.command("show")
@with_client
def show_incident(client: "Client", incident: IncidentId) -> None:
    """Show an incident, with what was asked for."""
    print_document(get(client, f"/incidents/{quote(incident, safe='')}", {}))


@incidents.command("retry")
@with_client
def retry_incident(
    client: "Client",
    incident: OneIncident = None,
    group: Group = None,
    document: Annotated[
        str | None, typer.Option(help="JSON to use in place of what was kept.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also when the entity was written since.")] = False,
) -> None:
    """Do again what failed; of a group one after the other, whatever becomes of each."""
    body: dict[str, Json] = {"force": force} | ({} if document is None else {"document": read_document(document)})
    if _require_one(incident, group) is None:
        _act_on_group(client, group, "retry", body)
    else:
        print_document(post(client, f"/incidents/{quote(incident or '', safe='')}/retry", body)["result"])


@incidents.command("resolve")
@with_client
def resolve_incident(
    client: "Client",
    reason: Annotated[str, typer.Option(help="Why it needs nobody any more.", show_default=False)],
    incident: OneIncident = None,
    group: Group = None,
) -> None:
    """Close an incident, or a group of them."""
    if _require_one(incident, group) is None:
        _act_on_group(client, group, "resolve", {"reason": reason})
    else:
        typer.echo(post(client, f"/incidents/{quote(incident or '', safe='')}/resolve", {"reason": reason})["status"])


def _require_one(incident: str | None, group: str | None) -> str | None:
    """The incident; None for a group."""
    if (incident is None) == (group is None):
        raise typer.BadParameter("name an incident, or a group by --group")
    return incident


def _act_on_group(client: "Client", fingerprint: str | None, act: str, body: dict[str, Json]) -> None:
    """One after the other; a line for each, and exit code 1 where one was refused."""
    from statewright.sdk.errors import Refused

    refused = 0
    for each in list_all(client, "/incidents", {"fingerprint": fingerprint}):
        try:
            post(client, f"/incidents/{each['id']}/{act}", body)
            typer.echo(f"{each['id']}: done")
        except Refused as failure:
            refused += 1
            typer.echo(f"{each['id']}: {failure}")
    if refused:
        raise typer.Exit(1)


@with_client
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
    as_json: AsJson = False,
) -> None:
    """Stop movement at a chosen place, on every node."""
    body: dict[str, Json] = {"scope": scope.upper(), "reason": reason, "id": entity or instance, "until": until}
    body |= {"workflow": workflow, "transition": transition, "definitionId": definition, "name": name}
    if model is not None:
        model_name, _, version = model.rpartition("/")
        if not model_name or not version.isdigit():
            raise typer.BadParameter("a model is written name/version", param_hint="--model")
        body["model"] = {"name": model_name, "version": int(version)}
    given = {key: each for key, each in body.items() if each is not None}
    _print_suspension(post(client, "/suspensions", given), as_json)


@with_client
def resume(
    client: "Client",
    suspension: Annotated[str, typer.Argument(help="The id of the suspension.", metavar="ID")],
    timers: Annotated[str, typer.Option(help="FIRE: what came due fires; SHIFT: all timers move on.")] = "FIRE",
    reason: Annotated[str | None, typer.Option(help="Why.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Let movement go on."""
    body = {"timers": timers.upper()} | ({} if reason is None else {"reason": reason})
    _print_suspension(post(client, f"/suspensions/{quote(suspension, safe='')}/resume", body), as_json)


@with_client
def suspensions(
    client: "Client",
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what is suspended."""
    found = list_all(client, "/suspensions", {} if everything else {"active": "true"})
    if as_json:
        print_document(found)
        return
    rows = [
        (each["id"], each["scope"], _name_target(each), each["since"], each["by"]["id"], each["reason"])
        for each in found
    ]
    print_table(("id", "scope", "target", "since", "by", "reason"), rows)


def _print_suspension(suspension: Json, as_json: bool) -> None:
    if as_json:
        print_document(suspension)
        return
    state = "suspended" if suspension["active"] else "resumed"
    typer.echo(f"{suspension['id']} {suspension['scope']} {_name_target(suspension)}: {state}")
    if not suspension["effective"]:
        typer.echo(f"not heard of yet by: {', '.join(suspension['pendingNodes'])}")
    if suspension["underWay"]:
        typer.echo(f"begun before, and coming to an end: {suspension['underWay']}")


def _name_target(suspension: Json) -> str:
    model = suspension.get("model")
    parts = [f"{model['name']}/{model['version']}"] if model else []
    parts += [
        suspension[name]
        for name in ("entityId", "instanceId", "workflow", "transition", "definitionId", "name")
        if name in suspension
    ]
    return " ".join(parts)
