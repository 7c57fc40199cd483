"""The command ``statewright prune``: it speaks to a running service over HTTP, like the commands about searches."""

from typing import Annotated
from urllib.parse import urlencode

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from statewright.search_commands import DEFAULT_URL, Model, Service, Token, TokenFile, Url, one_line_failures, path_of


def prune(
    model: Model,
    older_than: Annotated[
        str, typer.Option(help="Remove what was superseded longer ago: `90d`, `12h`.", metavar="PERIOD")
    ],
    url: Url = DEFAULT_URL,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Remove superseded versions of a model's entities; writers are not stopped. Can be interrupted and repeated."""
    path = f"/model/{path_of(model)}/history/prune?{urlencode({'olderThan': older_than})}"
    columns = SpinnerColumn(), TextColumn("{task.completed:,.0f} versions removed"), TimeElapsedColumn()
    with one_line_failures():
        service = Service(url, token, token_file)
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("", total=None)
            removed = 0
            while True:
                answer = service("POST", path)
                removed += answer["removed"]
                progress.update(task, completed=removed)
                if answer["complete"]:
                    break
    typer.echo(f"{removed} versions removed; complete from {answer['keptFrom']} on")
