"""The two formats in which a schema is exported (docs/reference/models.md#export-formats)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from statewright.jsonval.codec import encode
from statewright.jsonval.values import DataType, JsonObject, JsonValue
from statewright.schema.node import Kind, SchemaNode, TypeSet, element_of
from statewright.schema.unique_keys import UniqueKey

_JSON_TYPES: Final[Mapping[DataType, tuple[str, str | None]]] = {
    DataType.INTEGER: ("integer", None),
    DataType.LONG: ("integer", None),
    DataType.BIG_INTEGER: ("integer", None),
    DataType.UNBOUND_INTEGER: ("integer", None),
    DataType.DOUBLE: ("number", None),
    DataType.BIG_DECIMAL: ("number", None),
    DataType.UNBOUND_DECIMAL: ("number", None),
    DataType.STRING: ("string", None),
    DataType.CHARACTER: ("string", None),
    DataType.LOCAL_DATE: ("string", "date"),
    DataType.LOCAL_DATE_TIME: ("string", "date-time"),
    DataType.LOCAL_TIME: ("string", "time"),
    DataType.ZONED_DATE_TIME: ("string", "date-time"),
    DataType.YEAR: ("string", "year"),
    DataType.YEAR_MONTH: ("string", "year-month"),
    DataType.UUID_TYPE: ("string", "uuid"),
    DataType.TIME_UUID_TYPE: ("string", "uuid"),
    DataType.BYTE_ARRAY: ("string", "byte"),
    DataType.BOOLEAN: ("boolean", None),
    DataType.NULL: ("null", None),
}
"""Data type -> JSON Schema ``type`` and ``format`` (docs/reference/models.md#json_schema)."""

_ESCAPED: Final = {text.encode(): f"\\u{ord(text):04x}".encode() for text in "<>&\u2028\u2029"}
"""Characters that exports write as escapes (docs/reference/models.md#requests-and-answers). In JSON text they can
only stand inside strings.
"""


def export_document(model: JsonValue, *, state: str, unique_keys: Sequence[UniqueKey] = ()) -> bytes:
    """The body of an export: equal schemas give equal bytes. ``model`` comes from one of :data:`EXPORTS`."""
    text = b'{"currentState":' + encode(state) + b',"model":' + encode(model)
    if unique_keys:
        text += b',"uniqueKeys":' + msgspec.json.encode(unique_keys)  # by struct: id comes before fields
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    return text + b"}"


def to_simple_view(node: SchemaNode) -> JsonValue:
    """A flat map from the paths of objects to what stands in them; empty when the root is no object."""
    view: JsonObject = {}
    if node.kind is Kind.OBJECT:
        _describe(node, "$", view)
    return view


def to_json_schema(node: SchemaNode) -> JsonValue:
    """A minimal JSON Schema; scalars of mixed slots and nullability of containers do not show."""
    if node.kind is Kind.OBJECT:
        properties: JsonObject = {}
        for name, child in node.children.items():
            properties[name] = to_json_schema(child)
        return {"type": "object", "properties": properties}
    if node.kind is Kind.ARRAY:
        return {"type": "array", "items": to_json_schema(element_of(node))}
    return _describe_leaf(node.types)


EXPORTS: Final[Mapping[str, Callable[[SchemaNode], JsonValue]]] = {
    "JSON_SCHEMA": to_json_schema,
    "SIMPLE_VIEW": to_simple_view,
}
"""Converter of an export request -> what it puts into ``model``."""


def _describe(node: SchemaNode, path: str, view: JsonObject) -> JsonObject:
    """Adds the object at ``path``, and those below it, to the view; the descriptor of the object itself."""
    descriptor: JsonObject = {}
    view[path] = descriptor
    for name, child in sorted(node.children.items()):  # sorted: of names that make equal paths the same one always wins
        if child.kind is Kind.LEAF:
            descriptor[f".{name}"] = _format_types(child.types)
        elif child.kind is Kind.OBJECT:
            descriptor[f"#.{name}"] = "OBJECT"
            _describe(child, f"{path}.{name}", view)
        elif (element := element_of(child)).kind is Kind.OBJECT:
            descriptor[f"#.{name}"] = "OBJECT"
            _describe(element, f"{path}.{name}[*]", view)["#"] = "ARRAY_ELEMENT"
        else:
            descriptor[f".{name}[*]"] = _format_types(element.types)
    return descriptor


def _format_types(types: TypeSet) -> str:
    if not types:
        return "NULL"
    return types[0] if len(types) == 1 else f"[{', '.join(types)}]"


def _describe_leaf(types: TypeSet) -> JsonValue:
    alternatives: list[JsonValue] = [_describe_type(data_type) for data_type in types]
    if not alternatives:
        return {}
    return alternatives[0] if len(alternatives) == 1 else {"oneOf": alternatives}


def _describe_type(data_type: DataType) -> JsonValue:
    json_type, text_format = _JSON_TYPES[data_type]
    return {"type": json_type} if text_format is None else {"type": json_type, "format": text_format}
