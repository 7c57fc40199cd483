"""The JSON object of a condition, its members read with the leniencies of spec/search.md §2.1."""

from statewright.conditions.syntax import MalformedCondition
from statewright.jsonval.values import JsonObject, JsonValue


class Body:
    """Typed access to the members: names in any case (the exact spelling wins), ``null`` equal to absent."""

    def __init__(self, raw: JsonValue, what: str) -> None:
        if not isinstance(raw, dict):
            raise MalformedCondition(f"{what} is not a JSON object")
        self.raw: JsonObject = raw
        self._what = what
        self._folded: JsonObject | None = None

    def value(self, name: str) -> JsonValue:
        """The member as it is; ``None`` when absent."""
        if name in self.raw:
            return self.raw[name]
        if self._folded is None:  # hardly anybody makes use of it
            self._folded = {member.lower(): value for member, value in self.raw.items()}
        return self._folded.get(name.lower())

    def text(self, name: str) -> str:
        """The string, empty when absent."""
        value = self.value(name)
        if value is None or isinstance(value, str):
            return value or ""
        raise self._wrong(name, "a string")

    def array(self, name: str) -> tuple[JsonValue, ...]:
        """The elements, none when absent."""
        value = self.value(name)
        if value is None or isinstance(value, list):
            return tuple(value or ())
        raise self._wrong(name, "an array")

    def flag(self, name: str, *, default: bool) -> bool:
        """The boolean, ``default`` when absent."""
        value = self.value(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        raise self._wrong(name, "a boolean")

    def whole(self, name: str) -> int:
        """The whole number, 0 when absent."""
        value = self.value(name)
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self._wrong(name, "a whole number")

    def object(self, name: str) -> "Body":
        """The object, an empty one when absent."""
        value = self.value(name)
        return Body({} if value is None else value, f"{self._what}: member {name}")

    def _wrong(self, name: str, expected: str) -> MalformedCondition:
        return MalformedCondition(f"{self._what}: member {name} is not {expected}")
