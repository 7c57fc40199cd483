"""The fields that a JSON schema asks for."""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject, JsonValue

FieldKind: TypeAlias = Literal[
    "text", "long", "number", "integer", "date", "instant", "choice", "checkbox", "list", "json"
]
"""``long`` is a text of several lines, ``list`` one item a line. Numbers are typed as texts: browsers would round."""

MAX_DEPTH: Final = 3
"""Objects within objects that become fields; deeper ones are typed as JSON."""
MAX_FIELDS: Final = 200
LONG_TEXT_CHARS: Final = 200
ROOT: Final = ""

_FORMATS: Final[Mapping[str, FieldKind]] = {"date": "date", "date-time": "instant"}
_COMBINING: Final = frozenset(("oneOf", "anyOf", "allOf", "not", "if", "$ref", "patternProperties", "prefixItems"))


class Field(Struct, frozen=True, kw_only=True):
    """A field of a form. ``name`` is the JSON Pointer of what it fills, ``value`` the text in it.

    ``choices`` are texts with the JSON that they stand for. ``items`` is the schema of the items of a list.
    """

    name: str
    label: str
    kind: FieldKind
    is_required: bool = False
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    value: str = ""
    error: str = ""
    schema: JsonObject = {}

    @property
    def input_id(self) -> str:
        """An id for the page, whatever the name says: letters, digits and signs that cannot be mistaken."""
        return "field" + "".join(
            each if each.isascii() and each.isalnum() else f"_{ord(each):x}_" for each in self.name
        )


def build_fields(schema: JsonValue, document: JsonValue = None) -> tuple[Field, ...]:
    """The fields for a schema, filled from a document. One field for JSON where the schema is not one of an object with
    named members, or asks for too many.
    """
    if not isinstance(schema, dict) or not _is_simple_object(schema):
        return (build_json_field(document),)
    fields = tuple(_list_fields(schema, document, ROOT, "", 0))
    return fields if 0 < len(fields) <= MAX_FIELDS else (build_json_field(document),)


def build_json_field(document: JsonValue) -> Field:
    """The field for a whole document."""
    return Field(name=ROOT, label="JSON", kind="json", is_required=True, value=_show_json(document))


def _is_simple_object(schema: JsonObject) -> bool:
    return (
        schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not schema.keys() & _COMBINING
    )


def _list_fields(schema: JsonObject, document: JsonValue, path: str, title: str, depth: int) -> Iterator[Field]:
    properties = schema.get("properties")
    required = schema.get("required")
    needed = (
        frozenset(each for each in required if isinstance(each, str)) if isinstance(required, list) else frozenset()
    )
    for name, each in properties.items() if isinstance(properties, dict) else ():
        member = each if isinstance(each, dict) else {}
        value = document.get(name) if isinstance(document, dict) else None
        place = f"{path}/{escape_pointer(name)}"
        label = _read_title(member) or name
        whole = f"{title} › {label}" if title else label
        if _is_simple_object(member) and depth + 1 < MAX_DEPTH:
            yield from _list_fields(member, value, place, whole, depth + 1)
        else:
            yield _build_field(member, value, place, whole, is_required=name in needed)


def escape_pointer(name: str) -> str:
    """A name as a step of a JSON Pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _read_title(schema: JsonObject) -> str:
    title = schema.get("title")
    return title if isinstance(title, str) else ""


def _build_field(schema: JsonObject, value: JsonValue, name: str, label: str, *, is_required: bool) -> Field:
    kind = _choose_kind(schema)
    description = schema.get("description")
    shown = schema.get("default") if value is None else value
    field = Field(
        name=name,
        label=label,
        kind=kind,
        is_required=is_required,
        hint=description if isinstance(description, str) else "",
        choices=_list_choices(schema) if kind == "choice" else (),
        schema=schema,
    )
    return replace(field, value=_show_value(kind, shown))


def _choose_kind(schema: JsonObject) -> FieldKind:
    kind, choices = schema.get("type"), schema.get("enum")
    if schema.keys() & _COMBINING:
        return "json"
    if isinstance(choices, list) and choices and not any(isinstance(each, dict | list) for each in choices):
        return "choice"
    match kind:
        case "string":
            return _choose_text_kind(schema)
        case "number" | "integer":
            return "number" if kind == "number" else "integer"
        case "boolean":
            return "checkbox"
        case "array" if _has_scalar_items(schema):
            return "list"
        case _:
            return "json"


def _choose_text_kind(schema: JsonObject) -> FieldKind:
    form, longest = schema.get("format"), schema.get("maxLength")
    if isinstance(form, str) and form in _FORMATS:
        return _FORMATS[form]
    return "long" if isinstance(longest, int) and longest > LONG_TEXT_CHARS else "text"


def _has_scalar_items(schema: JsonObject) -> bool:
    items = schema.get("items")
    return (
        isinstance(items, dict)
        and items.get("type") in ("string", "number", "integer")
        and not items.keys() & _COMBINING
    )


def _list_choices(schema: JsonObject) -> tuple[tuple[str, str], ...]:
    choices = schema.get("enum")
    listed = choices if isinstance(choices, list) else []
    return tuple((each if isinstance(each, str) else _show_json(each), _show_json(each)) for each in listed)


def _show_value(kind: FieldKind, value: JsonValue) -> str:
    """A value as the text of its field: exact, and a text for ``choice`` as JSON, by which options are told apart."""
    if value is None:
        return ""
    if kind == "list" and isinstance(value, list):
        return "\n".join(each if isinstance(each, str) else _show_json(each) for each in value)
    if kind in ("choice", "json") or not isinstance(value, str):
        return _show_json(value)
    return value


def _show_json(value: JsonValue) -> str:
    return encode(value).decode()
