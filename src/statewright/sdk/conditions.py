"""Conditions for searches, deletions and statistics, written in Python (docs/reference/conditions.md).

    from statewright import all_of, field, state

    client.search("order", 1, field("$.total").greater_than(100) & state().equals("OPEN"))

What they make is the JSON of the reference; every operation that takes a condition takes that JSON as well.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import JsonValue

Operand: TypeAlias = str | int | float | Decimal | bool | date | datetime | None

LifecycleField: TypeAlias = Literal[
    "state", "creationDate", "lastUpdateTime", "transitionForLatestSave", "transactionId", "id"
]


class Condition(Struct, frozen=True):
    """A condition; ``&`` and ``|`` combine two of them."""

    document: Mapping[str, object]

    def __and__(self, other: "Condition") -> "Condition":
        return all_of(self, other)

    def __or__(self, other: "Condition") -> "Condition":
        return any_of(self, other)


class Field(Struct, frozen=True):
    """A place in the document, or a lifecycle field, that conditions are about; each method is an operator.

    Absent and ``null`` match ``is_null`` and nothing else, negated operators included.
    """

    subject: Mapping[str, object]

    def equals(self, value: Operand, *, ignore_case: bool = False) -> Condition:
        """The value itself."""
        return self._compare("IEQUALS" if ignore_case else "EQUALS", value)

    def not_equal(self, value: Operand, *, ignore_case: bool = False) -> Condition:
        """Any other value that is there."""
        return self._compare("INOT_EQUAL" if ignore_case else "NOT_EQUAL", value)

    def greater_than(self, value: Operand) -> Condition:
        """Above, by the declared type of the field."""
        return self._compare("GREATER_THAN", value)

    def at_least(self, value: Operand) -> Condition:
        """Above, or equal."""
        return self._compare("GREATER_OR_EQUAL", value)

    def less_than(self, value: Operand) -> Condition:
        """Below."""
        return self._compare("LESS_THAN", value)

    def at_most(self, value: Operand) -> Condition:
        """Below, or equal."""
        return self._compare("LESS_OR_EQUAL", value)

    def between(self, low: Operand, high: Operand, *, inclusive: bool = True) -> Condition:
        """From ``low`` to ``high``, with the bounds unless ``inclusive`` is False."""
        return self._compare("BETWEEN_INCLUSIVE" if inclusive else "BETWEEN", [low, high])

    def contains(self, text: str, *, ignore_case: bool = False) -> Condition:
        """A text with this part."""
        return self._compare("ICONTAINS" if ignore_case else "CONTAINS", text)

    def not_contains(self, text: str, *, ignore_case: bool = False) -> Condition:
        """A text without this part."""
        return self._compare("INOT_CONTAINS" if ignore_case else "NOT_CONTAINS", text)

    def starts_with(self, text: str, *, ignore_case: bool = False) -> Condition:
        """A text with this beginning."""
        return self._compare("ISTARTS_WITH" if ignore_case else "STARTS_WITH", text)

    def not_starts_with(self, text: str, *, ignore_case: bool = False) -> Condition:
        """A text with another beginning."""
        return self._compare("INOT_STARTS_WITH" if ignore_case else "NOT_STARTS_WITH", text)

    def ends_with(self, text: str, *, ignore_case: bool = False) -> Condition:
        """A text with this end."""
        return self._compare("IENDS_WITH" if ignore_case else "ENDS_WITH", text)

    def not_ends_with(self, text: str, *, ignore_case: bool = False) -> Condition:
        """A text with another end."""
        return self._compare("INOT_ENDS_WITH" if ignore_case else "NOT_ENDS_WITH", text)

    def like(self, pattern: str) -> Condition:
        """A text of this pattern: ``%`` is any run of characters, ``_`` any one."""
        return self._compare("LIKE", pattern)

    def matches(self, expression: str) -> Condition:
        """A text that a regular expression (RE2) matches as a whole."""
        return self._compare("MATCHES_PATTERN", expression)

    def is_null(self) -> Condition:
        """Absent, or null."""
        return Condition({**self.subject, "operatorType": "IS_NULL"})

    def not_null(self) -> Condition:
        """There, and not null."""
        return Condition({**self.subject, "operatorType": "NOT_NULL"})

    def _compare(self, operator: str, value: object) -> Condition:
        return Condition({**self.subject, "operatorType": operator, "value": value})


def field(path: str) -> Field:
    """A place in the document: ``$.buyer.city``, ``$.lines[*].sku``."""
    return Field({"type": "simple", "jsonPath": path})


def lifecycle(name: LifecycleField) -> Field:
    """A field of the metadata (docs/reference/conditions.md#lifecycle-fields)."""
    return Field({"type": "lifecycle", "field": name})


def state() -> Field:
    """The state of the entity."""
    return lifecycle("state")


def all_of(*conditions: "Condition | Mapping[str, JsonValue]") -> Condition:
    """Every one of them; without any, everything."""
    return Condition({"type": "group", "operator": "AND", "conditions": [to_condition(each) for each in conditions]})


def any_of(*conditions: "Condition | Mapping[str, JsonValue]") -> Condition:
    """At least one of them; without any, nothing."""
    return Condition({"type": "group", "operator": "OR", "conditions": [to_condition(each) for each in conditions]})


def items(path: str, values: Sequence[Operand]) -> Condition:
    """The first elements of an array, by position; ``None`` is any."""
    return Condition({"type": "array", "jsonPath": path, "values": list(values)})


def to_condition(condition: "Condition | Mapping[str, JsonValue]") -> Mapping[str, object]:
    """The JSON of a condition."""
    return condition.document if isinstance(condition, Condition) else condition
