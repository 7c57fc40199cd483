"""What commands share that speak to a running service: their options, the client they get, and how they fail.

They speak HTTP like any client: an embedded database belongs to its service, and the service knows what its callers may
do. The client is loaded when a command runs: `statewright --help` does without.

JSON documents that commands read and print: exact, whatever their numbers.
"""

import inspect
import os
import re
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeAlias
from urllib.parse import quote

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue
    from statewright.sdk import CallFailed, Client, RetryPolicy


Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="Address of the service. \\[env: STATEWRIGHT_URL] \\[default: http://127.0.0.1:8080]",
        metavar="URL",
        show_default=False,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        help="Bearer token; not needed in mock mode. \\[env: STATEWRIGHT_TOKEN]", metavar="TOKEN", show_default=False
    ),
]
TokenFile = Annotated[
    Path | None, typer.Option(help="File that holds the token. \\[env: STATEWRIGHT_TOKEN_FILE]", show_default=False)
]
ClientId = Annotated[
    str | None,
    typer.Option(
        help="Client that gets tokens itself. \\[env: STATEWRIGHT_CLIENT_ID]", metavar="ID", show_default=False
    ),
]
ClientSecret = Annotated[
    str | None,
    typer.Option(
        help="Its secret; better not typed. \\[env: STATEWRIGHT_CLIENT_SECRET, …_FILE]",
        metavar="SECRET",
        show_default=False,
    ),
]
Model = Annotated[str, typer.Argument(help="Name and version of the model.", metavar="MODEL/VERSION")]
EntityId = Annotated[str, typer.Argument(help="The id of the entity.", metavar="ID")]
At = Annotated[
    str | None,
    typer.Option("--at", help="The instant to look at; now when absent.", metavar="RFC3339", show_default=False),
]
Condition = Annotated[str, typer.Argument(help="The condition: JSON, or a file with it; `-` for standard input.")]
Sort = Annotated[
    list[str] | None, typer.Option(help="A key such as `total:desc` or `@state`; repeatable.", metavar="KEY")
]

CONNECTION_OPTIONS: Mapping[str, object] = {
    "url": Url,
    "token": Token,
    "token_file": TokenFile,
    "client_id": ClientId,
    "client_secret": ClientSecret,
}

PATIENCE_S: Final = 60.0
"""How long a service that is away is waited for, by commands that do; in seconds."""

Connection = Mapping[str, str | Path | None]
"""The values of the options."""

Json: TypeAlias = Any  # what a service answers is checked where it is used
Show: TypeAlias = Callable[[Json], None]
"""Prints an answer for people."""
Run: TypeAlias = Callable[..., None]


def command(
    group: typer.Typer, show: Show | None = None, *, name: str | None = None
) -> Callable[[Callable[..., Json]], Run]:
    """Adds a command that asks a service to a group."""

    def add(function: Callable[..., Json]) -> Run:
        run = with_client(function, show)
        add_command(group, run, name=name)
        return run

    return add


def show_by(show: Show) -> Callable[[Callable[..., Json]], Run]:
    """A command that asks a service, for a group that is put together elsewhere."""
    return lambda function: with_client(function, show)


def add_command(group: typer.Typer, run: Run, *, name: str | None = None) -> None:
    """Adds a command to a group. One about a model takes it as one word or as two."""
    is_of_model = any(one.annotation is Model for one in inspect.signature(run).parameters.values())
    group.command(name, cls=ModelCommand if is_of_model else None)(run)


def with_client(function: Callable[..., Json], show: Show | None = None) -> Run:
    """A command that gets a client as its first argument, and the options that say where the service is. Each of its
    requests is made once. What it returns is printed: by ``show``, or as JSON where that is wished.
    """
    return _add_connection(function, connect, show)


def with_patient_client(function: Callable[..., Json]) -> Run:
    """The same for commands that may do everything twice: a service that restarts is waited for."""
    return _add_connection(function, connect_patiently, None)


