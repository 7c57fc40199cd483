"""From the syntax of a condition to its plan: once per query, for all evaluators (spec/search.md §18.1)."""

from collections.abc import Mapping, Set
from typing import assert_never

from statewright.conditions.metafields import META_FIELDS
from statewright.conditions.operands import between, comparison, operand_text, range_operands
from statewright.conditions.operators import COMPARISONS, IS_NULL, PRESENCE, RANGES, TEXT_OPERATORS, Order, TextOperator
from statewright.conditions.paths import array_at, parse_path, types_at
from statewright.conditions.patterns import pattern_defect
from statewright.conditions.plan import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    ArrayTest,
    Branches,
    FieldPresence,
    FieldTest,
    Matching,
    MetaTest,
    Plan,
    Unanswerable,
)
from statewright.conditions.syntax import Array, Condition, Function, Group, Lifecycle, Simple
from statewright.jsonval.datatypes import DataType
from statewright.jsonval.values import JsonValue
from statewright.schema.flatten import Declared

Fields = Mapping[str, Declared]


def plan_of(condition: Condition, declared: Fields) -> Plan:
    """What has to hold of an entity whose model declares these fields. What cannot be judged stays visible in it."""
    match condition:
        case Simple():
            return _simple(condition, declared)
        case Lifecycle():
            return _lifecycle(condition)
        case Group():
            return _group(condition, declared)
        case Array():
            return _array(condition, declared)
        case Function():
            return Unanswerable("a function condition can only be a whole criterion")
        case _:
            assert_never(condition)


def _group(group: Group, declared: Fields) -> Plan:
    if group.operator not in ("AND", "OR"):
        return Unanswerable(f'unknown group operator "{group.operator}"')
    parts = tuple(plan_of(child, declared) for child in group.conditions)
    if len(parts) == 1:
        return parts[0]
    return AllOf(parts) if group.operator == "AND" else AnyOf(parts)


def _simple(leaf: Simple, declared: Fields) -> Plan:
    path = parse_path(leaf.path)
    if leaf.operator in PRESENCE:
        return FieldPresence(path, leaf.operator == IS_NULL)
    branches = _branches(leaf, types_at(path, declared) if path else frozenset())
    if isinstance(branches, Unanswerable):
        return branches
    return FieldTest(path, branches) if path and branches else NEVER


def _lifecycle(leaf: Lifecycle) -> Plan:
    field = META_FIELDS.get(leaf.field)
    if field is None:
        return Unanswerable(f'unknown meta filter field "{leaf.field}"')
    if leaf.operator in PRESENCE:
        return NEVER if leaf.operator == IS_NULL else ALWAYS
    branches = _branches(leaf, field.types)
    if isinstance(branches, Unanswerable):
        return branches
    if field.is_time:  # an instant has no text that a text operator could look at
        branches = tuple(branch for branch in branches if not isinstance(branch, Matching))
    return MetaTest(field, branches) if branches else NEVER


def _array(array: Array, declared: Fields) -> Plan:
    positions = [(index, value) for index, value in enumerate(array.values) if value is not None]
    if not positions:
        return ALWAYS
    named = parse_path(array.path)
    if named is None:
        return NEVER
    path = array_at(named, declared)
    types = types_at(path.elements, declared)
    tests = tuple((index, _equality(value, types)) for index, value in positions)
    return ArrayTest(path, tests) if all(branches for _, branches in tests) else NEVER


def _equality(value: JsonValue, types: Set[DataType]) -> Branches:
    return () if isinstance(value, dict | list) else comparison(Order.EQUALS, operand_text(value), types)


def _branches(leaf: Simple | Lifecycle, types: Set[DataType]) -> Branches | Unanswerable:
    operator, value = leaf.operator, leaf.value
    if operator in COMPARISONS:
        return () if isinstance(value, dict) else comparison(COMPARISONS[operator], operand_text(value), types)
    if operator in RANGES:
        return _range(RANGES[operator], value, types)
    if operator in TEXT_OPERATORS:
        return () if isinstance(value, dict) else _text(TEXT_OPERATORS[operator], operand_text(value))
    return Unanswerable(f'unknown operator "{operator}"' if operator else "condition has no operator")


def _range(orders: tuple[Order, Order], value: JsonValue, types: Set[DataType]) -> Branches:
    bounds = range_operands(value)
    if bounds is None:
        return ()
    low, high = map(operand_text, bounds)
    return between((orders[0], low), (orders[1], high), types)


def _text(operator: TextOperator, operand: str) -> Branches | Unanswerable:
    defect = pattern_defect(operand) if operator is TextOperator.MATCHES_PATTERN else None
    if defect is not None:
        return Unanswerable(f'invalid MATCHES_PATTERN regex "{operand}": {defect}')
    return (Matching(operator, operand),)
