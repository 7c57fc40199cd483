"""Rows of a list of entities: metadata, and the values of chosen fields. Pure.

The fields of a model as a table, from its export as SIMPLE_VIEW (docs/reference/models.md#simple_view). Pure.

JSON documents for people: as indented text, and as a tree with folded parts. Numbers keep their digits.

What differs between two documents, member by member, for people.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal

from msgspec import Struct, field

from statewright.console.calls import pick_members
from statewright.console.views.page import cut_text, format_exact
from statewright.console.views.records import Envelope
from statewright.jsonval.codec import encode
from statewright.jsonval.patches import is_json_equal
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.operations.records import Record

MAX_FIELDS_SHOWN: Final = 2_000


class Field(Struct, frozen=True, kw_only=True):
    """A field that documents of a model may have."""

    path: str
    depth: int
    """How many objects it is in."""
    types: tuple[str, ...]
    unique_in: tuple[str, ...] = ()
    """Ids of the unique keys that it is part of."""


class UniqueKey(Record, frozen=True):
    """Fields whose values no two entities share."""

    id: str = ""
    fields: tuple[str, ...] = ()


class ExportedModel(Record, frozen=True, kw_only=True):
    """What an export says: of each object its members and their types, and unique keys."""

    model: dict[str, dict[str, str]] = field(default_factory=dict)
    unique_keys: tuple[UniqueKey, ...] = ()


class Schema(Struct, frozen=True, kw_only=True):
    """What documents of a model may be."""

    fields: tuple[Field, ...] = ()
    keys: tuple[UniqueKey, ...] = ()
    is_cut: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that conditions can name."""
        return tuple(field.path for field in self.fields)


def build_schema(export: JsonValue) -> Schema:
    """From the body of an export."""
    told = pick_members(export, ExportedModel)
    unique_in: dict[str, tuple[str, ...]] = {}
    for key in told.unique_keys:
        for path in key.fields:
            unique_in[path] = (*unique_in.get(path, ()), key.id)
    fields = [
        Field(
            path=f"{parent}{member}",
            depth=parent.count("."),
            types=_read_types(types),
            unique_in=unique_in.get(f"{parent}{member}", ()),
        )
        for parent, descriptor in told.model.items()
        for member, types in descriptor.items()
        if member.startswith(".")
    ]
    fields.sort(key=lambda each: each.path)
    return Schema(fields=tuple(fields[:MAX_FIELDS_SHOWN]), keys=told.unique_keys, is_cut=len(fields) > MAX_FIELDS_SHOWN)


def _read_types(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.strip("[]").split(",") if part.strip())


DEFAULT_COLUMNS: Final = 4
MAX_COLUMNS: Final = 12
MAX_CELL_CHARS: Final = 200
MAX_CELL_VALUES: Final = 3
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class DocumentCell(Struct, frozen=True):
    """A value of a document. ``kind`` is for the style."""

    text: str
    kind: str


class EntityRow(Struct, frozen=True, kw_only=True):
    """An entity in a list."""

    id: str
    state: str
    created: str
    changed: str
    cells: tuple[DocumentCell, ...]


def choose_columns(wanted: tuple[str, ...], fields: tuple[Field, ...]) -> tuple[str, ...]:
    """The paths that are shown: those that were asked for, else the first fields that have one value."""
    if wanted:
        return tuple(dict.fromkeys(path for path in wanted if path))[:MAX_COLUMNS]
    return tuple(field.path for field in fields if "[*]" not in field.path)[:DEFAULT_COLUMNS]


