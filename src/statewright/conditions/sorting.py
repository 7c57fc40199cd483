"""The order of search results: keys as written, resolved against a model, and applied
(docs/reference/search.md#sorting).

A resolved order exists twice, in SQL and in memory, and both mean the same: absent values, null and values of another
kind than the key's come last in either direction; texts compare by code points, numbers by exact value, instants by
milliseconds; the entity id decides what is left.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, assert_never

from msgspec import Struct

from statewright.conditions.paths import Path, compile_lookup, is_field, parse_path, types_at
from statewright.conditions.sql_terms import DOCUMENT, Argument, Parameters, resolve_place
from statewright.conditions.syntax import META_FIELDS, MetaField
from statewright.entity import EntityMeta
from statewright.failures import InvalidFieldPath
from statewright.jsonval.numbers import NUMERIC_TYPES
from statewright.jsonval.temporals import TEMPORAL_TYPES
from statewright.jsonval.values import DataType, JsonValue, is_number
from statewright.schema.node import DeclaredField

Item = TypeVar("Item")

_SEGMENTS: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")

SORTABLE_META: Final = {name: field for name, field in META_FIELDS.items() if name != "previousTransition"}

SORT_COLUMNS: Final[Mapping[MetaField, str]] = {
    MetaField.ID: "id",
    MetaField.STATE: """(NULLIF(state, '') COLLATE "C")""",
    MetaField.TRANSITION: """(NULLIF(transition, '') COLLATE "C")""",
    MetaField.TRANSACTION_ID: "transaction_id",
    MetaField.CREATION_DATE: "(created_at / 1000)",
    MetaField.LAST_UPDATE_TIME: "(valid_from / 1000)",
}
"""UUIDs sort like their texts; an empty text counts as missing."""


class SortKey(Struct, frozen=True, kw_only=True):
    """One key as asked for: a path into the document, without ``$.``, or the name of a metadata field."""

    path: str
    source: Literal["data", "meta"] = "data"
    descending: bool = False


class OrderingClass(Enum):
    """How the values of a key compare."""

    TEXT = auto()
    NUMBER = auto()
    BOOLEAN = auto()


CLASSES: Final[Mapping[DataType, OrderingClass]] = {
    **dict.fromkeys(
        (DataType.STRING, DataType.CHARACTER, DataType.UUID_TYPE, DataType.TIME_UUID_TYPE, *TEMPORAL_TYPES),
        OrderingClass.TEXT,
    ),
    **dict.fromkeys(NUMERIC_TYPES, OrderingClass.NUMBER),
    DataType.BOOLEAN: OrderingClass.BOOLEAN,
}
"""Declared type -> how its values are ordered; absent = they are not."""


class DataOrder(Struct, frozen=True, kw_only=True):
    """By the value at a path."""

    path: Path
    values: OrderingClass
    descending: bool


class MetaOrder(Struct, frozen=True, kw_only=True):
    """By a metadata field."""

    field: MetaField
    descending: bool


SortOrder = tuple[DataOrder | MetaOrder, ...]
"""Keys by precedence; empty means by id."""

BY_ID: Final[SortOrder] = ()


class KeysetPart(Struct, frozen=True, kw_only=True):
    """One of the expressions that rows are ordered by, and the SQL type of its values."""

    expression: str
    type: Literal["text", "numeric", "boolean", "bigint", "uuid"]
    descending: bool = False


class Keyset(Struct, frozen=True):
    """The expressions of an order without the id, and their arguments. They are null where a row has no value, and such
    rows come last.
    """

    parts: tuple[KeysetPart, ...]
    args: tuple[Argument, ...]


class OrderBy(Struct, frozen=True):
    """The expressions of an ``ORDER BY`` clause, complete down to the id, and their arguments."""

    text: str
    args: tuple[Argument, ...]


def parse_sort(tokens: Iterable[str], *, max_keys: int) -> tuple[SortKey, ...]:
    """The keys that ``sort`` parameters name. Raises :class:`InvalidFieldPath`, which quotes the token at fault."""
    keys = tuple(map(_parse_key, tokens))
    if not keys:
        return ()
    check_keys(keys, max_keys=max_keys)
    return keys


def check_keys(keys: Sequence[SortKey], *, max_keys: int) -> None:
    """What can be told of the keys without the model. Raises :class:`InvalidFieldPath`."""
    if len(keys) > max_keys:
        raise InvalidFieldPath(f"too many sort keys: {len(keys)} exceeds maximum {max_keys}")
    seen: set[tuple[str, str]] = set()
    for key in keys:
        if (key.source, key.path) in seen:
            raise InvalidFieldPath(f'duplicate sort key "{_format_key(key)}"')
        seen.add((key.source, key.path))


def resolve_sort(keys: Iterable[SortKey], declared: Mapping[str, DeclaredField]) -> SortOrder:
    """The order that the keys ask for in a model. Raises :class:`InvalidFieldPath`, which names the key."""
    return tuple([_resolve_meta(key) if key.source == "meta" else _resolve_data(key, declared) for key in keys])


def compile_order_by(order: SortOrder, *, first: int = 1, names: Mapping[str, str] = MappingProxyType({})) -> OrderBy:
    """The order in SQL; its parameters begin at ``$first``, and ``names`` are as in ``compile_sql``."""
    parameters = Parameters(first, names)
    terms = [
        f"{expression} {'DESC' if key.descending else 'ASC'} NULLS LAST"
        for key in order
        for expression in _list_expressions(key, parameters)
    ]
    return OrderBy(", ".join([*terms, "id"]), parameters.values)


def compile_keyset(order: SortOrder, *, first: int = 1) -> Keyset:
    """What tells in SQL which rows come behind one in the order; its parameters begin at ``$first``."""
    parameters = Parameters(first)
    parts = [
        KeysetPart(expression=expression, type=_find_type(key), descending=key.descending)
        for key in order
        for expression in _list_expressions(key, parameters)
    ]
    return Keyset(tuple(parts), parameters.values)


def sort_items(
    order: SortOrder, items: Iterable[Item], read_keys: Callable[[Item], tuple[JsonValue, EntityMeta]]
) -> list[Item]:
    """The items in order; ``read_keys`` gives what an item is sorted by."""
    read_values = compile_values(order)
    return sort_by_values(order, [(item, read_values(*read_keys(item))) for item in items])


SortValues = tuple[Any, ...]  # Any: comparable with its likes
"""The values of one item by the keys of an order, None where it has none; at last its id."""


def compile_values(order: SortOrder) -> Callable[[JsonValue, EntityMeta], SortValues]:
    """A function that gives all that is needed of a document in order to sort it."""
    readers = [_compile_reader(key) for key in order]
    return lambda document, meta: (*[read(document, meta) for read in readers], meta.id)


def sort_by_values(order: SortOrder, items: Iterable[tuple[Item, SortValues]]) -> list[Item]:
    """The items in order."""
    found = sorted(items, key=lambda pair: pair[1][-1])
    for number, key in reversed([*enumerate(order)]):  # the last key first: sorting is stable, also in reverse
        present = [pair for pair in found if pair[1][number] is not None]
        present.sort(key=lambda pair, number=number: pair[1][number], reverse=key.descending)  # type: ignore[misc]
        found = present + [pair for pair in found if pair[1][number] is None]
    return [item for item, _ in found]


def _parse_key(token: str) -> SortKey:
    name, colon, direction = token.rpartition(":")
    if not colon:
        name, direction = token, "asc"
    if direction not in ("asc", "desc"):
        raise InvalidFieldPath(f'malformed sort key "{token}": the direction is asc or desc')
    if name.startswith("@"):
        if name[1:] not in SORTABLE_META:
            raise InvalidFieldPath(f'unknown metadata field in sort key "{token}"; valid: {", ".join(SORTABLE_META)}')
        return SortKey(path=name[1:], source="meta", descending=direction == "desc")
    path = name.removeprefix("$.")
    if not _SEGMENTS.fullmatch(path):
        raise InvalidFieldPath(f'malformed sort key "{token}": a path is letters, digits, _ and - between dots')
    return SortKey(path=path, descending=direction == "desc")


def _resolve_meta(key: SortKey) -> MetaOrder:
    field = SORTABLE_META.get(key.path)
    if field is None:
        raise InvalidFieldPath(f'unknown metadata field in sort key "{_format_key(key)}"')
    return MetaOrder(field=field, descending=key.descending)


def _resolve_data(key: SortKey, declared: Mapping[str, DeclaredField]) -> DataOrder:
    path = parse_path(key.path) if _SEGMENTS.fullmatch(key.path) else None
    if path is None or not is_field(path, declared):
        raise InvalidFieldPath(f'sort key "{_format_key(key)}" is no field of the model that holds one value')
    types = types_at(path, declared) - {DataType.NULL}
    classes = {CLASSES.get(declared_type) for declared_type in types}
    values = classes.pop() if len(classes) == 1 else None
    if values is None:
        names = ", ".join(declared_type for declared_type in DataType if declared_type in types) or DataType.NULL
        raise InvalidFieldPath(f'sort key "{_format_key(key)}" has no order: its declared types are [{names}]')
    return DataOrder(path=path, values=values, descending=key.descending)


def _format_key(key: SortKey) -> str:
    return f"@{key.path}" if key.source == "meta" else key.path


def _list_expressions(key: DataOrder | MetaOrder, parameters: Parameters) -> tuple[str, ...]:
    """One for most keys; a text is sorted by its head first, for which there may be an index."""
    if isinstance(key, MetaOrder):
        return (SORT_COLUMNS[key.field],)
    place = resolve_place(DOCUMENT, _list_steps(key.path), parameters)
    match key.values:
        case OrderingClass.TEXT:
            return place.string.head, place.string.whole
        case OrderingClass.NUMBER:
            return (place.number,)
        case OrderingClass.BOOLEAN:
            return (place.boolean,)
        case _:
            assert_never(key.values)


def _find_type(key: DataOrder | MetaOrder) -> Literal["text", "numeric", "boolean", "bigint", "uuid"]:
    if isinstance(key, MetaOrder):
        return _META_TYPES.get(key.field, "text")
    match key.values:
        case OrderingClass.TEXT:
            return "text"
        case OrderingClass.NUMBER:
            return "numeric"
        case OrderingClass.BOOLEAN:
            return "boolean"
        case _:
            assert_never(key.values)


_META_TYPES: Final[Mapping[MetaField, Literal["bigint", "uuid"]]] = {
    MetaField.ID: "uuid",
    MetaField.TRANSACTION_ID: "uuid",
    MetaField.CREATION_DATE: "bigint",
    MetaField.LAST_UPDATE_TIME: "bigint",
}
"""Metadata that are no texts."""


def _list_steps(path: Path) -> list[str | int]:
    return [step for step in path.steps if isinstance(step, str | int)]


def _compile_reader(
    key: DataOrder | MetaOrder,
) -> Callable[[JsonValue, EntityMeta], Any]:  # Any: comparable with its likes
    if isinstance(key, MetaOrder):
        read = attrgetter(key.field.value)
        return lambda document, meta: None if (value := read(meta)) == "" else value
    get, accepts = compile_lookup(key.path), _ACCEPTS[key.values]

    def value_of(document: JsonValue, meta: EntityMeta) -> Any:  # Any: as above
        value = get(document)
        return value if accepts(value) else None

    return value_of


_ACCEPTS: Final[Mapping[OrderingClass, Callable[[object], bool]]] = {
    OrderingClass.TEXT: lambda value: isinstance(value, str),
    OrderingClass.NUMBER: is_number,
    OrderingClass.BOOLEAN: lambda value: isinstance(value, bool),
}
