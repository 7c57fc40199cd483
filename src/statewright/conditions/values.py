"""Tests of one stored value, compiled from the branches of a plan's leaf (spec/search.md §5, §7.1)."""

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar, assert_never

from msgspec import UnsetType

from statewright.conditions.operands import UUID
from statewright.conditions.operators import Order
from statewright.conditions.plan import (
    Booleans,
    Branch,
    Branches,
    Characters,
    Matching,
    Numbers,
    Temporals,
    Texts,
    Uuids,
)
from statewright.conditions.texts import text_test
from statewright.jsonval.datatypes import DataType
from statewright.jsonval.numbers import Number
from statewright.jsonval.temporals import parse_temporal
from statewright.jsonval.values import JsonValue

Operand = TypeVar("Operand")

Comparisons: TypeAlias = tuple[tuple[Order, Operand], ...]

Found: TypeAlias = "JsonValue | UnsetType"
"""What a path leads to; unset when it leads nowhere."""

ValueTest = Callable[[Found], bool]

_NUMBER_CLASSES: Final = frozenset((int, Decimal))
"""Looked up by class, because ``bool`` is an ``int`` for ``isinstance``."""

_COMPARE: Final[dict[Order, Callable[[Any, Any], bool]]] = {  # Any: operators say nothing about their operands
    Order.EQUALS: operator.eq,
    Order.NOT_EQUAL: operator.ne,
    Order.GREATER_THAN: operator.gt,
    Order.GREATER_OR_EQUAL: operator.ge,
    Order.LESS_THAN: operator.lt,
    Order.LESS_OR_EQUAL: operator.le,
}


def value_test(branches: Branches) -> ValueTest:
    """Whether a stored value satisfies some branch; null and unset satisfy none."""
    tests = [_branch_test(branch) for branch in branches]
    if len(tests) == 1:
        return tests[0]

    def satisfies_any(value: Found) -> bool:
        return any(test(value) for test in tests)

    return satisfies_any


def instant_test(branches: Branches) -> Callable[[int], bool]:
    """Whether an instant in epoch milliseconds satisfies some branch."""
    tests = [holds(branch.comparisons) for branch in branches if isinstance(branch, Temporals)]
    return lambda instant: any(test(instant) for test in tests)


def holds(comparisons: Comparisons[Operand]) -> Callable[[Operand], bool]:
    """Whether a value of the operands' kind satisfies all comparisons, of which there are one or two."""
    (order, operand), *rest = comparisons
    compare = _COMPARE[order]
    if not rest:
        return lambda value: compare(value, operand)
    second, limit = _COMPARE[rest[0][0]], rest[0][1]
    return lambda value: compare(value, operand) and second(value, limit)


def _branch_test(branch: Branch) -> ValueTest:
    match branch:
        case Numbers(comparisons=((Order.EQUALS, expected),)):
            return _number_equality(expected)
        case Numbers(comparisons=comparisons):
            return _number_test(comparisons)
        case Texts(comparisons=((Order.EQUALS, expected),)):
            return _text_equality(expected)
        case Texts(comparisons=comparisons):
            return _string_test(holds(comparisons))
        case Matching(operator=text_operator, operand=operand):
            return _string_test(text_test(text_operator, operand))
        case Temporals(subtype=subtype, comparisons=comparisons):
            return _temporal_test(subtype, holds(comparisons))
        case Characters(comparisons=comparisons):
            return _character_test(holds(comparisons))
        case Uuids():
            return _uuid_test(branch)
        case Booleans(expected=expected):
            return _boolean_test(expected=expected)
        case _:
            assert_never(branch)


def _number_equality(expected: Number) -> ValueTest:
    """Equality is the most frequent test, so it is spared a call. Only a number equals a number, or ``True``."""

    def test(value: Found) -> bool:
        return value == expected and value.__class__ is not bool

    return test


def _number_test(comparisons: Comparisons[Number]) -> ValueTest:
    compare: Callable[[Any], bool] = holds(comparisons)  # Any: type checkers do not see what the class test ensures

    def test(value: Found) -> bool:
        return value.__class__ in _NUMBER_CLASSES and compare(value)

    return test


def _text_equality(expected: str) -> ValueTest:
    """Spared a call, as for numbers. Only a string equals a string."""

    def test(value: Found) -> bool:
        return value == expected

    return test


def _string_test(compare: Callable[[str], bool]) -> ValueTest:
    def test(value: Found) -> bool:
        return isinstance(value, str) and compare(value)

    return test


def _temporal_test(subtype: DataType, compare: Callable[[int], bool]) -> ValueTest:
    """A stored text takes part only as its own natural subtype (spec/search.md §5.7)."""

    def test(value: Found) -> bool:
        temporal = parse_temporal(value) if isinstance(value, str) else None
        return temporal is not None and temporal.subtype is subtype and compare(temporal.epoch_ms)

    return test


def _character_test(compare: Callable[[str], bool]) -> ValueTest:
    def test(value: Found) -> bool:
        return isinstance(value, str) and len(value) == 1 and compare(value)

    return test


def _uuid_test(branch: Uuids) -> ValueTest:
    def test(value: Found) -> bool:
        stored = UUID.fullmatch(value.lower()) if isinstance(value, str) else None
        if stored is None or not stored[1].startswith(branch.version):
            return False
        return (stored[0] == branch.expected) is branch.equal

    return test


def _boolean_test(*, expected: bool) -> ValueTest:
    def test(value: Found) -> bool:
        return value is expected

    return test
