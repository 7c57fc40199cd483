"""JSON documents that commands read and print: exact, whatever their numbers."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from statewright.jsonval.values import JsonObject, JsonValue

STANDARD_INPUT: Final = "-"

DocumentFile = Annotated[
    str, typer.Argument(help="File with JSON, or the JSON itself; `-` for standard input.", metavar="FILE")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def read_document(file: str) -> "JsonValue":
    """The JSON of a file, of standard input, or of the argument itself. Raises ``OSError``, and ``ValueError`` that
    names the file.
    """
    from statewright.jsonval.codec import MalformedJson, decode

    try:
        return decode(_read_text(file))
    except MalformedJson as malformed:
        raise ValueError(f"{_name_source(file)}: {malformed}") from None


def read_object(file: str) -> "JsonObject":
    """The same for files that hold an object."""
    value = read_document(file)
    if isinstance(value, dict):
        return value
    raise ValueError(f"{_name_source(file)}: this is no JSON object")


def _read_text(file: str) -> bytes:
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


def print_document(value: object) -> None:
    """JSON, indented; structs with the names of their members."""
    typer.echo(format_document(value))


def format_document(value: object) -> str:
    """The same as a text."""
    import msgspec

    text = msgspec.json.Encoder(decimal_format="number").encode(value)
    return msgspec.json.format(text, indent=2).decode()


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


UNBOUNDED_WIDTH: Final = 10_000
"""Characters of a line."""


def shorten_document(data: "JsonValue") -> str:
    """A document as a cell of a table."""
    from statewright.jsonval.codec import encode

    text = encode(data).decode()
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"


MAX_SHOWN_CHARS: Final = 80
"""Characters of a document in a table."""
