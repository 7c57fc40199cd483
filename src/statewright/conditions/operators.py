"""The catalogue of operators (spec/search.md §3). Names are exact: upper case, no aliases."""

from enum import StrEnum
from typing import Final


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
"""A range is two comparisons: the first with the low bound, the second with the high one (spec/search.md §5.8)."""

TEXT_OPERATORS: Final = {operator.value: operator for operator in TextOperator}

IS_NULL: Final = "IS_NULL"
PRESENCE: Final = frozenset((IS_NULL, "NOT_NULL"))

OPERATORS: Final = tuple(sorted((*COMPARISONS, *RANGES, *TEXT_OPERATORS, *PRESENCE)))
"""All 26 names, in the order in which error details list them."""
