"""The fields of a model as a table, from its export as SIMPLE_VIEW (docs/reference/models.md#simple_view). Pure."""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from statewright.console.values import get_object, get_objects, get_text, get_texts
from statewright.jsonval.values import JsonObject

MAX_FIELDS_SHOWN: Final = 2_000


class Field(Struct, frozen=True, kw_only=True):
    """A field that documents of a model may have."""

    path: str
    depth: int
    """How many objects it is in."""
    types: tuple[str, ...]
    unique_in: tuple[str, ...] = ()
    """Ids of the unique keys that it is part of."""


class UniqueKey(Struct, frozen=True):
    """Fields whose values no two entities share."""

    id: str
    fields: tuple[str, ...]


class Schema(Struct, frozen=True, kw_only=True):
    """What documents of a model may be."""

    fields: tuple[Field, ...] = ()
    keys: tuple[UniqueKey, ...] = ()
    is_cut: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that conditions can name."""
        return tuple(field.path for field in self.fields)


def build_schema(document: JsonObject) -> Schema:
    """From the body of an export."""
    keys = tuple(
        UniqueKey(get_text(key, "id"), tuple(get_texts(key, "fields"))) for key in get_objects(document, "uniqueKeys")
    )
    unique_in: dict[str, tuple[str, ...]] = {}
    for key in keys:
        for path in key.fields:
            unique_in[path] = (*unique_in.get(path, ()), key.id)
    fields = sorted(_list_fields(get_object(document, "model"), unique_in), key=lambda field: field.path)
    return Schema(fields=tuple(fields[:MAX_FIELDS_SHOWN]), keys=keys, is_cut=len(fields) > MAX_FIELDS_SHOWN)


def _list_fields(model: JsonObject, unique_in: dict[str, tuple[str, ...]]) -> Iterator[Field]:
    for parent in model:
        descriptor = get_object(model, parent)
        for member in descriptor:
            if not member.startswith("."):
                continue
            path = f"{parent}{member}"
            yield Field(
                path=path,
                depth=parent.count("."),
                types=_read_types(get_text(descriptor, member)),
                unique_in=unique_in.get(path, ()),
            )


def _read_types(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.strip("[]").split(",") if part.strip())
