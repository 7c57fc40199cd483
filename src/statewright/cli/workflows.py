"""``statewright workflows …``: what entities of a model go through (docs/reference/workflows.md)."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import (
    STANDARD_OUTPUT,
    DocumentFile,
    Json,
    Model,
    command,
    format_document,
    print_table,
    read_document,
    split_model,
)

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
    from statewright.sdk import Client


workflows = typer.Typer(
    help="Workflows of models. `ops workflow` checks and simulates them, `ops revisions` has former ones.",
    no_args_is_help=True,
)


class Mode(StrEnum):
    """What becomes of the workflows that are there already; the names are those of the service."""

    MERGE = "merge"
    REPLACE = "replace"
    ACTIVATE = "activate"


@command(workflows, name="import")
def import_workflows(
    client: "Client",
    model: Model,
    file: DocumentFile,
    mode: Annotated[
        Mode | None, typer.Option(help="What becomes of those there are; else the file says so, or `merge`.")
    ] = None,
    allow_cycles: Annotated[bool, typer.Option("--allow-cycles", help="Do not look for endless cascades.")] = False,
    if_match: Annotated[
        int | None, typer.Option(help="Only while the model has this revision; 0: none.", show_default=False)
    ] = None,
    note: Annotated[str | None, typer.Option(help="Kept with the revision.", show_default=False)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Import nothing; say what it would come to, with code 1 where refused.")
    ] = False,
) -> str | None:
    """Import workflows: an export, a body of the REST API, one workflow, or a list of them."""
    name, version = split_model(model)
    document = wrap_workflows(read_document(file))
    chosen: Json = mode.name if mode else None
    if dry_run:
        from msgspec import to_builtins  # loaded when a command runs, as the client is

        check = client.workflows.check(
            name, version, document, mode=chosen, allow_cycles=allow_cycles, if_match=if_match
        )
        show_check(to_builtins(check))
        if not check.importable:
            raise typer.Exit(1)
        return None
    for finding in client.workflows.import_(
        name, version, document, mode=chosen, allow_cycles=allow_cycles, if_match=if_match, note=note
    ):
        place = "/".join(filter(None, (finding.workflow, finding.state, finding.transition)))
        typer.echo(f"warning: {place}: {finding.message}", err=True)
    given = document["workflows"]
    return f"{len(given) if isinstance(given, list) else 0} workflows of {name}/{version} imported"


def show_check(found: Json) -> None:
    """Print what a check has found, what would change, and how many entities that concerns."""
    rows = [(each["severity"].lower(), each["code"], each["path"], each["message"]) for each in found["findings"]]
    if rows:
        print_table(("severity", "code", "path", "message"), rows)
    typer.echo("importable" if found["importable"] else "not importable")
    for each in (found["diff"] or {}).get("workflows", ()):
        typer.echo(f"{each['change'].lower()}: {each['name']}")
    affected = found["affected"]
    if affected is not None:
        typer.echo(f"{affected['total']} entities, {affected['armedTimers']} armed timers")


def wrap_workflows(document: "JsonValue") -> "JsonObject":
    """The body of an import: the document itself, or one around a workflow or a list of them."""
    if isinstance(document, dict):
        return document if "workflows" in document else {"workflows": [document]}
    return {"workflows": document}


@command(workflows, name="export")
def export_workflows(
    client: "Client",
    model: Model,
    file: Annotated[Path | None, typer.Argument(help="File to write; standard output when absent or `-`.")] = None,
) -> Json:
    """Write the workflows of a model, as `import` reads them."""
    exported = client.workflows.export(*split_model(model))
    if file is None or str(file) == STANDARD_OUTPUT:
        return exported
    file.write_text(f"{format_document(exported)}\n", "utf-8")
    return f"workflows of {model} written to {file}"
