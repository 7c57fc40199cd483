"""The commands ``statewright export`` and ``statewright import``: entities to a file of JSON lines, and back."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from statewright.cli.client import DEFAULT_URL, RestClient, Token, TokenFile, Url, read_token, report_failures
from statewright.cli.transfer import MAX_ITEMS

# The SDK behind these commands is loaded when one of them runs: `statewright --help` does without.

Model = Annotated[str, typer.Argument(help="Name of the model.", metavar="MODEL")]
Version = Annotated[int, typer.Argument(help="Its version.", metavar="VERSION")]
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
    from statewright.cli.transfer import exporting

    path = f"{quote(model, safe='')}/{version}"
    columns = BarColumn(), TextColumn("{task.completed:,.0f} entities"), DownloadColumn(), TimeElapsedColumn()
    with report_failures(), _open_session(url, token, token_file, client_id, client_secret) as session:
        expected = session.request_json("GET", f"/entity/stats/{path}")["count"]
        with _build_progress(TextColumn("{task.description}"), *columns[:2], columns[3]) as progress:
            task = progress.add_task("exporting", total=expected)
            done = exporting.export_entities(
                session,
                path,
                file,
                instant=point_in_time,
                on_progress=lambda entities, _size: progress.advance(task, entities),
            )
    more = "more " if done.resumed else ""
    typer.echo(f"{done.entities} {more}entities as of {done.instant} written to {file}")


def import_(
    model: Model,
    version: Version,
    file: Annotated[
        Path, typer.Argument(help="Lines of JSON: an export, or documents; `.gz` is unpacked.", metavar="FILE")
    ],
    batch: Annotated[int, typer.Option(min=1, max=MAX_ITEMS, help="Entities per transaction.")] = 500,
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
    from statewright.cli.transfer import importing

    size = TransferSpeedColumn(), DownloadColumn(), TimeElapsedColumn()
    with (
        report_failures(),
        _open_session(url, token, token_file, client_id, client_secret) as session,
        _build_progress(TextColumn("{task.description}"), BarColumn(), *size) as progress,
    ):
        task = progress.add_task("reading", total=file.stat().st_size)
        name = resume or importing.compute_import_id(
            file, f"{model}/{version}", lambda count: progress.advance(task, count)
        )
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


def _build_progress(
    *columns: TextColumn | BarColumn | DownloadColumn | TransferSpeedColumn | TimeElapsedColumn,
) -> Progress:
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def _open_session(
    url: str, token: str | None, token_file: Path | None, client_id: str | None, client_secret: str | None
) -> Iterator[RestClient]:
    """A client that goes on when the service is away for a moment, with a token of its own if it has an identity."""
    given = read_token(token, token_file)
    get_token = (lambda: given) if client_id is None else _build_token_source(url, client_id, client_secret or "")
    session = RestClient(url, get_token, repeats=True)
    try:
        yield session
    finally:
        session.close()


def _build_token_source(url: str, client_id: str, client_secret: str) -> Callable[[], str | None]:
    import asyncio

    from statewright.sdk.errors import TokenUnavailable
    from statewright.sdk.tokens import ClientCredentials, make_token_source

    token_url = f"{url.rstrip('/')}/oauth/token"
    tokens = make_token_source(ClientCredentials(client_id=client_id, client_secret=client_secret, token_url=token_url))

    def get_token() -> str | None:
        try:
            return asyncio.run(tokens.get_token())
        except TokenUnavailable as unavailable:
            raise ValueError(str(unavailable)) from unavailable

    return get_token
