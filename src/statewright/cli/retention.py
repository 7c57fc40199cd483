"""``statewright prune`` and ``statewright steps purge``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from statewright.cli.client import Model, build_model_path, with_client

if TYPE_CHECKING:
    from statewright.sdk import Client

Json = Any  # what a service answers is checked where it is used


@with_client
def prune(
    client: "Client",
    model: Model,
    older_than: Annotated[
        str, typer.Option(help="Remove what was superseded longer ago: `90d`, `12h`.", metavar="PERIOD")
    ],
) -> None:
    """Remove superseded versions of a model's entities; writers are not stopped. Can be interrupted and repeated."""
    path = f"/model/{build_model_path(model)}/history/prune"
    removed, answer = _repeat_until_complete(
        lambda: client.request("POST", path, query={"olderThan": older_than}), "removed", "versions"
    )
    typer.echo(f"{removed} versions removed; complete from {answer['keptFrom']} on")


@with_client
def purge(
    client: "Client",
    older_than: Annotated[str, typer.Option(help="Remove what finished longer ago: `90d`, `12h`.", metavar="PERIOD")],
) -> None:
    """Remove completed and cancelled instances for good; failed ones stay. Can be interrupted and repeated."""
    wanted = {"olderThan": _to_iso_8601(older_than)}
    removed, _ = _repeat_until_complete(
        lambda: client.request("POST", "/v1/instances/purge", wanted, at_root=True), "purged", "instances"
    )
    typer.echo(f"{removed} instances removed")


def _repeat_until_complete(ask: Callable[[], Json], member: str, things: str) -> tuple[int, Json]:
    """Ask again and again; how many there were in all, by a member of the answers, and the last answer."""
    columns = SpinnerColumn(), TextColumn(f"{{task.completed:,.0f}} {things} removed"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        removed = 0
        while True:
            answer = ask()
            removed += answer[member]
            progress.update(task, completed=removed)
            if answer["complete"]:
                return removed, answer


def _to_iso_8601(period: str) -> str:
    """A period as ``90d`` or ``12h`` in the notation of the step engine. Raises ``ValueError``."""
    from statewright.settings import read_period

    try:
        return f"PT{read_period(period).total_seconds():f}S"
    except (ValueError, OverflowError) as malformed:
        raise ValueError(f'--older-than: "{period}" {malformed}') from malformed