def _add_connection(function: Callable[..., Json], make: "Callable[[Connection], Client]", show: Show | None) -> Run:
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(function).parameters.values())[1:]
    ]
    if show is not None:
        own.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson))

    @wraps(function)
    def run(**given: Any) -> None:  # Any: the values of the function's own parameters, as typer read them
        connection = {name: given.pop(name) for name in CONNECTION_OPTIONS}
        as_json = show is not None and given.pop("as_json")
        with report_failures(), make(connection) as client:
            try:
                print_answer(function(client, **given), None if as_json else show)
            except (LookupError, TypeError, AttributeError) as unread:
                raise ValueError(
                    f"the answer is not what this command reads ({type(unread).__name__}: {unread}): it comes from"
                    " another program than Statewright, or from another version of it"
                ) from unread

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in CONNECTION_OPTIONS.items()
    ]
    del run.__wrapped__  # or its signature would be read in place of this one
    run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
    return run


def connect(connection: Connection) -> "Client":
    """A client whose requests are made once. Raises ``ValueError``, ``OSError``."""
    from statewright.sdk import ONCE

    return _open(connection, ONCE)


def connect_patiently(connection: Connection) -> "Client":
    """A client that sends everything again while the service is away. Raises ``ValueError``, ``OSError``."""
    from statewright.sdk import RetryPolicy

    return _open(connection, RetryPolicy(deadline_s=PATIENCE_S, repeats_writes=True))


def _open(connection: Connection, retry: "RetryPolicy") -> "Client":
    from statewright.cli.environment import read_environment
    from statewright.sdk import Client
    from statewright.sdk.endpoint import UnusableAddress, read_address, read_tls
    from statewright.sdk.tokens import (
        CLIENT_SECRET_FILE_VARIABLE,
        SIGNING_KEY_FILE_VARIABLE,
        TOKEN_FILE_VARIABLE,
        TOKEN_VARIABLES,
        read_token,
    )

    environment = dict(read_environment(os.environ))
    given = {name: str(value) for name, value in connection.items() if value}
    forgotten = [TOKEN_FILE_VARIABLE, *TOKEN_VARIABLES] if given.keys() & _IDENTITY else []
    if "client_secret" in given:
        forgotten += [CLIENT_SECRET_FILE_VARIABLE, SIGNING_KEY_FILE_VARIABLE]
    for name in forgotten:  # what is typed wins as a whole: a token, or a client
        environment.pop(name, None)
    for name, variable in _VARIABLES.items():
        if name in given:
            environment[variable] = given[name]
    try:
        address = read_address(environment)
    except UnusableAddress as unusable:
        if "url" not in given:
            raise
        raise typer.BadParameter(str(unusable), param_hint="--url") from None
    return Client(address.api, token=read_token(environment), tls=read_tls(environment), retry=retry)


_VARIABLES: Final = {
    "url": "STATEWRIGHT_URL",
    "token": "STATEWRIGHT_TOKEN",
    "token_file": "STATEWRIGHT_TOKEN_FILE",
    "client_id": "STATEWRIGHT_CLIENT_ID",
    "client_secret": "STATEWRIGHT_CLIENT_SECRET",
}
_IDENTITY: Final = frozenset(_VARIABLES) - {"url"}


