"""Reading a JSON object member by member, so that the reader is the list of known members.

Every member is asked for once, under its name and type; whatever nobody asked for is unknown. That serves both import
contracts with one reader: the strict one refuses unknown members, the other ignores them. ``null`` counts as absent,
except where a caller asks whether a member is there (:meth:`Members.has`).
"""

from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from statewright.failures import BadRequest
from statewright.jsonval.paths import item_path, member_path
from statewright.jsonval.values import JsonValue

T = TypeVar("T")

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Members:
    """The members of one JSON object of a request.

    ``path`` says where it stands, ``workflows[0]``; empty for the document itself. Refuses unknown members, and those
    of the objects within, until told otherwise.
    """

    def __init__(self, value: JsonValue, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong_type(path, "an object", value)
        self.path = path
        self._values = value
        self._asked: set[str] = set()
        self._closed = True

    def ignore_unknown(self) -> None:
        """From here on unknown members are ignored, in this object and in those read from it later."""
        self._closed = False

    def has(self, name: str) -> bool:
        """Whether the member is there, ``null`` included."""
        self._asked.add(name)
        return name in self._values

    def opaque(self, name: str) -> JsonValue:
        """Any JSON, as it is."""
        self._asked.add(name)
        return self._values.get(name)

    def text(self, name: str) -> str:
        """A string; empty when absent."""
        value = self.opaque(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise _wrong_type(member_path(self.path, name), "a string", value)
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean; ``None`` when absent."""
        value = self.opaque(name)
        if value is not None and not isinstance(value, bool):
            raise _wrong_type(member_path(self.path, name), "a boolean", value)
        return value

    def whole(self, name: str) -> int | None:
        """A signed 64-bit integer; ``None`` when absent."""
        value = self.opaque(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not _INT64_MIN <= value <= _INT64_MAX:
            raise _wrong_type(member_path(self.path, name), "a 64-bit integer", value)
        return value

    def one(self, name: str, read: Callable[["Members"], T]) -> T | None:
        """An object, as ``read`` makes it; ``None`` when absent."""
        value = self.opaque(name)
        return None if value is None else self._read(value, member_path(self.path, name), read)

    def each(self, name: str, read: Callable[["Members"], T]) -> tuple[T, ...]:
        """An array of objects, each as ``read`` makes it; empty when absent."""
        value = self.opaque(name)
        if value is None:
            return ()
        path = member_path(self.path, name)
        if not isinstance(value, list):
            raise _wrong_type(path, "an array", value)
        return tuple(self._read(item, item_path(path, index), read) for index, item in enumerate(value))

    def by_key(self, name: str, read: Callable[["Members"], T]) -> dict[str, T]:
        """An object of objects, each as ``read`` makes it, in order of the keys; ``null`` inside is an empty object."""
        value = self.opaque(name)
        if value is None:
            return {}
        path = member_path(self.path, name)
        if not isinstance(value, dict):
            raise _wrong_type(path, "an object", value)
        return {key: self._read(_filled(value[key]), member_path(path, key), read) for key in sorted(value)}

    def _read(self, value: JsonValue, path: str, read: Callable[["Members"], T]) -> T:
        inner = Members(value, path)
        inner._closed = self._closed
        return inner.read_by(read)

    def read_by(self, read: Callable[["Members"], T]) -> T:
        """What ``read`` makes of this object, once every member it did not ask for was refused or ignored."""
        result = read(self)
        unknown = next((name for name in self._values if name not in self._asked), None)
        if self._closed and unknown is not None:
            raise BadRequest(f'invalid JSON: json: unknown field "{unknown}"{_at(self.path)}')
        return result


def _filled(value: JsonValue) -> JsonValue:
    return {} if value is None else value


def _wrong_type(path: str, expected: str, value: JsonValue) -> BadRequest:
    return BadRequest(f"invalid JSON: expected {expected}, got {_described(value)}{_at(path)}")


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _described(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | Decimal():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
