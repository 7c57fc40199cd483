"""The syntax tree of conditions: what was written, with nothing looked up yet (docs/reference/conditions.md#form).

Operators, fields and paths are kept as they came, also unknown ones: :mod:`~statewright.conditions.checks`
decides which consumer refuses what, and a criterion is stored whatever it says.

Operator names that older clients write, in the words of today (docs/reference/search.md#paths-for-older-clients).

They are understood on the paths for those clients alone: everywhere else an operator that is none is refused, since a
condition that is understood differently from how it was meant finds the wrong entities.

The closed vocabulary of conditions: operators (docs/reference/conditions.md#operators) and metadata fields
(docs/reference/conditions.md#lifecycle-fields).

To add an operator, begin here. One on stored texts goes on to ``texts.py`` (what it means) and ``sql_values.py`` (its
SQL); one without operand to ``plan.py`` and ``planning.py``, then ``evaluate.py`` and ``sql.py``. Then come those who
write conditions, the console and the SDK: docs/architecture.md#where-things-go has all places.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.jsonval.values import DataType, JsonObject, JsonValue

MAX_DEPTH: Final = 50
"""Most groups around a leaf; the root is at depth 0."""


class MalformedCondition(ValueError):
    """A JSON value that is no condition. The message names the member at fault."""


class Simple(Struct, frozen=True, kw_only=True):
    """Compares one field of the document. ``value`` is ``None`` when absent, which means the same as ``null``."""

    path: str
    operator: str
    value: JsonValue = None


class Lifecycle(Struct, frozen=True, kw_only=True):
    """Compares one metadata field of the entity."""

    field: str
    operator: str
    value: JsonValue = None


class Group(Struct, frozen=True, kw_only=True):
    """Combines conditions. ``operator`` is ``AND`` or ``OR`` in any accepted tree; other texts are kept as written."""

    operator: str
    conditions: tuple["Condition", ...]


class Array(Struct, frozen=True, kw_only=True):
    """Compares the elements of a stored array by position; ``None`` skips one."""

    path: str
    values: tuple[JsonValue, ...]


class Function(Struct, frozen=True, kw_only=True):
    """Asks a calculation member. Only the engine can do that, and only for a whole criterion.

    ``tags`` are the required ones, split from ``tags_text`` as configured: trimmed, lower-cased, none = any member
    (decision W5). ``raw`` is the condition as written.
    """

    name: str
    tags: tuple[str, ...]
    tags_text: str
    attach_entity: bool
    timeout_ms: int
    context: str
    raw: JsonObject


Condition: TypeAlias = Simple | Lifecycle | Group | Array | Function


SYNONYMS: Final = {
    "NOT_EQUALS": "NOT_EQUAL",
    "GREATER_THAN_OR_EQUAL": "GREATER_OR_EQUAL",
    "LESS_THAN_OR_EQUAL": "LESS_OR_EQUAL",
}

LISTS: Final = {"IN": ("OR", "EQUALS"), "NOT_IN": ("AND", "NOT_EQUAL")}
"""Operators on a list: how the comparisons with its values are joined, and what each of them is."""

MAX_LISTED: Final = 1000
"""Values in one list."""

_OPERATOR_MEMBERS: Final = ("operatorType", "operator", "operation")


def replace_synonyms(condition: JsonValue, depth: int = 0) -> JsonValue:
    """The condition with the operators of today. Raises :class:`MalformedCondition` for a list that is none, is empty
    or is too long; what else may be wrong with the condition is for its parser to say.
    """
    if not isinstance(condition, dict) or depth > MAX_DEPTH:
        return condition
    children = condition.get("conditions")
    if isinstance(children, list):
        replaced: list[JsonValue] = [replace_synonyms(child, depth + 1) for child in children]
        return {**condition, "conditions": replaced}
    member = next((name for name in _OPERATOR_MEMBERS if isinstance(condition.get(name), str)), None)
    operator = condition[member] if member is not None else None
    if member is None or not isinstance(operator, str):
        return condition
    if operator in LISTS:
        return _spread_list(condition, member, operator)
    return condition | {member: SYNONYMS[operator]} if operator in SYNONYMS else condition


def _spread_list(condition: JsonObject, member: str, operator: str) -> JsonObject:
    values, (joined, compared) = condition.get("value"), LISTS[operator]
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_LISTED:
        raise MalformedCondition(f"{operator} takes a list of 1 to {MAX_LISTED} values")
    leaves: list[JsonValue] = [condition | {member: compared, "value": value} for value in values]
    return {"type": "group", "operator": joined, "conditions": leaves}


class Order(StrEnum):
    """The comparison operators. What they compare is directed by the declared types of the field."""

    EQUALS = "EQUALS"
    NOT_EQUAL = "NOT_EQUAL"
    GREATER_THAN = "GREATER_THAN"
    GREATER_OR_EQUAL = "GREATER_OR_EQUAL"
    LESS_THAN = "LESS_THAN"
    LESS_OR_EQUAL = "LESS_OR_EQUAL"


class TextOperator(StrEnum):
    """The operators that apply to stored strings only, whatever types are declared."""

    CONTAINS = "CONTAINS"
    STARTS_WITH = "STARTS_WITH"
    ENDS_WITH = "ENDS_WITH"
    NOT_CONTAINS = "NOT_CONTAINS"
    NOT_STARTS_WITH = "NOT_STARTS_WITH"
    NOT_ENDS_WITH = "NOT_ENDS_WITH"
    IEQUALS = "IEQUALS"
    ICONTAINS = "ICONTAINS"
    ISTARTS_WITH = "ISTARTS_WITH"
    IENDS_WITH = "IENDS_WITH"
    INOT_EQUAL = "INOT_EQUAL"
    INOT_CONTAINS = "INOT_CONTAINS"
    INOT_STARTS_WITH = "INOT_STARTS_WITH"
    INOT_ENDS_WITH = "INOT_ENDS_WITH"
    LIKE = "LIKE"
    MATCHES_PATTERN = "MATCHES_PATTERN"


COMPARISONS: Final = {order.value: order for order in Order}

RANGES: Final = {
    "BETWEEN": (Order.GREATER_THAN, Order.LESS_THAN),
    "BETWEEN_INCLUSIVE": (Order.GREATER_OR_EQUAL, Order.LESS_OR_EQUAL),
}
"""A range is two comparisons: the first with the low bound, the second with the high one
(docs/reference/conditions.md#ranges).
"""

TEXT_OPERATORS: Final = {operator.value: operator for operator in TextOperator}

PRESENCE: Final[Mapping[str, bool]] = {"IS_NULL": True, "NOT_NULL": False}
"""Operators without an operand, and whether the field has to be null."""

OPERATORS: Final = tuple(sorted((*COMPARISONS, *RANGES, *TEXT_OPERATORS, *PRESENCE)))
"""All 26 names, in the order in which error details list them."""


# Metadata fields (docs/reference/conditions.md#lifecycle-fields).


class MetaField(StrEnum):
    """A metadata field; the value is its attribute in :class:`~statewright.entity.EntityMeta`."""

    ID = "id"
    STATE = "state"
    CREATION_DATE = "creation_date"
    LAST_UPDATE_TIME = "last_update_time"
    TRANSITION = "transition"
    TRANSACTION_ID = "transaction_id"

    @property
    def is_time(self) -> bool:
        """Whether the field is an instant, compared in milliseconds; the others are texts."""
        return self in (MetaField.CREATION_DATE, MetaField.LAST_UPDATE_TIME)

    @property
    def types(self) -> frozenset[DataType]:
        """As what operands are read."""
        return frozenset((DataType.ZONED_DATE_TIME if self.is_time else DataType.STRING,))


META_FIELDS: Final[Mapping[str, MetaField]] = {
    "id": MetaField.ID,
    "state": MetaField.STATE,
    "creationDate": MetaField.CREATION_DATE,
    "lastUpdateTime": MetaField.LAST_UPDATE_TIME,
    "transitionForLatestSave": MetaField.TRANSITION,
    "previousTransition": MetaField.TRANSITION,
    "transactionId": MetaField.TRANSACTION_ID,
}
"""Names in conditions, case-sensitive."""
