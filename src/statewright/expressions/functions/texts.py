"""Functions on strings. Positions and lengths count characters."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from statewright.expressions.frames import BuiltinFunction, Frame, wrap_unary
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


def _trim_prefix(_: Frame, arguments: tuple[Value, ...]) -> Value:
    text, prefix = _require_texts("trimPrefix", (*arguments, " ")[:2])
    return text.removeprefix(prefix)


def _trim_suffix(_: Frame, arguments: tuple[Value, ...]) -> Value:
    text, suffix = _require_texts("trimSuffix", (*arguments, " ")[:2])
    return text.removesuffix(suffix)


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
    characters = list(text)
    return characters if most < 0 or len(characters) <= most else [*characters[: most - 1], text[most - 1 :]]


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


def _index_of(_: Frame, arguments: tuple[Value, ...]) -> Value:
    text, part = _require_texts("indexOf", arguments)
    return text.find(part)


def _last_index_of(_: Frame, arguments: tuple[Value, ...]) -> Value:
    text, part = _require_texts("lastIndexOf", arguments)
    return text.rfind(part)


def _has_prefix(_: Frame, arguments: tuple[Value, ...]) -> Value:
    text, prefix = _require_texts("hasPrefix", arguments)
    return text.startswith(prefix)


def _has_suffix(_: Frame, arguments: tuple[Value, ...]) -> Value:
    text, suffix = _require_texts("hasSuffix", arguments)
    return text.endswith(suffix)


def _to_json(value: Value) -> str:
    return msgspec.json.format(encode(lower_value(value)), indent=2).decode()


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


def _make_text_function(apply: Callable[[Value], str]) -> BuiltinFunction:
    """A function of one argument that gives a text; the whole argument is accounted for as visited."""

    def function(frame: Frame, arguments: tuple[Value, ...]) -> Value:
        frame.visit(arguments[0])
        return frame.charge_text(apply(arguments[0]))

    return function


def _require_texts(name: str, arguments: tuple[Value, ...]) -> list[str]:
    for argument in arguments:
        if not isinstance(argument, str):
            raise argument_error(argument, "string", name)
    return [argument for argument in arguments if isinstance(argument, str)]


def _read_count(arguments: tuple[Value, ...], position: int) -> int:
    return as_int(arguments[position]) if len(arguments) > position else -1


FUNCTIONS: Final[Mapping[str, BuiltinFunction]] = {
    "len": wrap_unary(_length),
    "string": _make_text_function(format_value),
    "upper": _make_text_function(_upper),
    "lower": _make_text_function(_lower),
    "trim": _trim,
    "trimPrefix": _trim_prefix,
    "trimSuffix": _trim_suffix,
    "split": _split,
    "splitAfter": _split_after,
    "replace": _replace,
    "repeat": _repeat,
    "join": _join,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "hasPrefix": _has_prefix,
    "hasSuffix": _has_suffix,
    "toJSON": _make_text_function(_to_json),
    "fromJSON": wrap_unary(_from_json),
    "toBase64": _make_text_function(_to_base64),
    "fromBase64": _make_text_function(_from_base64),
}
