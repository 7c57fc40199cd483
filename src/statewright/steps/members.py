"""Reading the members of a definition's objects: names in any case, unknown ones refused, ``null`` like absent.

The wording follows the reader of the public engine (docs/reference/steps.md#parsing).
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TypeVar

from statewright.jsonval.members import MemberReader, WantedType
from statewright.jsonval.quoting import json_type, quote
from statewright.jsonval.values import JsonObject, JsonValue, member_path

T = TypeVar("T")


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
