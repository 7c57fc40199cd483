"""The words that schemas are made of."""

from typing import Any, Final

Document = dict[str, Any]  # Any: OpenAPI is a tree of whatever its own specification allows

UUID: Final = {"type": "string", "format": "uuid"}
INSTANT: Final = {"type": "string", "format": "date-time"}
TEXT: Final = {"type": "string"}
INT32: Final = {"type": "integer", "format": "int32"}
INT64: Final = {"type": "integer", "format": "int64"}
FLAG: Final = {"type": "boolean"}


def opened(required: str = "", **properties: object) -> Document:
    """An object that may have other members."""
    return {"type": "object", "properties": properties} | ({"required": required.split()} if required else {})


def closed(required: str = "", **properties: object) -> Document:
    """A closed object: existing clients reject members they do not know."""
    return {**opened(required, **properties), "additionalProperties": False}


def array(items: object) -> Document:
    return {"type": "array", "items": items}


def ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}
