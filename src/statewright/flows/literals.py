"""The JSON and YAML in parameters and literals (docs/reference/flows.md#literals)."""

import re
import textwrap
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias, cast

import yaml

from statewright.jsonval.codec import MAX_NESTING, MalformedJson, decode
from statewright.jsonval.values import JsonObject, JsonValue

LiteralValue: TypeAlias = dict[str, JsonValue] | list[JsonValue]

MAX_YAML_VALUES: Final = 100_000
"""Values in a YAML literal."""

MAX_ALIASED_VALUES: Final = 10_000
"""Those of them that stand elsewhere in its text, and are repeated by aliases: few characters can stand for many."""


class BadLiteral(ValueError):
    """Why a body is no value that can be used."""


def read_json(body: str) -> LiteralValue:
    """The value of a JSON body with its brackets. Raises :class:`BadLiteral`."""
    try:
        return _require_container(decode(body))
    except MalformedJson as defect:
        raise BadLiteral(str(defect)) from defect


def read_yaml(body: str) -> LiteralValue:
    """The value of a YAML body as it stands: one document; nothing is ``{}``. Raises :class:`BadLiteral`."""
    value = _load(body) if body.strip() else None
    return {} if value is None else _require_container(value)


def read_stored_yaml(body: str) -> LiteralValue:
    """The same, in a text that was stored when white space around a body did not count: what only that made valid goes
    on to be.
    """
    try:
        return read_yaml(body)
    except BadLiteral:
        try:
            return read_yaml(body.strip())
        except BadLiteral:
            return read_yaml(textwrap.dedent(body).strip())


def read_yaml_documents(text: str) -> list[JsonValue]:
    """The values of all documents of a text; an empty one is ``{}``. Raises :class:`BadLiteral`."""
    builder = _Builder()
    try:
        found = [builder.build(node) for node in yaml.compose_all(text, Loader=_Loader)]
    except yaml.YAMLError as defect:
        raise BadLiteral(_describe(defect)) from defect
    except (RecursionError, UnicodeError) as defect:
        raise BadLiteral("nested too deeply" if isinstance(defect, RecursionError) else str(defect)) from defect
    return [{} if value is None else value for value in found] or [{}]


def _require_container(value: JsonValue) -> LiteralValue:
    if isinstance(value, dict | list):
        return value
    raise BadLiteral("an object or an array is expected, not a scalar")


def _load(text: str) -> JsonValue:
    try:
        node = yaml.compose(text, Loader=_Loader)
        return None if node is None else _Builder().build(node)
    except yaml.YAMLError as defect:
        raise BadLiteral(_describe(defect)) from defect
    except (RecursionError, UnicodeError) as defect:
        raise BadLiteral("nested too deeply" if isinstance(defect, RecursionError) else str(defect)) from defect


def _describe(defect: yaml.YAMLError) -> str:
    problem = getattr(defect, "problem", None) or str(defect)
    return " ".join(str(problem).split())


class _Loader(yaml.SafeLoader):
    """Reads the core schema: null, booleans, numbers; dates and the like are texts."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.removeprefix("tag:yaml.org,2002:") in ("null", "bool", "int", "float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _JSON_NUMBER, list("-0123456789"))  # YAML 1.1 has no 1e3
_WORDS: Final[dict[str, JsonValue]] = {"true": True, "false": False}


class _Builder:
    """Makes values of the nodes of one document, within a budget that aliases cannot get around."""

    def __init__(self) -> None:
        self._left = MAX_YAML_VALUES
        self._aliased_left = MAX_ALIASED_VALUES
        self._seen: set[int] = set()
        self._open: set[int] = set()

    def build(self, node: yaml.Node) -> JsonValue:
        self._left -= 1
        if self._left < 0:
            raise BadLiteral(f"more than {MAX_YAML_VALUES} values")
        if id(node) in self._seen:
            self._aliased_left -= 1
            if self._aliased_left < 0:
                raise BadLiteral(f"aliases repeat more than {MAX_ALIASED_VALUES} values")
        self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return _read_scalar(node)
        if id(node) in self._open or len(self._open) >= MAX_NESTING:
            raise BadLiteral("nested too deeply")
        if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise BadLiteral(f"tag {node.tag} is not supported")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item) for item in node.value]
            return self._build_object(cast("yaml.MappingNode", node))
        finally:
            self._open.discard(id(node))

    def _build_object(self, node: yaml.MappingNode) -> JsonObject:
        members: JsonObject = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise BadLiteral("a key must be a scalar")
            if key.value in members:
                raise BadLiteral(f"duplicate key {key.value!r}")
            members[_check_text(key.value)] = self.build(value)
        return members


def _read_scalar(node: yaml.ScalarNode) -> JsonValue:
    text = node.value
    match node.tag.removeprefix("tag:yaml.org,2002:"):
        case "null":
            return None
        case "bool" if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        case "int" | "float":
            return _read_number(text)
        case "str" | "bool" | "timestamp" | "binary":
            return _check_text(text)
        case tag:
            raise BadLiteral(f"tag {tag} is not supported")


def _read_number(text: str) -> JsonValue:
    """Numbers as JSON knows them; what only YAML takes for one is its text."""
    plain = text.replace("_", "").removeprefix("+")
    for prefix, base in (("0x", 16), ("0o", 8)):
        if plain.startswith(prefix):
            try:
                return decode(str(int(plain.removeprefix(prefix), base)))
            except ValueError:  # none at all, or one of thousands of digits
                return text
    if plain.startswith("."):
        plain = f"0{plain}"
    try:
        number = Decimal(plain)
    except InvalidOperation:
        return text
    if not number.is_finite():
        return text
    try:
        return decode(plain.lower() if plain.lstrip("-").isdigit() else str(number))
    except MalformedJson:
        return text


def _check_text(text: str) -> str:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise BadLiteral("a text has a character that cannot be stored")
    return text
