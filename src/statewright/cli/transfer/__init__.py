"""``statewright export`` and ``statewright import``: entities to a file of JSON lines, and back, over the REST API of a
running service (docs/export-and-import.md).
"""

import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from statewright.cli.client import STANDARD_OUTPUT, Model, build_model_path, split_model, with_patient_client

if TYPE_CHECKING:
    from statewright.sdk import Client

MAX_ITEMS: Final = 999
"""Entities of a transaction of an import: with its marker they fill the largest there is."""

# The SDK behind these commands is loaded when one of them runs: `statewright --help` does without.


@with_patient_client
def export(
    client: "Client",
    model: Model,
    file: Annotated[
        Path,
        typer.Argument(
            help="File to write; compressed when it ends with `.gz`. `-` is standard output.", metavar="FILE"
        ),
    ],
    point_in_time: Annotated[
        str | None, typer.Option(help="The instant to export; now when absent.", metavar="RFC3339", show_default=False)
    ] = None,
) -> None:
    """Write all entities of a model, as they are at one instant, to a file. Started again, it goes on where it was."""
    from statewright.cli.transfer import exporting

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} entities")
    expected = client.count(*split_model(model))
    with _build_progress(*columns, TimeElapsedColumn()) as progress:
        task = progress.add_task("exporting", total=expected)

        def tell(entities: int, _size: int) -> None:
            progress.advance(task, entities)

        path, is_printed = build_model_path(model), str(file) == STANDARD_OUTPUT
        if is_printed:
            done = exporting.print_entities(client, path, sys.stdout.buffer, instant=point_in_time, on_progress=tell)
        else:
            done = exporting.export_entities(client, path, file, instant=point_in_time, on_progress=tell)
    more, where = "more " if done.resumed else "", "standard output" if is_printed else file
    typer.echo(f"{done.entities} {more}entities as of {done.instant} written to {where}", err=is_printed)


@with_patient_client
def import_(
    client: "Client",
    model: Model,
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
) -> None:
    """Create an entity for every line of a file, exactly once: started again, it goes on where it was."""
    from statewright.cli.transfer import importing

    size = TransferSpeedColumn(), DownloadColumn(), TimeElapsedColumn()
    with _build_progress(TextColumn("{task.description}"), BarColumn(), *size) as progress:
        task = progress.add_task("reading", total=file.stat().st_size)
        name, version = split_model(model)
        import_id = resume or importing.compute_import_id(
            file, f"{name}/{version}", lambda count: progress.advance(task, count)
        )
        if again:
            import_id = f"{import_id}-{secrets.token_hex(4)}"
        task = progress.add_task("importing", total=file.stat().st_size)
        importer = importing.Importer(client, name, version, import_id=import_id, batch=batch)
        try:
            done = importer.run(file, lambda _entities, position: progress.update(task, completed=position))
        except importing.LineRefused as refused:
            raise ValueError(f"{refused}; once the file is corrected, go on with --resume {import_id}") from refused
    before = f"; {done.before} lines had been imported before" if done.before else ""
    typer.echo(f"{done.created} entities created{before}")


def _build_progress(
    *columns: TextColumn | BarColumn | DownloadColumn | TransferSpeedColumn | TimeElapsedColumn,
) -> Progress:
    return Progress(*columns, console=Console(stderr=True), transient=True)
