"""The closed vocabulary of conditions: operators (docs/reference/conditions.md#operators) and metadata fields
(docs/reference/conditions.md#lifecycle-fields).

To add an operator, begin here. One on stored texts goes on to ``texts.py`` (what it means) and ``sql_texts.py`` (its
SQL); one without operand to ``plan.py`` and ``planning.py``, then ``evaluate.py`` and ``sql.py``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from statewright.jsonval.values import DataType


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
