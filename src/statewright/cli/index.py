"""Commands about searches: ``statewright index …`` and ``statewright explain-search``."""

import time
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from statewright.cli.client import (
    Condition,
    Json,
    Model,
    build_model_path,
    command,
    print_table,
    read_object,
    with_client,
)

if TYPE_CHECKING:
    from statewright.sdk import Client

POLL_S: Final = 0.2

index = typer.Typer(help="Indexes that make searches fast.", no_args_is_help=True)


@command(index)
def create(
    client: "Client",
    model: Model,
    path: Annotated[str, typer.Argument(help="The field, like `$.buyer.city`; `$` for the whole document.")],
    type_: Annotated[
        str | None, typer.Option("--type", help="TEXT, NUMBER, BOOLEAN or DOCUMENT; from the model when it is clear.")
    ] = None,
    state: Annotated[str | None, typer.Option(help="Only entities in this state.")] = None,
    wait: Annotated[bool, typer.Option(help="Stay until the index is built.")] = True,
) -> None:
    """Have an index built, without stopping anybody."""
    given = {"path": path, "type": type_, "state": state}
    wanted = {name: value for name, value in given.items() if value is not None}
    declared: Json = client.request("POST", _build_index_path(model), wanted)
    if wait:
        declared = _wait_until_built(client, model, declared["id"])
    typer.echo(f"{declared['id']} {declared['status']}")


@command(index, name="list")
def list_(client: "Client", model: Model) -> None:
    """List the indexes of a model."""
    rows = []
    found: Json = client.request("GET", _build_index_path(model))
    for one in found:
        progress = one.get("progress")
        status = f"{one['status']} {progress['phase']} {progress['percent']} %" if progress else one["status"]
        rows.append((one["id"], one["path"], one["type"], one.get("state", ""), one.get("failure") or status))
    print_table(("id", "path", "type", "state", "status"), rows)


@command(index)
def drop(
    client: "Client",
    model: Model,
    id_: Annotated[str, typer.Argument(help="As `list` shows it.", metavar="ID")],
) -> None:
    """Have an index dropped."""
    client.request("DELETE", f"{_build_index_path(model)}/{quote(id_, safe='')}")


@with_client
def explain_search(
    client: "Client",
    model: Model,
    condition: Condition,
    point_in_time: Annotated[str | None, typer.Option(help="The instant to look at.", metavar="RFC3339")] = None,
    analyze: Annotated[bool, typer.Option("--analyze", help="Run the statement and show what it took.")] = False,
) -> None:
    """Show how a direct search is carried out: SQL, what is judged row by row, PostgreSQL's plan."""
    query = {"explain": "analyze" if analyze else "plan"} | ({"pointInTime": point_in_time} if point_in_time else {})
    path = f"/search/direct/{build_model_path(model)}"
    answer: Json = client.request("POST", path, read_object(condition), query=query, only_asks=True)
    typer.echo(answer["sql"])
    for number, argument in enumerate(answer["arguments"], start=1):
        typer.echo(f"  ${number} = {argument}")
    typer.echo(f"judged row by row: {', '.join(answer['judged']) or 'nothing'}")
    for line in answer["plan"]:
        typer.echo(line)


def _wait_until_built(client: "Client", model: str, wanted: str) -> Json:
    """The index once it is ready. Raises ``ValueError`` when it cannot be built."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("waiting", total=100)
        while True:
            listed: Json = client.request("GET", _build_index_path(model))
            found = next((one for one in listed if one["id"] == wanted), None)
            if found is None or found["status"] == "FAILED":
                raise ValueError(found.get("failure", "it failed") if found else "the index was dropped meanwhile")
            if found["status"] == "READY":
                return found
            now = found.get("progress", {})
            progress.update(task, description=now.get("phase", "waiting"), completed=now.get("percent", 0))
            time.sleep(POLL_S)


def _build_index_path(model: str) -> str:
    return f"/model/{build_model_path(model)}/index"
