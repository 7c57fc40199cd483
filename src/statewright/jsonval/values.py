"""What a decoded JSON document is made of: values, their data types, and the paths by which messages name a place.

A path looks like ``lines[0].sku``; that of the document itself is empty. Names are inserted verbatim
(docs/reference/models.md#strict-validation), so a dot inside a name cannot be told from a step: paths are for people to
read, not for programs to follow.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

JsonScalar: TypeAlias = None | bool | int | Decimal | str
"""Whole literals arrive as ``int``, all other numbers as ``Decimal`` with every digit kept; ``float`` never occurs."""

JsonValue: TypeAlias = "JsonScalar | list[JsonValue] | dict[str, JsonValue]"
JsonObject: TypeAlias = "dict[str, JsonValue]"


class DataType(StrEnum):
    """Type of a JSON scalar as exports of models name it; declaration order is the canonical order of listings
    (docs/reference/models.md#data-types).
    """

    INTEGER = "INTEGER"
    LONG = "LONG"
    BIG_INTEGER = "BIG_INTEGER"
    UNBOUND_INTEGER = "UNBOUND_INTEGER"
    DOUBLE = "DOUBLE"
    BIG_DECIMAL = "BIG_DECIMAL"
    UNBOUND_DECIMAL = "UNBOUND_DECIMAL"
    STRING = "STRING"
    CHARACTER = "CHARACTER"
    LOCAL_DATE = "LOCAL_DATE"
    LOCAL_DATE_TIME = "LOCAL_DATE_TIME"
    LOCAL_TIME = "LOCAL_TIME"
    ZONED_DATE_TIME = "ZONED_DATE_TIME"
    YEAR = "YEAR"
    YEAR_MONTH = "YEAR_MONTH"
    UUID_TYPE = "UUID_TYPE"
    TIME_UUID_TYPE = "TIME_UUID_TYPE"
    BYTE_ARRAY = "BYTE_ARRAY"
    BOOLEAN = "BOOLEAN"
    NULL = "NULL"


MAX_PATH_CHARS: Final = 2048
"""Characters of a path that messages show: a long name with many members below it would cost its length for each."""


def member_path(path: str, name: str) -> str:
    """The path of a member of the object at ``path``."""
    return extend_path(path, f".{name}" if path else name)


def item_path(path: str, index: int) -> str:
    """The path of an item of the array at ``path``."""
    return extend_path(path, f"[{index}]")


def extend_path(path: str, step: str) -> str:
    """The path and a further step, cut off where it is very long; what was cut is not extended."""
    if len(path) > MAX_PATH_CHARS:
        return path
    extended = path + step
    return extended if len(extended) <= MAX_PATH_CHARS else f"{extended[:MAX_PATH_CHARS]}…"
