"""``statewright ops suspend``, ``resume`` and ``suspensions`` (docs/reference/operations.md#suspensions)."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from statewright.cli.client import with_client
from statewright.cli.documents import AsJson, print_document, print_table
from statewright.cli.ops.requests import Json, list_all, post

if TYPE_CHECKING:
    from statewright.sdk import Client


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
