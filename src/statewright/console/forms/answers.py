"""The document that the fields of a form describe. It is written as text, so that a number keeps its digits."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from statewright.console.forms.fields import ROOT, Field
from statewright.jsonval.codec import MalformedJson, decode, encode
from statewright.jsonval.values import JsonObject, JsonValue

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
