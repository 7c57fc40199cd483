"""Rows of a list of entities: metadata, and the values of chosen fields. Pure."""

import csv
import io
from typing import Final

from msgspec import Struct

from statewright.console.values import get_object, get_text
from statewright.console.views.schema import Field
from statewright.console.views.text import format_exact
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue

DEFAULT_COLUMNS: Final = 4
MAX_COLUMNS: Final = 12
MAX_CELL_CHARS: Final = 200
MAX_CELL_VALUES: Final = 3
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class Cell(Struct, frozen=True):
    """A value of a document. ``kind`` is for the style."""

    text: str
    kind: str


class EntityRow(Struct, frozen=True, kw_only=True):
    """An entity in a list."""

    id: str
    state: str
    created: str
    changed: str
    cells: tuple[Cell, ...]


def choose_columns(wanted: tuple[str, ...], fields: tuple[Field, ...]) -> tuple[str, ...]:
    """The paths that are shown: those that were asked for, else the first fields that have one value."""
    if wanted:
        return tuple(dict.fromkeys(path for path in wanted if path))[:MAX_COLUMNS]
    return tuple(field.path for field in fields if "[*]" not in field.path)[:DEFAULT_COLUMNS]


def build_rows(items: list[JsonObject], columns: tuple[str, ...]) -> tuple[EntityRow, ...]:
    """Rows from the envelopes of the API."""
    return tuple(_build_row(item, columns) for item in items)


def _build_row(item: JsonObject, columns: tuple[str, ...]) -> EntityRow:
    meta = get_object(item, "meta")
    return EntityRow(
        id=get_text(meta, "id"),
        state=get_text(meta, "state"),
        created=get_text(meta, "creationDate"),
        changed=get_text(meta, "lastUpdateTime"),
        cells=tuple(build_cell(find_values(item.get("data"), column)) for column in columns),
    )


def find_values(document: JsonValue, path: str) -> list[JsonValue]:
    """What a declared path names in a document. A name with a dot in it is found, too: the longest one wins."""
    return _find(document, path.removeprefix("$").removeprefix("."))


def _find(value: JsonValue, rest: str) -> list[JsonValue]:
    if rest.startswith("[*]"):
        if not isinstance(value, list):
            return []
        return [found for item in value for found in _find(item, rest[3:].removeprefix("."))]
    if not rest:
        return [value]
    if not isinstance(value, dict):
        return []
    for name in sorted((name for name in value if _begins(rest, name)), key=len, reverse=True):
        found = _find(value[name], rest[len(name) :].removeprefix("."))
        if found:
            return found
    return []


def _begins(path: str, name: str) -> bool:
    return bool(name) and path.startswith(name) and path[len(name) : len(name) + 1] in {"", ".", "["}


def build_cell(values: list[JsonValue]) -> Cell:
    """One cell for all values that a path names."""
    if not values:
        return Cell("", "absent")
    if len(values) == 1:
        return _build_single(values[0])
    shown = ", ".join(_build_single(value).text for value in values[:MAX_CELL_VALUES])
    more = len(values) - MAX_CELL_VALUES
    return Cell(f"{shown} and {more} more" if more > 0 else shown, "text")


def _build_single(value: JsonValue) -> Cell:
    if value is None:
        return Cell("null", "none")
    if isinstance(value, bool):
        return Cell("true" if value else "false", "flag")
    if isinstance(value, str):
        return Cell(value[: MAX_CELL_CHARS + 1], "text")
    if isinstance(value, dict | list):
        return Cell(encode(value).decode()[: MAX_CELL_CHARS + 1] if len(value) < 100 else "…", "json")
    return Cell(format_exact(value), "number")


def write_csv(items: list[JsonObject], columns: tuple[str, ...]) -> bytes:
    """A page of a list for spreadsheets. What they would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "state", "created", "changed", *columns])
    for item in items:
        row = _build_row(item, ())
        values = [find_values(item.get("data"), column) for column in columns]
        writer.writerow([_defuse(cell) for cell in (row.id, row.state, row.created, row.changed, *map(_join, values))])
    return text.getvalue().encode()


def write_lines(items: list[JsonObject]) -> bytes:
    """A page of a list as lines of JSON, exact."""
    return b"".join(encode(item) + b"\n" for item in items)


def _join(values: list[JsonValue]) -> str:
    return "; ".join(value if isinstance(value, str) else encode(value).decode() for value in values)


def _defuse(text: str) -> str:
    is_number = text[:1] == "-" and text[1:2].isdigit() and text[1:].replace(".", "", 1).isdigit()
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text
