"""``statewright models …``: schemas of entities (docs/reference/models.md), and ``statewright workflows …``: what
entities of a model go through (docs/reference/workflows.md).
"""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import (
    DocumentFile,
    Json,
    Model,
    command,
    format_document,
    read_document,
    show_table,
    split_model,
)

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
    from statewright.sdk import Client

models = typer.Typer(help="Models: schemas of entities.", no_args_is_help=True)


# What is chosen among has the names that the service has for it.


class ImportForm(StrEnum):
    """What a file with a model holds."""

    SAMPLE_DATA = "sample"
    JSON_SCHEMA = "json-schema"
    SIMPLE_VIEW = "simple-view"


class ExportForm(StrEnum):
    """How a model is written."""

    JSON_SCHEMA = "json-schema"
    SIMPLE_VIEW = "simple-view"


class Level(StrEnum):
    """How far documents may extend the schema."""

    ARRAY_LENGTH = "array-length"
    ARRAY_ELEMENTS = "array-elements"
    TYPE = "type"
    STRUCTURAL = "structural"


@command(models, show_table("model: name/version | state | updated"), name="list")
def list_(
    client: "Client",
    with_builtin: Annotated[bool, typer.Option("--builtin", help="Also those of the service itself.")] = False,
) -> Json:
    """List the models."""
    return client.models.list(with_builtin=with_builtin)


@command(models, name="import")
def import_(
    client: "Client",
    model: Model,
    file: DocumentFile,
    form: Annotated[ImportForm, typer.Option(help="What the file holds.")] = ImportForm.SAMPLE_DATA,
    lock: Annotated[bool, typer.Option("--lock", help="Lock it then, so that entities can be created.")] = False,
) -> str:
    """Learn a model from a sample document, a JSON Schema or an export."""
    name, version = split_model(model)
    chosen: Json = form.name
    client.models.import_schema(name, version, read_document(file), form=chosen)
    if lock:
        client.models.lock(name, version)
    return f"{name}/{version} imported{' and locked' if lock else ''}"


@command(models)
def export(
    client: "Client",
    model: Model,
    form: Annotated[ExportForm, typer.Option(help="How it is written.")] = ExportForm.JSON_SCHEMA,
) -> Json:
    """Print a model."""
    chosen: Json = form.name
    return client.models.export_schema(*split_model(model), form=chosen)


@command(models)
def lock(client: "Client", model: Model) -> str:
    """Let entities be created from now on."""
    client.models.lock(*split_model(model))
    return f"{model} locked"


@command(models)
def unlock(client: "Client", model: Model) -> str:
    """Let a model without entities be changed again."""
    client.models.unlock(*split_model(model))
    return f"{model} unlocked"


@command(models)
def delete(client: "Client", model: Model) -> str:
    """Delete an unlocked model without entities."""
    client.models.delete(*split_model(model))
    return f"{model} deleted"


@command(models)
def validate(client: "Client", model: Model, file: DocumentFile) -> None:
    """Hold a document against a model; one that does not fit ends with code 1."""
    verdict = client.models.validate(*split_model(model), read_document(file))
    typer.echo(verdict.message)
    if not verdict.success:
        raise typer.Exit(1)


@command(models, name="set-level")
def set_level(client: "Client", model: Model, level: Level) -> str:
    """Say how far documents may extend the schema."""
    chosen: Json = level.name
    client.models.set_change_level(*split_model(model), chosen)
    return f"{model} takes {level.name} changes"


@command(models, name="set-keys")
def set_keys(
    client: "Client",
    model: Model,
    keys: Annotated[
        list[str], typer.Argument(help="Keys, like `number=$.orderNo` or `place=$.city,$.street`.", metavar="KEY…")
    ],
) -> str:
    """Replace the unique keys of an unlocked model."""
    client.models.set_unique_keys(*split_model(model), dict(parse_key(key) for key in keys))
    return f"{model} has {len(keys)} unique keys"


def parse_key(text: str) -> tuple[str, list[str]]:
    """Name and fields of a key."""
    name, is_named, fields = text.partition("=")
    if not is_named or not name or not fields:
        raise typer.BadParameter(f'"{text}" is not NAME=PATH[,PATH…]', param_hint="KEY")
    return name, [field.strip() for field in fields.split(",")]


workflows = typer.Typer(help="Workflows of models.", no_args_is_help=True)


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
) -> str:
    """Import workflows: an export, a body of the REST API, one workflow, or a list of them."""
    name, version = split_model(model)
    document = wrap_workflows(read_document(file))
    chosen: Json = mode.name if mode else None
    for finding in client.workflows.import_(name, version, document, mode=chosen, allow_cycles=allow_cycles):
        place = "/".join(filter(None, (finding.workflow, finding.state, finding.transition)))
        typer.echo(f"warning: {place}: {finding.message}", err=True)
    given = document["workflows"]
    return f"{len(given) if isinstance(given, list) else 0} workflows of {name}/{version} imported"


def wrap_workflows(document: "JsonValue") -> "JsonObject":
    """The body of an import: the document itself, or one around a workflow or a list of them."""
    if isinstance(document, dict):
        return document if "workflows" in document else {"workflows": [document]}
    return {"workflows": document}


@command(workflows, name="export")
def export_workflows(
    client: "Client",
    model: Model,
    file: Annotated[Path | None, typer.Argument(help="File to write; standard output when absent.")] = None,
) -> Json:
    """Write the workflows of a model, as `import` reads them."""
    exported = client.workflows.export(*split_model(model))
    if file is None:
        return exported
    file.write_text(f"{format_document(exported)}\n", "utf-8")
    return f"workflows of {model} written to {file}"


@workflows.command(name="schema")
def show_schema() -> None:
    """Print the JSON Schema of workflow definitions, for editors (docs/reference/workflows.md#json-schema)."""
    from statewright.workflow.json_schema import build_workflow_schema

    typer.echo(json.dumps(build_workflow_schema(), indent=2, ensure_ascii=False))
