"""Values written in the text of a flow, as JSON or YAML (docs/reference/flows.md#values-in-the-text)."""

import json
import re
from textwrap import dedent
from typing import Final

import yaml

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue

MAX_VALUES: Final = 100_000
"""Values in one YAML document, whose aliases can repeat what is written once."""

MAX_DEPTH: Final = 64

_SCANNER: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_NUMBER: Final = re.compile(r"([-+]?)0*([0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_CONSTANTS: Final[dict[str, JsonValue]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final = frozenset({f"{_TAG}{name}" for name in ("str", "seq", "map", "int", "float", "bool", "null")})


class MalformedLiteral(ValueError):
    """A literal that is no object or array, or no JSON or YAML at all; the text says why."""


def find_json_end(text: str, start: int) -> int:
    """The place behind the JSON value that begins at ``start``. Raises :class:`MalformedLiteral`."""
    try:
        _, end = _SCANNER.raw_decode(text, start)
    except RecursionError as malformed:
        raise MalformedLiteral("invalid JSON: too many nested values") from malformed
    except json.JSONDecodeError as malformed:
        raise MalformedLiteral(f"invalid JSON: {malformed.msg}") from malformed
    return end


def read_json(text: str) -> JsonValue:
    """An object or array. Raises :class:`MalformedLiteral`."""
    try:
        return _require_container(decode(text))
    except MalformedJson as malformed:
        raise MalformedLiteral(f"invalid JSON: {malformed}") from malformed


def read_yaml(text: str) -> JsonValue:
    """The object or array of a YAML document of the JSON schema: dates and other scalars that JSON lacks are their
    text. An empty document is ``{}``. Raises :class:`MalformedLiteral`.
    """
    written = text.strip()
    try:
        value = _compose(written)
    except yaml.YAMLError as malformed:
        if not text.lstrip(" \t").startswith(("\n", "\r")):
            raise MalformedLiteral(_describe(malformed)) from malformed
        try:
            value = _compose(dedent(text.lstrip(" \t")))
        except yaml.YAMLError:
            raise MalformedLiteral(_describe(malformed)) from malformed
    return {} if value is None else _require_container(value)


def _compose(text: str) -> JsonValue:
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
        return None if node is None else _Reader().read(node, 0)
    except RecursionError as malformed:
        raise MalformedLiteral(f"more than {MAX_DEPTH} nested values") from malformed


class _Reader:
    """Makes values of nodes, and counts them."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, node: yaml.Node, depth: int) -> JsonValue:
        """The value. Raises :class:`MalformedLiteral`."""
        self._count += 1
        if self._count > MAX_VALUES:
            raise MalformedLiteral(f"more than {MAX_VALUES} values")
        if depth > MAX_DEPTH:
            raise MalformedLiteral(f"more than {MAX_DEPTH} nested values")
        if node.tag not in _TAGS:
            raise MalformedLiteral(f"tag {node.tag} is not supported")
        if isinstance(node, yaml.SequenceNode):
            return [self.read(each, depth + 1) for each in node.value]
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, depth)
        return _read_scalar(str(node.value), is_plain=isinstance(node, yaml.ScalarNode) and node.style is None)

    def _read_mapping(self, node: yaml.MappingNode, depth: int) -> JsonObject:
        members: JsonObject = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise MalformedLiteral("a key must be a word")
            if key.value in members:
                raise MalformedLiteral(f"key {key.value!r} is given more than once")
            members[str(key.value)] = self.read(value, depth + 1)
        return members


def _read_scalar(text: str, *, is_plain: bool) -> JsonValue:
    if "\0" in text:
        raise MalformedLiteral("a text must not contain NUL")
    if not is_plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number is None or not any(map(str.isdigit, text)) or text[:1] in "eE":
        return text
    sign, whole, fraction, exponent = number.groups(default="")
    if not (whole or fraction.strip(".") or text.strip("+-")[:1] == "0"):
        return text
    digits = f"{sign.strip('+')}{whole or '0'}{fraction if len(fraction) > 1 else ''}{exponent}"
    try:
        return decode(digits)
    except MalformedJson as malformed:
        raise MalformedLiteral(str(malformed)) from malformed


def _require_container(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict | list):
        raise MalformedLiteral("a value must be an object or an array")
    return value


def _describe(malformed: yaml.YAMLError) -> str:
    return f"invalid YAML: {' '.join(str(malformed).split())[:200]}"
