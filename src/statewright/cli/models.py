"""``statewright models …``: schemas of entities (docs/reference/models.md)."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.client import (
    DocumentFile,
    Json,
    Model,
    command,
    read_document,
    show_table,
    split_model,
)

if TYPE_CHECKING:
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
    wanted: dict[str, list[str]] = {}
    for key in keys:
        key_name, fields = parse_key(key)
        if wanted.setdefault(key_name, fields) is not fields:
            raise typer.BadParameter(f'"{key_name}" is given twice', param_hint="KEY")
    client.models.set_unique_keys(*split_model(model), wanted)
    return f"{model} has {len(wanted)} unique keys"


def parse_key(text: str) -> tuple[str, list[str]]:
    """Name and fields of a key."""
    name, is_named, fields = text.partition("=")
    if not is_named or not name or not fields:
        raise typer.BadParameter(f'"{text}" is not NAME=PATH[,PATH…], such as number=$.orderNo', param_hint="KEY")
    return name, [field.strip() for field in fields.split(",")]
