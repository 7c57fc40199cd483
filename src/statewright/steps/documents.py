"""Decoding a definition from what was uploaded (docs/reference/steps.md#parsing,
docs/reference/steps.md#rules-for-tables).

Reading the members of a definition's objects: names in any case, unknown ones refused, ``null`` like absent.

The wording follows the reader of the public engine (docs/reference/steps.md#parsing).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from statewright.jsonval.codec import MalformedJson, decode
from statewright.jsonval.values import (
    JsonObject,
    JsonValue,
    MemberReader,
    WantedType,
    json_type,
    member_path,
    quote,
    tidy_numbers,
)
from statewright.steps.definition import BoundaryEvent, DecisionTable, Definition, Rule, Step

T = TypeVar("T")
StructT = TypeVar("StructT", bound=Struct)


class UnreadableDefinition(Exception):
    """A text that is no definition document at all."""


class DefinitionMembers(MemberReader):
    """The members of one object under their proper names. ``path`` is where the object is, for messages."""

    def __init__(self, value: JsonValue, names: Mapping[str, str], path: str) -> None:
        if not isinstance(value, dict):
            raise _mismatch(value, path or "definition", "object")
        self.path = path
        self._values = _canonicalize(value, names)

    def get(self, name: str) -> JsonValue:
        return self._values.get(name)

    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> UnreadableDefinition:
        return _mismatch(value, self.path_of(name), wanted)

    def texts_by_name(self, name: str) -> dict[str, str]:
        """An object of strings; ``null`` among them counts as the empty string."""
        return {
            key: _read_text(value, f"{self.path_of(name)}.{key}") for key, value in (self.object(name) or {}).items()
        }

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of strings, empty when absent."""
        return tuple(self.read_each(name, _read_text))

    def read_each(self, name: str, read: Callable[[JsonValue, str], T]) -> Iterable[T]:
        """The items of an array, each read from its value and path."""
        return [read(item, f"{self.path_of(name)}[{index}]") for index, item in enumerate(self.array(name))]

    def path_of(self, name: str) -> str:
        """The path of a member."""
        return member_path(self.path, name)


def _canonicalize(value: JsonObject, names: Mapping[str, str]) -> JsonObject:
    members: JsonObject = {}
    for written, member in value.items():
        name = names.get(written) or names.get(written.lower())
        if name is None:
            raise UnreadableDefinition(f"json: unknown field {quote(written)}")
        if member is not None:
            members[name] = member
    return members


def map_spellings(*names: str) -> Mapping[str, str]:
    """The proper names by themselves and by their lower-case forms."""
    return {name.lower(): name for name in names} | {name: name for name in names}


