"""The commands ``statewright export`` and ``statewright import``: entities to a file of JSON lines, and back."""

import http.client
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from statewright.search_commands import DEFAULT_URL
from statewright.transfer import MOST_ITEMS

# The SDK behind these commands is loaded when one of them runs: `statewright --help` does without.
if TYPE_CHECKING:
    from statewright.transfer.session import Session

Model = Annotated[str, typer.Argument(help="Name of the model.", metavar="MODEL")]
Version = Annotated[int, typer.Argument(help="Its version.", metavar="VERSION")]
Url = Annotated[str, typer.Option(envvar="STATEWRIGHT_API_URL", help="REST API of the service.", metavar="URL")]
Token = Annotated[
    str | None, typer.Option(envvar="STATEWRIGHT_API_TOKEN", help="Bearer token.", show_default=False, metavar="TOKEN")
]
TokenFile = Annotated[Path | None, typer.Option(help="File that holds the token.", show_default=False)]
ClientId = Annotated[
    str | None,
    typer.Option(envvar="STATEWRIGHT_CLIENT_ID", help="Client that gets a token itself.", show_default=False),
]
ClientSecret = Annotated[
    str | None,
    typer.Option(envvar="STATEWRIGHT_CLIENT_SECRET", help="Its secret; better not typed.", show_default=False),
]


def export(
    model: Model,
    version: Version,
    file: Annotated[Path, typer.Argument(help="File to write; compressed when it ends with `.gz`.", metavar="FILE")],
    point_in_time: Annotated[
        str | None, typer.Option(help="The instant to export; now when absent.", metavar="RFC3339", show_default=False)
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    token_file: TokenFile = None,
    client_id: ClientId = None,
    client_secret: ClientSecret = None,
) -> None:
    """Write all entities of a model, as they are at one instant, to a file. Started again, it goes on where it was."""
    from statewright.transfer import exporting

    path = f"{quote(model, safe='')}/{version}"
    columns = BarColumn(), TextColumn("{task.completed:,.0f} entities"), DownloadColumn(), TimeElapsedColumn()
    with _one_line_failures(), _session(url, token, token_file, client_id, client_secret) as session:
        expected = session.json("GET", f"/entity/stats/{path}")["count"]
        with _progress(TextColumn("{task.description}"), *columns[:2], columns[3]) as progress:
            task = progress.add_task("exporting", total=expected)
            done = exporting.export(
                session,
                path,
                file,
                instant=point_in_time,
                tell=lambda entities, _size: progress.advance(task, entities),
            )
    more = "more " if done.resumed else ""
    typer.echo(f"{done.entities} {more}entities as of {done.instant} written to {file}")


def import_(
    model: Model,
    version: Version,
    file: Annotated[
        Path, typer.Argument(help="Lines of JSON: an export, or documents; `.gz` is unpacked.", metavar="FILE")
    ],
    batch: Annotated[int, typer.Option(min=1, max=MOST_ITEMS, help="Entities per transaction.")] = 500,
    again: Annotated[
        bool, typer.Option("--again", help="Import the file although it was imported before: a second copy of it.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(help="Go on with an import although the file was corrected.", metavar="ID", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    token_file: TokenFile = None,
    client_id: ClientId = None,
    client_secret: ClientSecret = None,
) -> None:
    """Create an entity for every line of a file, exactly once: started again, it goes on where it was."""
    from statewright.transfer import importing

    size = TransferSpeedColumn(), DownloadColumn(), TimeElapsedColumn()
    with (
        _one_line_failures(),
        _session(url, token, token_file, client_id, client_secret) as session,
        _progress(TextColumn("{task.description}"), BarColumn(), *size) as progress,
    ):
        task = progress.add_task("reading", total=file.stat().st_size)
        name = resume or importing.name_of(file, f"{model}/{version}", lambda count: progress.advance(task, count))
        if again:
            name = f"{name}-{secrets.token_hex(4)}"
        task = progress.add_task("importing", total=file.stat().st_size)
        importer = importing.Importer(session, model, version, import_id=name, batch=batch)
        try:
            done = importer.run(file, lambda _entities, position: progress.update(task, completed=position))
        except importing.LineRefused as refused:
            raise ValueError(f"{refused}; once the file is corrected, go on with --resume {name}") from refused
    before = f"; {done.before} lines had been imported before" if done.before else ""
    typer.echo(f"{done.created} entities created{before}")


def _progress(*columns: TextColumn | BarColumn | DownloadColumn | TransferSpeedColumn | TimeElapsedColumn) -> Progress:
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def _session(
    url: str, token: str | None, token_file: Path | None, client_id: str | None, client_secret: str | None
) -> Iterator["Session"]:
    from statewright.sdk.tokens import ClientCredentials, token_source
    from statewright.transfer.session import Session

    if client_id is not None:
        granted = ClientCredentials(
            client_id=client_id, client_secret=client_secret or "", token_url=f"{url.rstrip('/')}/oauth/token"
        )
        tokens = token_source(granted)
    else:
        tokens = token_source(token or (token_file.read_text("utf-8").strip() if token_file else None))
    session = Session(url, tokens)
    try:
        yield session
    finally:
        session.close()


@contextmanager
def _one_line_failures() -> Iterator[None]:
    """What an operator can do something about ends the program with one line and code 1."""
    from statewright.sdk.tokens import TokenUnavailable

    failures: tuple[type[Exception], ...] = (
        OSError,
        ValueError,
        EOFError,
        http.client.HTTPException,
        TokenUnavailable,
    )
    try:
        yield
    except failures as failure:
        Console(stderr=True, soft_wrap=True).print("error:", style="bold red", end=" ")
        typer.echo(str(failure) or type(failure).__name__, err=True)
        raise typer.Exit(1) from None
