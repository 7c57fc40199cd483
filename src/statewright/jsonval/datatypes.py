"""The data types a JSON leaf can have, in canonical order (spec/models.md §5.2)."""

from enum import StrEnum


class DataType(StrEnum):
    """Type of a JSON scalar as the model exports name it; declaration order is the canonical order of listings."""

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