def _read_text(value: JsonValue, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(value, path, "string")
    return value


def _mismatch(value: JsonValue, path: str, wanted: WantedType) -> UnreadableDefinition:
    found = f"number {value}" if isinstance(value, Decimal) else json_type(value)
    return UnreadableDefinition(f"json: cannot unmarshal {found} into {path} of type {wanted}")


def read_definition(raw: bytes | str) -> Definition:
    """The definition in a text; what follows its first JSON value is ignored. Raises :class:`UnreadableDefinition`."""
    return definition_from_document(_decode_first_value(raw))


def definition_from_document(value: JsonValue) -> Definition:
    """The definition in a JSON value. Raises :class:`UnreadableDefinition`."""
    if isinstance(value, dict) and "$schema" in value:  # for editors
        value = {name: member for name, member in value.items() if name != "$schema"}
    members = DefinitionMembers({} if value is None else value, _SPELLINGS[Definition], "")
    members.integer("version")  # may be sent back as it was read; it is not the author's to choose
    return _read_members(Definition, members)


def _read_struct(kind: type[StructT]) -> Callable[[JsonValue, str], StructT]:
    """From a value and its path to what its members say."""
    return lambda value, path: _read_members(
        kind, DefinitionMembers({} if value is None else value, _SPELLINGS[kind], path)
    )


def _read_members(kind: type[StructT], members: DefinitionMembers) -> StructT:
    """Every field by its own reader, else as the type of its default says."""
    read: dict[str, Any] = {}  # what a reader gives is of the type of the field
    for field, name, default in zip(
        kind.__struct_fields__, kind.__struct_encode_fields__, kind.__struct_defaults__, strict=True
    ):
        read[field] = (_READERS.get(name) or _READERS_BY_TYPE[type(default)])(members, name)
    return kind(**read)


def _read_decision_table(step: DefinitionMembers, name: str) -> DecisionTable | None:
    value, step_id = step.get(name), step.text("id")
    if value is None:
        return None
    members = DefinitionMembers(value, _SPELLINGS[DecisionTable], step.path_of(name))
    if members.get("defaultNextStep") is not None:
        raise _build_unsupported_error(step_id, f"{name}.defaultNextStep")
    rules = list(members.read_each("rules", _read_rule))
    for index, rule in enumerate(rules):
        if rule.get("then") is not None:
            raise _build_unsupported_error(step_id, f"{name}.rules[{index}].then")
    return DecisionTable(rules=tuple(_read_members(Rule, rule) for rule in rules))


def _read_rule(value: JsonValue, path: str) -> DefinitionMembers:
    return DefinitionMembers({} if value is None else value, _SPELLINGS[Rule], path)


MemberOf: TypeAlias = Callable[[DefinitionMembers, str], object]
"""Reads a member by its name."""

_READERS: Final[Mapping[str, MemberOf]] = {
    "steps": lambda members, name: tuple(members.read_each(name, _read_struct(Step))),
    "metadata": lambda members, name: members.object(name) or None,
    "parallelNextSteps": DefinitionMembers.texts,
    "conditionalNextSteps": DefinitionMembers.texts_by_name,
    "transformations": lambda members, name: tidy_numbers(members.object(name) or {}),
    "boundaryEvents": lambda members, name: tuple(members.read_each(name, _read_struct(BoundaryEvent))),
    "decisionTable": _read_decision_table,
    "when": DefinitionMembers.texts_by_name,
    "outputs": lambda members, name: tidy_numbers(members.object(name) or {}),
}
_READERS_BY_TYPE: Final[Mapping[type, MemberOf]] = {
    str: DefinitionMembers.text,
    bool: lambda members, name: members.flag(name) or False,
    int: lambda members, name: members.integer(name) or 0,
}
_OTHERS: Final[Mapping[type[Struct], tuple[str, ...]]] = {
    Definition: ("version",),
    Step: (),
    BoundaryEvent: (),
    DecisionTable: ("defaultNextStep",),
    Rule: ("then",),
}
"""What is no member, but looked at."""
_SPELLINGS: Final = {kind: map_spellings(*kind.__struct_encode_fields__, *others) for kind, others in _OTHERS.items()}


def _build_unsupported_error(step_id: str, member: str) -> UnreadableDefinition:
    return UnreadableDefinition(
        f"step {quote(step_id)}: {member} is no longer supported; "
        "let rules produce outputs and route with a DECISION step"
    )


def _decode_first_value(raw: bytes | str) -> JsonValue:
    try:
        return decode(raw)
    except MalformedJson as defect:
        if not raw.strip():
            raise UnreadableDefinition("EOF") from None
        first = _cut_trailing_text(raw) if defect.reason.startswith("Extra data") else None
        if first is None:
            raise UnreadableDefinition(f"json: {defect}") from None
    try:
        return decode(first)
    except MalformedJson as defect:
        raise UnreadableDefinition(f"json: {defect}") from None


def _forget(_: object) -> None:
    """In the place of an object: nothing has to be freed in the end, and other threads get their turn."""


_SKIPPER: Final = json.JSONDecoder(object_pairs_hook=_forget)


def _cut_trailing_text(raw: bytes | str) -> str | None:
    """The text of the first JSON value, when something follows it."""
    try:
        text = (raw if isinstance(raw, str) else raw.decode()).lstrip(" \t\r\n")
        _, end = _SKIPPER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return text[:end] if text[end:].strip() else None


# Definitions as documents, in the order of the author's members (docs/reference/steps.md#versions).
#
# The order of ``conditionalNextSteps``, ``transformations`` and table cells means something, so the stored form is a
# text: ``jsonb`` would re-order it.

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def definition_to_document(definition: Definition, version: int | None = None) -> JsonObject:
    """The definition as clients read it: empty optional members omitted, ``version`` after ``id`` when given."""
    members: JsonObject = {"id": definition.id, "version": version, **_write_members(definition)}
    return {name: value for name, value in members.items() if value}


def definition_to_text(definition: Definition) -> str:
    """The text to store; :func:`read_definition` reads it back unchanged."""
    return encode_document(definition_to_document(definition))


def encode_document(document: JsonObject) -> str:
    """Compact JSON that keeps the order of members."""
    return _ENCODER.encode(document).decode()


def _write_members(struct: Struct) -> JsonObject:
    """The members that are not empty: neither ``false`` nor ``""`` nor 0 nor without content."""
    written: JsonObject = {}
    for field, name in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        value = getattr(struct, field)
        if value or name in _ALWAYS_WRITTEN:
            written[name] = _write_value(value)
    return written


def _write_value(value: Any) -> JsonValue:  # Any: of a field of a definition
    if isinstance(value, Struct):
        return _write_members(value)
    if isinstance(value, tuple):
        return [_write_value(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


_ALWAYS_WRITTEN: Final = frozenset({"interrupting", "rules"})
