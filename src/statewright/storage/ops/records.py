"""Rows of the database as the records that clients read.

A record names its members once: the columns of its rows have the names of its fields. A struct in it has its columns
behind the name of its field: ``subject_kind`` is ``kind`` of ``subject``; it is None where all of them are. Instants
come in epoch microseconds, lists of structs as JSON texts. A field without a column has its default, or is given.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import GenericAlias
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg
from msgspec import Struct, inspect, json

from statewright.instants import to_rfc3339

RecordT = TypeVar("RecordT", bound=Struct)

ReadField: TypeAlias = Callable[[asyncpg.Record], object]

_FORMATS: Final[Mapping[object, Callable[[Any], object]]] = {"date-time": to_rfc3339, "uuid": str}


def read_record(kind: type[RecordT], row: asyncpg.Record, **given: object) -> RecordT:
    """The record of a row. ``given`` are fields that are not read as they are stored."""
    fields = _plan_fields(kind, tuple(row.keys()))
    return kind(**{name: read(row) for name, read in fields.items() if name not in given}, **given)


@cache
def _plan_fields(kind: type[Struct], columns: tuple[str, ...], prefix: str = "") -> Mapping[str, ReadField]:
    """How the fields are read that have columns; made once for the rows of a statement."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - of a struct
    found = {field.name: _plan_field(field.type, columns, prefix + field.name) for field in info.fields}
    return {name: read for name, read in found.items() if read is not None}


def _plan_field(info: inspect.Type, columns: tuple[str, ...], column: str) -> ReadField | None:
    match info:
        case inspect.UnionType(types=types):
            kinds = (one for one in types if not isinstance(one, inspect.NoneType))
            return _plan_field(next(kinds), columns, column)
        case inspect.StructType(cls=kind):
            return _plan_struct(kind, _plan_fields(kind, columns, f"{column}_"))
    return _plan_value(_find_conversion(info), column) if column in columns else None


def _plan_struct(kind: type[Struct], fields: Mapping[str, ReadField]) -> ReadField | None:
    def read(row: asyncpg.Record) -> Struct | None:
        values = {name: read_field(row) for name, read_field in fields.items()}
        return None if all(value is None for value in values.values()) else kind(**values)

    return read if fields else None


def _plan_value(convert: Callable[[Any], object] | None, column: str) -> ReadField:
    def read(row: asyncpg.Record) -> object:
        value = row[column]
        return value if value is None or convert is None else convert(value)

    return read


def _find_conversion(info: inspect.Type) -> Callable[[Any], object] | None:
    """What makes the value of a field of that of its column; None: they are one."""
    match info:
        case inspect.Metadata(type=inner, extra_json_schema=said):
            return _FORMATS.get((said or {}).get("format")) or _find_conversion(inner)
        case inspect.CollectionType(item_type=inspect.StructType(cls=kind)):
            return json.Decoder(GenericAlias(tuple, (kind, ...))).decode
        case inspect.CollectionType():
            return tuple
        case _:
            return None
