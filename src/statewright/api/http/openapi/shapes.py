"""The words that schemas are made of."""

from typing import Any, Final

Document = dict[str, Any]  # Any: OpenAPI is a tree of whatever its own specification allows

UUID: Final = {"type": "string", "format": "uuid"}
INSTANT: Final = {"type": "string", "format": "date-time"}
TEXT: Final = {"type": "string"}
INT32: Final = {"type": "integer", "format": "int32"}
INT64: Final = {"type": "integer", "format": "int64"}
FLAG: Final = {"type": "boolean"}


def define_open_object(required: str = "", **properties: object) -> Document:
    """An object that may have other members."""
    return {"type": "object", "properties": properties} | ({"required": required.split()} if required else {})


def define_object(required: str = "", **properties: object) -> Document:
    """A closed object: existing clients reject members they do not know."""
    return {**define_open_object(required, **properties), "additionalProperties": False}


def define_array(items: object) -> Document:
    return {"type": "array", "items": items}


def define_page(items: str) -> Document:
    """A page of what the schema ``items`` describes."""
    return define_object(
        "items total page pageSize", items=define_array(ref(items)), total=INT32, page=INT32, pageSize=INT32
    )


def allow_null(schema: Document) -> Document:
    return {**schema, "type": [schema["type"], "null"]}


def ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}
