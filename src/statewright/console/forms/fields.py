"""The fields that a JSON schema asks for.

The document that the fields of a form describe. It is written as text, so that a number keeps its digits.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.jsonval.codec import MalformedJson, decode, encode
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


_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

_Tree: TypeAlias = "dict[str, str | _Tree]"


class Answers(Struct, frozen=True, kw_only=True):
    """What a form says. ``text`` is the document in JSON, ``None`` with errors; ``fields`` hold what was typed, and the
    errors at those that have one.
    """

    text: str | None
    fields: tuple[Field, ...]


class _Refused(Exception):
    """What was typed is not what the field takes; says why."""


def read_answers(fields: Iterable[Field], typed: Mapping[str, str]) -> Answers:
    """The document made of what was typed, by the names of the fields; a field left empty is no member."""
    answered: list[Field] = []
    tree: _Tree = {}
    for field in fields:
        text = typed.get(field.name, "").replace("\r\n", "\n")
        if field.kind == "checkbox":
            text = "true" if field.name in typed else "false"
        try:
            written = _write_answer(field, text)
        except _Refused as refused:
            answered.append(replace(field, value=text, error=str(refused)))
            continue
        answered.append(replace(field, value=text, error=""))
        if written is not None:
            _put(tree, field.name, written)
    is_wrong = any(field.error for field in answered)
    return Answers(text=None if is_wrong else _write_tree(tree), fields=tuple(answered))


def assign_errors(fields: Iterable[Field], errors: Mapping[str, str]) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """The fields with the errors of a validation, by JSON Pointer, at the nearest field; and those that fit nowhere."""
    placed = {field.name: field for field in fields}
    rest: list[str] = []
    for pointer, message in errors.items():
        name = pointer
        while name not in placed and name:
            name = name.rpartition("/")[0]
        if name in placed:
            placed[name] = replace(placed[name], error=message)
        else:
            rest.append(message)
    return tuple(placed.values()), tuple(rest)


def _write_answer(field: Field, text: str) -> str | None:
    """The JSON of an answer; ``None`` for none."""
    if not text.strip() and field.kind != "checkbox":
        if field.is_required:
            raise _Refused("is needed")
        return None
    match field.kind:
        case "number" | "integer":
            return _write_number(text.strip(), field.schema, is_whole=field.kind == "integer")
        case "choice":
            if text not in {value for _, value in field.choices}:
                raise _Refused("is none of the choices")
            return text
        case "checkbox":
            return text
        case "list":
            return _write_list(text, field.schema)
        case "json":
            return _write_json(text)
        case "date" if not _DATE.fullmatch(text.strip()):
            raise _Refused("is a date such as 2031-05-06")
        case "text" | "long" | "date" | "instant":
            return _write_text(text, field.schema)


def _write_number(text: str, schema: JsonObject, *, is_whole: bool) -> str:
    if not (_INTEGER if is_whole else _NUMBER).fullmatch(text):
        raise _Refused("is a whole number, written in digits" if is_whole else "is a number such as 12.50")
    try:
        value = decode(text)
    except MalformedJson as malformed:
        raise _Refused(str(malformed)) from malformed
    number = value if isinstance(value, int | Decimal) else Decimal(0)
    lowest, highest = schema.get("minimum"), schema.get("maximum")
    if isinstance(lowest, int | Decimal) and number < lowest:
        raise _Refused(f"is at least {lowest}")
    if isinstance(highest, int | Decimal) and number > highest:
        raise _Refused(f"is at most {highest}")
    return text


def _write_text(text: str, schema: JsonObject) -> str:
    shortest, longest = schema.get("minLength"), schema.get("maxLength")
    if isinstance(shortest, int) and len(text) < shortest:
        raise _Refused(f"has at least {shortest} characters")
    if isinstance(longest, int) and len(text) > longest:
        raise _Refused(f"has at most {longest} characters")
    return _quote(text)


def _write_list(text: str, schema: JsonObject) -> str:
    items = schema.get("items")
    item = items if isinstance(items, dict) else {}
    lines = [line for line in text.split("\n") if line.strip()]
    if item.get("type") == "string":
        return f"[{','.join(_write_text(line, item) for line in lines)}]"
    is_whole = item.get("type") == "integer"
    return f"[{','.join(_write_number(line.strip(), item, is_whole=is_whole) for line in lines)}]"


def _write_json(text: str) -> str:
    try:
        decode(text)
    except MalformedJson as malformed:
        raise _Refused(f"is no JSON: {malformed}") from malformed
    return text


def _put(tree: _Tree, pointer: str, written: str) -> None:
    """Enters the JSON of a member at its place."""
    if pointer == ROOT:
        tree[_WHOLE] = written
        return
    *outer, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    branch = tree
    for step in outer:
        inner = branch.setdefault(step, {})
        assert isinstance(inner, dict), "a field has no fields below it"  # noqa: S101
        branch = inner
    branch[last] = written


_WHOLE: Final = "\0"
"""The only key of a tree that is one text: no member can have this name."""


def _write_tree(tree: _Tree) -> str:
    whole = tree.get(_WHOLE)
    if isinstance(whole, str):
        return whole
    members = (f"{_quote(name)}:{part if isinstance(part, str) else _write_tree(part)}" for name, part in tree.items())
    return f"{{{','.join(members)}}}"


def _quote(text: JsonValue) -> str:
    return encode(text).decode()
