"""``statewright models …``: schemas of entities (docs/reference/models.md)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from statewright.cli.client import (
    AsJson,
    DocumentFile,
    Model,
    ModelCommand,
    print_document,
    print_table,
    read_document,
    split_model,
    with_client,
)

if TYPE_CHECKING:
    from statewright.sdk import Client
    from statewright.sdk.operations.models import ChangeLevel

models = typer.Typer(help="Models: schemas of entities.", no_args_is_help=True)


class ImportForm(StrEnum):
    """What a file with a model holds."""

    SAMPLE = "sample"
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


LEVELS: Final[Mapping[Level, "ChangeLevel"]] = {
    Level.ARRAY_LENGTH: "ARRAY_LENGTH",
    Level.ARRAY_ELEMENTS: "ARRAY_ELEMENTS",
    Level.TYPE: "TYPE",
    Level.STRUCTURAL: "STRUCTURAL",
}
"""The same as the service names it."""


@models.command(name="list")
@with_client
def list_(
    client: "Client",
    with_builtin: Annotated[bool, typer.Option("--builtin", help="Also those of the service itself.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the models."""
    found = client.models.list(with_builtin=with_builtin)
    if as_json:
        print_document(found)
    else:
        print_table(
            ("model", "state", "updated"), ((f"{one.name}/{one.version}", one.state, one.updated) for one in found)
        )


@models.command(name="import", cls=ModelCommand)
@with_client
def import_(
    client: "Client",
    model: Model,
    file: DocumentFile,
    form: Annotated[ImportForm, typer.Option(help="What the file holds.")] = ImportForm.SAMPLE,
    lock: Annotated[bool, typer.Option("--lock", help="Lock it then, so that entities can be created.")] = False,
) -> None:
    """Learn a model from a sample document, a JSON Schema or an export."""
    name, version = split_model(model)
    document = read_document(file)
    if form is ImportForm.SAMPLE:
        client.models.import_sample(name, version, document)
    elif form is ImportForm.JSON_SCHEMA:
        client.models.import_schema(name, version, document)
    else:
        client.models.import_schema(name, version, document, form="SIMPLE_VIEW")
    if lock:
        client.models.lock(name, version)
    typer.echo(f"{name}/{version} imported{' and locked' if lock else ''}")


@models.command(cls=ModelCommand)
@with_client
def export(
    client: "Client",
    model: Model,
    form: Annotated[ExportForm, typer.Option(help="How it is written.")] = ExportForm.JSON_SCHEMA,
) -> None:
    """Print a model."""
    name, version = split_model(model)
    if form is ExportForm.JSON_SCHEMA:
        print_document(client.models.export_schema(name, version))
    else:
        print_document(client.models.export_schema(name, version, form="SIMPLE_VIEW"))


@models.command(cls=ModelCommand)
@with_client
def lock(client: "Client", model: Model) -> None:
    """Let entities be created from now on."""
    client.models.lock(*split_model(model))
    typer.echo(f"{model} locked")


@models.command(cls=ModelCommand)
@with_client
def unlock(client: "Client", model: Model) -> None:
    """Let a model without entities be changed again."""
    client.models.unlock(*split_model(model))
    typer.echo(f"{model} unlocked")


@models.command(cls=ModelCommand)
@with_client
def delete(client: "Client", model: Model) -> None:
    """Delete an unlocked model without entities."""
    client.models.delete(*split_model(model))
    typer.echo(f"{model} deleted")


@models.command(cls=ModelCommand)
@with_client
def validate(client: "Client", model: Model, file: DocumentFile) -> None:
    """Hold a document against a model; one that does not fit ends with code 1."""
    verdict = client.models.validate(*split_model(model), read_document(file))
    typer.echo(verdict.message)
    if not verdict.success:
        raise typer.Exit(1)


@models.command(name="set-level", cls=ModelCommand)
@with_client
def set_level(client: "Client", model: Model, level: Level) -> None:
    """Say how far documents may extend the schema."""
    name, version = split_model(model)
    client.models.set_change_level(name, version, LEVELS[level])
    typer.echo(f"{model} takes {LEVELS[level]} changes")


@models.command(name="set-keys", cls=ModelCommand)
@with_client
def set_keys(
    client: "Client",
    model: Model,
    keys: Annotated[
        list[str], typer.Argument(help="Keys, like `number=$.orderNo` or `place=$.city,$.street`.", metavar="KEY…")
    ],
) -> None:
    """Replace the unique keys of an unlocked model."""
    client.models.set_unique_keys(*split_model(model), dict(parse_key(key) for key in keys))
    typer.echo(f"{model} has {len(keys)} unique keys")


def parse_key(text: str) -> tuple[str, list[str]]:
    """Name and fields of a key."""
    name, is_named, fields = text.partition("=")
    if not is_named or not name or not fields:
        raise typer.BadParameter(f'"{text}" is not NAME=PATH[,PATH…]', param_hint="KEY")
    return name, [field.strip() for field in fields.split(",")]
