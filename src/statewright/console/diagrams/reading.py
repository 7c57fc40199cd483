"""Members of documents that come from the API, by the type they should have; anything else is as good as absent."""

from statewright.jsonval.values import JsonObject, JsonValue


def get_object(document: JsonValue, name: str) -> JsonObject:
    """The object at ``name``, or an empty one."""
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def get_list(document: JsonValue, name: str) -> list[JsonValue]:
    """The array at ``name``, or an empty one."""
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, list) else []


def get_objects(document: JsonValue, name: str) -> list[JsonObject]:
    """The objects in the array at ``name``."""
    return [item for item in get_list(document, name) if isinstance(item, dict)]


def get_text(document: JsonValue, name: str) -> str:
    """The text at ``name``, or an empty one."""
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""