class ModelCommand(TyperCommand):
    """A command whose first argument is MODEL/VERSION; two arguments, as older releases had them, are joined."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Any: click's, which typer has under its own name
        options = (one for one in self.params if isinstance(one, TyperOption) and not one.is_flag)
        valued = {text for option in options for text in option.opts}
        return super().parse_args(ctx, join_model(args, valued))


def join_model(arguments: list[str], valued_options: Collection[str]) -> list[str]:
    """``prize 1`` as ``prize/1``, where these are the first two arguments that are no options."""
    positions, is_value = [], False
    for position, argument in enumerate(arguments):
        if is_value or argument.startswith("-"):
            is_value = not is_value and argument in valued_options
        else:
            positions.append(position)
    if len(positions) < 2 or "/" in arguments[positions[0]] or not _VERSION.fullmatch(arguments[positions[1]]):
        return arguments
    first, second = positions[:2]
    joined = f"{arguments[first]}/{arguments[second]}"
    return [*arguments[:first], joined, *arguments[first + 1 : second], *arguments[second + 1 :]]


def split_model(model: str) -> tuple[str, int]:
    """Name and version of MODEL/VERSION."""
    name, _, version = model.rpartition("/")
    if not name or not _VERSION.fullmatch(version):
        raise typer.BadParameter(f'"{model}" is not MODEL/VERSION', param_hint="MODEL/VERSION")
    return name, int(version)


_VERSION: Final = re.compile(r"-?[0-9]+")


def build_model_path(model: str) -> str:
    """``MODEL/VERSION`` as part of a path."""
    name, version = split_model(model)
    return f"{quote(name, safe='')}/{version}"


class ServerNotInstalled(Exception):
    """A command of the service, where only the SDK and the client commands are installed."""


@contextmanager
def require_server(command: str) -> Iterator[None]:
    """Tells which extra is missing when an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ServerNotInstalled(
            f"{command} needs the service, which is not installed here ({missing.name}): pip install"
            ' "statewright[server]"'
        ) from missing


@contextmanager
def report_failures() -> Iterator[None]:
    """What an operator can do something about ends the program with one line and code 1."""
    from statewright.sdk.errors import CallFailed

    try:
        yield
    except CallFailed as failure:
        fail(explain_call(failure))
    except (OSError, ValueError, EOFError, ServerNotInstalled) as failure:
        fail(explain(failure))


def explain(failure: BaseException) -> str:
    """What went wrong, in words: the system's own, without its numbers."""
    if isinstance(failure, OSError) and failure.strerror:
        names = [str(name) for name in (failure.filename, failure.filename2) if name is not None]
        return f"{': '.join([*names, failure.strerror])}"
    return str(failure) or type(failure).__name__


def explain_call(failure: "CallFailed") -> str:
    """Why a request to the service came to nothing. What did not come from a service says so."""
    from statewright.sdk import Refused, TokenUnavailable, Unreachable

    is_silent = isinstance(failure, Unreachable) and not failure.was_sent and "[SSL: " not in str(failure)
    if is_silent and not isinstance(failure, TokenUnavailable):
        return f"{failure}. Is the service running? --url or STATEWRIGHT_URL says where"
    if isinstance(failure, Refused) and failure.code in _FOREIGN_CODES and failure.status < _FIRST_SERVER_ERROR:
        return f"no API of Statewright there, it answered {failure}: --url or STATEWRIGHT_URL says where the service is"
    if isinstance(failure, Refused) and failure.code == "UNAUTHORIZED":  # the service tells no reason
        return f"{failure}. STATEWRIGHT_CLIENT_ID with STATEWRIGHT_CLIENT_SECRET, or STATEWRIGHT_TOKEN, says who asks"
    return str(failure)


_FIRST_SERVER_ERROR: Final = 500
_FOREIGN_CODES: Final = ("", "NOT_FOUND")
"""Of answers that no operation gives: those of other programs, and of a service for a path that it does not have."""


def fail(problem: str) -> NoReturn:
    """End the program with one line and code 1."""
    report(problem)
    raise typer.Exit(1) from None


def report(problem: str) -> None:
    """One line on stderr."""
    Console(stderr=True, soft_wrap=True).print("error:", style="bold red", end=" ")
    typer.echo(" ".join(problem.split()), err=True)


STANDARD_INPUT: Final = "-"
STANDARD_OUTPUT: Final = "-"

