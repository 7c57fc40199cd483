"""Reading the members of a JSON object by name and type."""

from abc import ABC, abstractmethod
from typing import Final, Literal

from statewright.jsonval.values import JsonObject, JsonValue

WantedType = Literal["string", "bool", "int", "array", "object"]

INT64_LIMIT: Final = 2**63


class MemberReader(ABC):
    """The members of one object, each read as the type that is expected of it; ``null`` counts as absent.

    How a member is found (in which spellings, and whether others may be there) and how a wrong type is refused differs
    between the kinds of documents, so each has a reader of its own, derived from this one.
    """

    __slots__ = ()

    @abstractmethod
    def get(self, name: str) -> JsonValue:
        """The member as it is; ``None`` when absent."""

    @abstractmethod
    def build_type_error(self, name: str, value: JsonValue, wanted: WantedType) -> Exception:
        """What is raised for a member of another type than is wanted."""

    def text(self, name: str) -> str:
        """A string, empty when absent."""
        value = self.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.build_type_error(name, value, "string")
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean; ``None`` when absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.build_type_error(name, value, "bool")
        return value

    def integer(self, name: str) -> int | None:
        """A signed 64-bit integer, written without point and exponent; ``None`` when absent."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not -INT64_LIMIT <= value < INT64_LIMIT:
            raise self.build_type_error(name, value, "int")
        return value

    def array(self, name: str) -> list[JsonValue]:
        """An array, empty when absent."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.build_type_error(name, value, "array")
        return value

    def object(self, name: str) -> "JsonObject | None":
        """An object; ``None`` when absent."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.build_type_error(name, value, "object")
        return value