def build_rows(found: Iterable[Envelope], columns: tuple[str, ...]) -> tuple[EntityRow, ...]:
    """Rows from the envelopes of the API."""
    return tuple(
        EntityRow(
            id=each.meta.id,
            state=each.meta.state,
            created=each.meta.creation_date,
            changed=each.meta.last_update_time,
            cells=tuple(build_cell(find_values(each.data, column)) for column in columns),
        )
        for each in found
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


def build_cell(values: list[JsonValue]) -> DocumentCell:
    """One cell for all values that a path names."""
    if not values:
        return DocumentCell("", "absent")
    if len(values) == 1:
        return _build_single(values[0])
    shown = ", ".join(_build_single(value).text for value in values[:MAX_CELL_VALUES])
    more = len(values) - MAX_CELL_VALUES
    return DocumentCell(f"{shown} and {more} more" if more > 0 else shown, "text")


def _build_single(value: JsonValue) -> DocumentCell:
    if value is None:
        return DocumentCell("null", "none")
    if isinstance(value, bool):
        return DocumentCell("true" if value else "false", "flag")
    if isinstance(value, str):
        return DocumentCell(value[: MAX_CELL_CHARS + 1], "text")
    if isinstance(value, dict | list):
        return DocumentCell(encode(value).decode()[: MAX_CELL_CHARS + 1] if len(value) < 100 else "…", "json")
    return DocumentCell(format_exact(value), "number")


def write_csv(found: Iterable[Envelope], columns: tuple[str, ...]) -> bytes:
    """A page of a list for spreadsheets. What they would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "state", "created", "changed", *columns])
    for each in found:
        meta, values = each.meta, (_join(find_values(each.data, column)) for column in columns)
        cells = (meta.id, meta.state, meta.creation_date, meta.last_update_time, *values)
        writer.writerow([_defuse(cell) for cell in cells])
    return text.getvalue().encode()


def write_lines(items: list[JsonObject]) -> bytes:
    """A page of a list as lines of JSON, exact."""
    return b"".join(encode(item) + b"\n" for item in items)


def _join(values: list[JsonValue]) -> str:
    return "; ".join(value if isinstance(value, str) else encode(value).decode() for value in values)


def _defuse(text: str) -> str:
    is_number = text[:1] == "-" and text[1:2].isdigit() and text[1:].replace(".", "", 1).isdigit()
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text


MAX_TREE_DEPTH: Final = 30
MAX_LEAF_CHARS: Final = 10_000
MAX_TREE_NODES: Final = 2_000
MAX_TEXT_BYTES: Final = 256 * 1024
"""Bytes of a document up to which a page shows it as text."""

_INDENT: Final = "  "


class TreeNode(Struct, frozen=True, kw_only=True):
    """A member of a tree. ``kind`` is for the style; ``children`` are those of an object or array.

    ``left_out``: how many parts of it are not shown, because of their number or depth.
    """

    name: str
    kind: str
    text: str
    children: "tuple[TreeNode, ...]" = ()
    left_out: int = 0


def build_tree(document: JsonValue) -> TreeNode:
    """The tree of a document, cut where it is very deep or has very many parts."""
    return _Growth().grow("", document, 0)


class _Growth:
    """Counts the nodes of a tree while it grows."""

    def __init__(self) -> None:
        self._nodes = 0

    def grow(self, name: str, value: JsonValue, depth: int) -> TreeNode:
        self._nodes += 1
        if isinstance(value, dict):
            return self._grow_container(name, "object", list(value.items()), depth)
        if isinstance(value, list):
            items = [(str(place), item) for place, item in enumerate(value)]
            return self._grow_container(name, "array", items, depth)
        if isinstance(value, str):
            cut = value if len(value) <= MAX_LEAF_CHARS else f"{value[:MAX_LEAF_CHARS]}…"
            return TreeNode(name=name, kind="text", text=cut, left_out=max(0, len(value) - MAX_LEAF_CHARS))
        kind = "none" if value is None else "flag" if isinstance(value, bool) else "number"
        return TreeNode(name=name, kind=kind, text=encode(value).decode())

    def _grow_container(self, name: str, kind: str, members: list[tuple[str, JsonValue]], depth: int) -> TreeNode:
        children: list[TreeNode] = []
        for key, value in members if depth < MAX_TREE_DEPTH else ():
            if self._nodes >= MAX_TREE_NODES:
                break
            children.append(self.grow(key, value, depth + 1))
        count = f"{len(members)} {'member' if kind == 'object' else 'item'}{'' if len(members) == 1 else 's'}"
        return TreeNode(
            name=name, kind=kind, text=count, children=tuple(children), left_out=len(members) - len(children)
        )


def write_text(value: JsonValue) -> str:
    """Indented JSON, an entry a line."""
    return "".join(_write(value, "\n"))


def _write(value: JsonValue, line: str) -> list[str]:
    if isinstance(value, dict) and value:
        parts = [[f"{_INDENT}{encode(name).decode()}: ", *_write(item, line + _INDENT)] for name, item in value.items()]
        return _enclose("{", parts, "}", line)
    if isinstance(value, list) and value:
        return _enclose("[", [[_INDENT, *_write(item, line + _INDENT)] for item in value], "]", line)
    return [encode(value).decode()]


def _enclose(opening: str, parts: list[list[str]], closing: str, line: str) -> list[str]:
    written = [opening]
    for place, part in enumerate(parts):
        written += [line if place == 0 else f",{line}", *part]
    return [*written, line, closing]


class Document(Struct, frozen=True):
    """A document on a page. ``text`` is None where it is so long that it is a matter for a download."""

    tree: TreeNode
    text: str | None


def build_document(value: JsonValue) -> Document:
    """A document as a tree and as text."""
    return Document(build_tree(value), write_text(value) if fits_page(value) else None)


def fits_page(value: JsonValue) -> bool:
    """Whether a page shows a document as text; a longer one is a matter for a download."""
    return len(encode(value)) <= MAX_TEXT_BYTES


def cut_json(value: JsonValue, limit: int) -> str:
    """Compact JSON of a value, at most so many characters of it."""
    return cut_text(encode(value).decode(), limit)


MAX_ROWS: Final = 500
MAX_VALUE_CHARS: Final = 2_000


class ChangedMember(Struct, frozen=True, kw_only=True):
    """A place that differs; ``old`` and ``new`` are JSON, empty where there is nothing."""

    path: str
    change: Literal["added", "removed", "changed"]
    old: str = ""
    new: str = ""


def list_differences(old: JsonValue, new: JsonValue) -> tuple[tuple[ChangedMember, ...], bool]:
    """The differences by path, and whether there are more than are listed. Items of arrays are compared by position."""
    found = list(islice(_compare("$", old, new), MAX_ROWS + 1))
    return tuple(found[:MAX_ROWS]), len(found) > MAX_ROWS


def _compare(path: str, old: JsonValue, new: JsonValue) -> Iterator[ChangedMember]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            place = f"{path}.{name}"
            if name not in new:
                yield ChangedMember(path=place, change="removed", old=_show(old[name]))
            elif name not in old:
                yield ChangedMember(path=place, change="added", new=_show(new[name]))
            else:
                yield from _compare(place, old[name], new[name])
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            place = f"{path}[{index}]"
            if index >= len(new):
                yield ChangedMember(path=place, change="removed", old=_show(old[index]))
            elif index >= len(old):
                yield ChangedMember(path=place, change="added", new=_show(new[index]))
            else:
                yield from _compare(place, old[index], new[index])
    elif not is_json_equal(old, new):
        yield ChangedMember(path=path, change="changed", old=_show(old), new=_show(new))


def _show(value: JsonValue) -> str:
    return cut_json(value, MAX_VALUE_CHARS)