DocumentFile = Annotated[
    str, typer.Argument(help="File with JSON, or the JSON itself; `-` for standard input.", metavar="FILE")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def read_document(file: str) -> "JsonValue":
    """The JSON of a file, of standard input, or of the argument itself. Raises ``OSError``, and ``ValueError`` that
    names the file.
    """
    return _parse_document(read_source(file), file)


def read_object(file: str) -> "JsonObject":
    """The same for files that hold an object."""
    return parse_object(read_source(file), file)


def parse_object(text: bytes, file: str) -> "JsonObject":
    """The JSON object of a text; ``file`` is where it is from. Raises ``ValueError`` that names that."""
    value = _parse_document(text, file)
    if isinstance(value, dict):
        return value
    raise ValueError(f"{_name_source(file)}: this is no JSON object")


def _parse_document(text: bytes, file: str) -> "JsonValue":
    from statewright.jsonval.codec import MalformedJson, decode

    try:
        return decode(text.removeprefix(BOM_UTF8))  # with which editors begin files
    except MalformedJson as malformed:
        raise ValueError(f"{_name_source(file)}: {malformed}") from None


def read_source(file: str) -> bytes:
    """What a file holds, or standard input, or the argument itself. Raises ``OSError``."""
    if _is_json(file):
        return file.encode()
    return sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()


def _name_source(file: str) -> str:
    """What a failure calls the source of a document."""
    if _is_json(file):
        return "the JSON given"
    return "standard input" if file == STANDARD_INPUT else file


def _is_json(argument: str) -> bool:
    """Whether an argument is a document rather than the name of a file."""
    return argument.lstrip().startswith(("{", "["))


def print_answer(answer: Json, show: Show | None = None) -> None:
    """What a service told, by ``show`` if it is given; else a text as it is, and all else as JSON. None is nothing."""
    if show is not None:
        show(answer)
    elif isinstance(answer, str):
        typer.echo(answer)
    elif answer is not None:
        print_document(answer)


def print_document(value: object) -> None:
    """JSON, indented; structs with the names of their members."""
    typer.echo(format_document(value))


def format_document(value: object, *, indent: int = 2) -> str:
    """The same as a text; by ``indent`` 0 in one line."""
    import msgspec

    text = msgspec.json.Encoder(decimal_format="number").encode(value)
    return msgspec.json.format(text, indent=indent).decode()


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table without lines, for people; as wide as it must be where nobody looks."""
    table = Table(box=None)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = UNBOUNDED_WIDTH
    console.print(table)


def show_table(columns: str, member: str | None = None) -> Show:
    """Shows records, or those that a member of the answer holds, as a table. ``columns`` are separated by bars: the
    name of a member, or ``header: member``. A member of a member follows a dot, ``name/version`` are two of them.
    """
    read = [_read_column(column) for column in columns.split(" | ")]

    def show(answer: Json) -> None:
        records = answer if member is None else answer[member]
        rows = ([_format_cell(read_member(one, name)) for _, name in read] for one in records)
        print_table([header for header, _ in read], rows)

    return show


def _read_column(column: str) -> tuple[str, str]:
    """Header and member; ``leaseUntil`` is headed *lease until*, ``startedAt`` *started*, ``entityId`` *entity*."""
    header, is_named, member = column.partition(": ")
    words = re.sub(r"(?=[A-Z])", " ", column).lower()
    return (header, member) if is_named else (re.sub(r" (at|id|type)$", "", words), column)


def read_member(record: Json, path: str) -> Json:
    """A member of a record, None where it has none."""
    if "/" in path:
        return "/".join(str(read_member(record, part)) for part in path.split("/"))
    for name in path.split("."):
        record = record.get(name) if isinstance(record, dict) else getattr(record, name, None)
    return record


def _format_cell(value: Json) -> str:
    if isinstance(value, dict):
        is_model = value.keys() == {"name", "version"}
        return name_model(value) if is_model else ", ".join(f"{name} {one}" for name, one in value.items())
    return "" if value is None else " ".join(value) if isinstance(value, list | tuple) else str(value)


def name_model(model: Json) -> str:
    """``name/version``."""
    return f"{model['name']}/{model['version']}"


UNBOUNDED_WIDTH: Final = 10_000
"""Characters of a line."""


def shorten_document(data: "JsonValue") -> str:
    """A document as a cell of a table."""
    from statewright.jsonval.codec import encode

    text = encode(data).decode()
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"


MAX_SHOWN_CHARS: Final = 80
"""Characters of a document in a table."""
