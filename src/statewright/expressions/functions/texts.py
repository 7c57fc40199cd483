"""Functions on strings. Positions and lengths count characters."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from statewright.evaluation.costs import (
    Cost,
    Entry,
    charge_nothing,
)
from statewright.evaluation.values import (
    charge_end,
    charge_json,
    charge_search,
    charge_search_backwards,
    charge_split,
    charge_strip,
    charge_text,
    count_chars,
)
from statewright.expressions.frames import Frame, change_case, list_items, wrap_unary
from statewright.expressions.values import (
    ExpressionError,
    Map,
    Value,
    argument_error,
    as_int,
    as_items,
    as_text,
    format_value,
    lift_value,
    lower_value,
    type_name,
)
from statewright.jsonval.codec import MalformedJson, decode, encode

_MAX_REPEAT: Final = 1_000_000
"""Times that ``repeat`` may repeat a text."""

_INDENT: Final = 2
"""Characters at the beginning of a line of JSON, for each level."""


def _length(value: Value) -> Value:
    if isinstance(value, str | list | tuple | dict):
        return len(value)
    if isinstance(value, Map):
        return len(value.entries)
    raise ExpressionError(f"invalid argument for len (type {type_name(value)})")


def _upper(value: Value) -> str:
    return as_text(value, "upper").upper()


def _lower(value: Value) -> str:
    return as_text(value, "lower").lower()


def _trim(_: Frame, arguments: tuple[Value, ...]) -> Value:
    text, *characters = _require_texts("trim", arguments)
    return text.strip(*characters)


def _make_part_function(name: str, apply: Callable[[str, str], Value], cost: Cost) -> Entry:
    """A function of a text and a part of it, which is a blank where it may be left out."""

    def function(_: Frame, arguments: tuple[Value, ...]) -> Value:
        text, part = _require_texts(name, (*arguments, " ")[:2])
        return apply(text, part)

    return Entry(function, cost)


def _split(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    text, separator = _require_texts("split", arguments[:2])
    parts = _split_parts(text, separator, _read_count(arguments, 2))
    frame.spend(len(parts))
    return tuple(parts)


def _split_after(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    text, separator = _require_texts("splitAfter", arguments[:2])
    parts = _split_parts(text, separator, _read_count(arguments, 2))
    frame.spend(len(parts))
    return (*(part + separator for part in parts[:-1]), *parts[-1:])


def _split_parts(text: str, separator: str, most: int) -> list[str]:
    """At most ``most`` parts, the last one with the rest of the text; any number of parts when ``most`` is negative."""
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    return list(text) if most < 0 or len(text) <= most else [*text[: most - 1], text[most - 1 :]]


def _replace(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    text, old, new = _require_texts("replace", arguments[:3])
    most = _read_count(arguments, 3)
    occurrences = text.count(old) if most < 0 else min(most, text.count(old))
    frame.spend(occurrences * len(new))
    return text.replace(old, new, most)


def _repeat(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    text, count = as_text(arguments[0], "repeat"), as_int(arguments[1])
    if count < 0:
        raise ExpressionError(f"invalid argument for repeat (expected positive integer, got {count})")
    frame.spend(min(count, _MAX_REPEAT + 1) * max(len(text), 1))
    return text * count


def _join(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    elements = as_items(arguments[0])
    if elements is None:
        raise ExpressionError(f"invalid argument for join (type {type_name(arguments[0])})")
    texts = _require_texts("join", elements)
    glue = as_text(arguments[1], "join") if len(arguments) == 2 else ""
    frame.spend(sum(map(len, texts)) + len(glue) * len(texts))
    return glue.join(texts)


def _to_json(frame: Frame, arguments: tuple[Value, ...]) -> Value:
    frame.visit(arguments[0], per_level=_INDENT)
    return frame.charge_text(_write_json(arguments[0]))


def _write_json(value: Value) -> str:
    return msgspec.json.format(encode(lower_value(value)), indent=_INDENT).decode()


def _from_json(value: Value) -> Value:
    try:
        return lift_value(decode(as_text(value, "fromJSON")))
    except MalformedJson as defect:
        raise ExpressionError(f"fromJSON: {defect}") from None


def _to_base64(value: Value) -> str:
    return base64.b64encode(as_text(value, "toBase64").encode()).decode()


def _from_base64(value: Value) -> str:
    try:
        return base64.b64decode(as_text(value, "fromBase64"), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError) as defect:
        raise ExpressionError(f"fromBase64: {defect}") from None


def _make_text_function(apply: Callable[[Value], str], cost: Cost = charge_nothing) -> Entry:
    """A function of one argument that gives a text; the whole argument is accounted for as visited, beside ``cost``,
    which takes that argument.
    """

    def function(frame: Frame, arguments: tuple[Value, ...]) -> Value:
        frame.visit(arguments[0])
        return frame.charge_text(apply(arguments[0]))

    return Entry(function, cost)


def _cut(text: Value, separator: Value, *_: Value) -> int:
    if count_chars(separator):
        return 2 * charge_split(text, separator)
    return 1 + count_chars(text) // _SINGLE_CHARS_PER_STEP


_SINGLE_CHARS_PER_STEP: Final = 3
"""Texts of one character that are made in a step."""


def _encode(value: Value) -> int:
    return 2 * charge_text(value)


def _require_texts(name: str, arguments: tuple[Value, ...]) -> list[str]:
    for argument in arguments:
        if not isinstance(argument, str):
            raise argument_error(argument, "string", name)
    return [argument for argument in arguments if isinstance(argument, str)]


def _read_count(arguments: tuple[Value, ...], position: int) -> int:
    return as_int(arguments[position]) if len(arguments) > position else -1


FUNCTIONS: Final[Mapping[str, Entry]] = {
    "len": wrap_unary(_length),
    "string": _make_text_function(format_value),
    "upper": _make_text_function(_upper, change_case),
    "lower": _make_text_function(_lower, change_case),
    "trim": Entry(_trim, charge_strip),
    "trimPrefix": _make_part_function("trimPrefix", str.removeprefix, charge_text),
    "trimSuffix": _make_part_function("trimSuffix", str.removesuffix, charge_text),
    "split": Entry(_split, _cut),
    "splitAfter": Entry(_split_after, _cut),
    "replace": Entry(_replace, _cut),
    "repeat": Entry(_repeat, charge_nothing),
    "join": Entry(_join, list_items),
    "indexOf": _make_part_function("indexOf", str.find, charge_search),
    "lastIndexOf": _make_part_function("lastIndexOf", str.rfind, charge_search_backwards),
    "hasPrefix": _make_part_function("hasPrefix", str.startswith, charge_end),
    "hasSuffix": _make_part_function("hasSuffix", str.endswith, charge_end),
    "toJSON": Entry(_to_json, charge_nothing),
    "fromJSON": wrap_unary(_from_json, charge_json),
    "toBase64": _make_text_function(_to_base64, _encode),
    "fromBase64": _make_text_function(_from_base64, _encode),
}
