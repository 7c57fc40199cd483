"""Reading the members of a definition's objects: names in any case, unknown ones refused, ``null`` like absent.

The wording follows the reader of the public engine (spec/step-engine.md §3.1).
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TypeVar

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.steps.core.texts import json_type, quoted

T = TypeVar("T")


class UnreadableDefinition(Exception):
    """A text that is no definition document at all."""


class Members:
    """The members of one object under their proper names. ``path`` is where the object is, for messages."""

    def __init__(self, value: JsonValue, names: Mapping[str, str], path: str) -> None:
        if not isinstance(value, dict):
            raise _mismatch(value, path or "definition", "object")
        self.path = path
        self._values = _canonical(value, names)

    def get(self, name: str) -> JsonValue:
        """The value, ``None`` when absent."""
        return self._values.get(name)

    def text(self, name: str) -> str:
        """A string, empty when absent."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise _mismatch(value, self.at(name), "string")
        return value

    def flag(self, name: str) -> bool:
        """A boolean, false when absent."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise _mismatch(value, self.at(name), "bool")
        return value

    def whole(self, name: str) -> int:
        """A 64-bit integer, written without point or exponent; 0 when absent."""
        value = self._values.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
            raise _mismatch(value, self.at(name), "int")
        return value

    def object(self, name: str) -> JsonObject:
        """An object of any members, empty when absent."""
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            raise _mismatch(value, self.at(name), "object")
        return value

    def texts_by_name(self, name: str) -> dict[str, str]:
        """An object of strings; ``null`` among them counts as the empty string."""
        return {key: _text(value, f"{self.at(name)}.{key}") for key, value in self.object(name).items()}

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of strings, empty when absent."""
        return tuple(self.each(name, _text))

    def each(self, name: str, read: Callable[[JsonValue, str], T]) -> Iterable[T]:
        """The items of an array, each read from its value and path."""
        value = self._values.get(name, [])
        if not isinstance(value, list):
            raise _mismatch(value, self.at(name), "array")
        return [read(item, f"{self.at(name)}[{index}]") for index, item in enumerate(value)]

    def at(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name


def _canonical(value: JsonObject, names: Mapping[str, str]) -> JsonObject:
    members: JsonObject = {}
    for written, member in value.items():
        name = names.get(written) or names.get(written.lower())
        if name is None:
            raise UnreadableDefinition(f"json: unknown field {quoted(written)}")
        if member is not None:
            members[name] = member
    return members


def spellings(*names: str) -> Mapping[str, str]:
    """The proper names by themselves and by their lower-case forms."""
    return {name.lower(): name for name in names} | {name: name for name in names}


def _text(value: JsonValue, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(value, path, "string")
    return value


def _mismatch(value: JsonValue, path: str, wanted: str) -> UnreadableDefinition:
    found = f"number {value}" if isinstance(value, Decimal) else json_type(value)
    return UnreadableDefinition(f"json: cannot unmarshal {found} into {path} of type {wanted}")
