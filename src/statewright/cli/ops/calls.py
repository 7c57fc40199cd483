"""Requests of commands to the operations API (docs/reference/operations.md), and the options that they share.

Commands that are one operation are made of its row in the table of operations.
"""

import inspect
import re
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import quote, urlencode

import typer

from statewright.cli.client import Json, add_command, format_document, show_table, with_client
from statewright.operations.records import MAX_LIMIT, Option
from statewright.operations.table import ApiOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from statewright.sdk import Client

    Query: TypeAlias = Mapping[str, Json]


Limit = Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="How many at most.")]
ModelName = Annotated[str | None, typer.Option("--model", help="Name of the model.", show_default=False)]

DEFAULT_LIMIT: Final = 50


def ask(
    client: "Client", operation: ApiOperation[object], *target: str, query: "Query | None" = None, body: Json = None
) -> Json:
    """The answer to an operation; ``target`` are the parameters of its path. Parameters that are None are left out."""
    values = iter(target)
    path = re.sub(r"\{\w+\}", lambda _: quote(next(values), safe=""), operation.path)
    if given := drop_none(query or {}):
        path = f"{path}?{urlencode(given, doseq=True)}"
    return client.request(operation.method, path, body, at_root=True, only_asks=operation.is_read)


def drop_none(members: "Mapping[str, Json]") -> dict[str, Json]:
    """The members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def list_all(
    client: "Client", operation: ApiOperation[object], *target: str, query: "Query | None" = None
) -> list[Json]:
    """All items of a list."""
    return list(_iterate(client, operation, target, query or {}, MAX_LIMIT))


def list_first(
    client: "Client", operation: ApiOperation[object], limit: int, *target: str, query: "Query | None" = None
) -> list[Json]:
    """The first items of a list, ``limit`` at most."""
    return list(islice(_iterate(client, operation, target, query or {}, limit), limit))


def _iterate(
    client: "Client", operation: ApiOperation[object], target: "Sequence[str]", query: "Query", size: int
) -> "Iterator[Json]":
    page: Json = {"nextCursor": None}
    while "nextCursor" in page:
        asked = {**query, "limit": size, "cursor": page["nextCursor"]}
        page = ask(client, operation, *target, query=asked)
        yield from page["items"]


def print_patch(patch: "Sequence[Json]") -> None:
    """Shows a JSON Patch, an operation a line."""
    for operation in patch:
        value = f" {format_document(operation['value'])}" if "value" in operation else ""
        typer.echo(f"{operation['op']} {operation['path']}{value}")


def add_operation(group: typer.Typer, operation: ApiOperation[object]) -> None:
    """Adds the command that is one operation to a group, as the table describes it."""
    command = operation.command
    if command is None:
        raise ValueError(f"{operation.id} is no command")
    places = re.findall(r"\{(\w+)\}", operation.path)
    names = {option.name: option.gives or option.name for option in command.options}
    is_list = any(parameter.name == "cursor" for parameter in operation.query)

    def run(client: "Client", **given: Json) -> Json:
        target = [given[place] for place in places]
        query = {parameter: given[name] for name, parameter in names.items()}
        if command.has_limit:
            return list_first(client, operation, given["limit"], *target, query=query)
        if is_list:
            return list_all(client, operation, *target, query=query)
        return ask(client, operation, *target, query=query)

    parameters = [inspect.Parameter("client", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters += [_build_parameter(place, _build_argument(place)) for place in places]
    parameters += [_build_parameter(one.name, _build_option(operation, one), None) for one in command.options]
    if command.has_limit:
        parameters.append(_build_parameter("limit", Limit, DEFAULT_LIMIT))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = command.says
    show = show_table(command.columns, command.member) if command.columns else None
    add_command(group, with_client(run, show), name=command.words.rpartition(" ")[2])


def _build_parameter(name: str, annotation: Json, default: Json = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _build_argument(place: str) -> Json:
    subject = place.removesuffix("Id")
    says = f"The {place}." if subject == place else f"The id of the {subject}."
    return Annotated[str, typer.Argument(help=says, metavar=place.upper() if subject == place else "ID")]


def _build_option(operation: ApiOperation[object], option: Option) -> Json:
    described = {parameter.name: parameter.description for parameter in operation.query}
    says = described[option.gives or option.name]
    help_ = option.says or f"{says[0].upper()}{says[1:]}."
    return Annotated[str | None, typer.Option(help=help_, metavar=option.metavar, show_default=False)]
