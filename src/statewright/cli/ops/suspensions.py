"""``statewright ops suspend``, ``resume`` and ``suspensions`` (docs/reference/operations.md#suspensions)."""

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import Json, name_model, print_table, show_by
from statewright.cli.ops.calls import ask, drop_none, list_all
from statewright.operations.table import LIST_SUSPENSIONS, RESUME, SUSPEND

if TYPE_CHECKING:
    from statewright.sdk import Client


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
