"""Members of JSON objects by type: what has another type is as absent."""

from decimal import Decimal

from statewright.instants import from_rfc3339
from statewright.jsonval.values import JsonObject, JsonValue


def get_text(document: JsonObject, name: str, default: str = "") -> str:
    """A string."""
    value = document.get(name)
    return value if isinstance(value, str) else default


def get_number(document: JsonObject, name: str) -> int | Decimal | None:
    """A number, exact."""
    value = document.get(name)
    return value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def get_int(document: JsonObject, name: str, default: int = 0) -> int:
    """A whole number."""
    value = document.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def get_flag(document: JsonObject, name: str, *, default: bool = False) -> bool:
    """A boolean."""
    value = document.get(name)
    return value if isinstance(value, bool) else default


def get_object(document: JsonObject, name: str) -> JsonObject:
    """An object, empty where there is none."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def get_list(document: JsonObject, name: str) -> list[JsonValue]:
    """A list, empty where there is none."""
    value = document.get(name)
    return value if isinstance(value, list) else []


def get_objects(document: JsonObject, name: str) -> list[JsonObject]:
    """The objects of a list."""
    return [item for item in get_list(document, name) if isinstance(item, dict)]


def get_texts(document: JsonObject, name: str) -> list[str]:
    """The strings of a list."""
    return [item for item in get_list(document, name) if isinstance(item, str)]


def get_instant(document: JsonObject, name: str) -> int | None:
    """An instant of RFC 3339, in microseconds since 1970."""
    text = get_text(document, name)
    return from_rfc3339(text) if text else None
