"""From the syntax of a condition to its plan: once per query, for all evaluators (docs/adr/0007-search-in-sql.md).

What the declared types make of the text of an operand is decided here (docs/reference/conditions.md#operands,
docs/reference/conditions.md#comparisons, docs/reference/conditions.md#times).
"""

import re
from collections.abc import Mapping, Set
from typing import Final, assert_never

from msgspec.structs import replace

from statewright.conditions.paths import array_at, parse_path, types_at
from statewright.conditions.plan import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    ArrayTest,
    Booleans,
    Branch,
    Branches,
    Characters,
    FieldPresence,
    FieldTest,
    Matching,
    MetaTest,
    Numbers,
    Plan,
    Temporals,
    Texts,
    Unanswerable,
    Uuids,
)
from statewright.conditions.syntax import (
    COMPARISONS,
    META_FIELDS,
    PRESENCE,
    RANGES,
    TEXT_OPERATORS,
    Array,
    Condition,
    Function,
    Group,
    Lifecycle,
    MetaField,
    Order,
    Simple,
    TextOperator,
)
from statewright.conditions.texts import find_like_defect, find_pattern_defect
from statewright.ids import ulid_to_uuid
from statewright.jsonval.codec import encode
from statewright.jsonval.numbers import NUMERIC_TYPES, Number, format_number, parse_number
from statewright.jsonval.temporals import TEMPORAL_TYPES, Temporal, parse_temporal, resolve
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema.node import DeclaredField

UUID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""A canonical UUID; the group is its version."""

UUID_CHARS: Final = 36

_UUID_VERSIONS: Final = {DataType.UUID_TYPE: "", DataType.TIME_UUID_TYPE: "1"}
"""Declared type -> the version it asks for; empty = any."""

_BOOLEANS: Final = {"true": True, "false": False}

_TRUNCATED_ORDERS: Final = {Order.GREATER_OR_EQUAL: Order.GREATER_THAN, Order.LESS_THAN: Order.LESS_OR_EQUAL}
"""What becomes of an operator when its operand lies inside the period that it is cut down to the start of."""

Bound = tuple[Order, str]
"""A comparison with the text of an operand."""


def format_operand(value: JsonValue) -> str:
    """The text that stands for an operand; its type is decided by the field, not by how the operand was written."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return encode(value).decode()
    return format_number(value)


def split_range(value: JsonValue) -> list[JsonValue] | None:
    """The two bounds of a range; ``None`` when there are not exactly two.

    A text ``low,high`` stands for two bounds: searches refuse it, criteria do not
    (docs/reference/conditions.md#conditions, docs/reference/conditions.md#ranges).
    """
    bounds = [bound.strip() for bound in value.split(",", 1)] if isinstance(value, str) else value
    return [*bounds] if isinstance(bounds, list) and len(bounds) == 2 else None


def accepts(types: Set[DataType], text: str) -> bool:
    """Whether the operand means something to one of the declared types; else it is a type mismatch."""
    return any(_accepts(declared, text) for declared in types)


def compile_comparison(order: Order, text: str, types: Set[DataType]) -> Branches:
    """The branches of one comparison; none when no declared type can compare with the operand in this way."""
    branches: list[Branch] = [*_compile_numbers((order, text), types=types), *_compile_instants(order, text, types)]
    if DataType.STRING in types:
        branches.append(Texts(((order, text),)))
    if DataType.CHARACTER in types and len(text) == 1:
        branches.append(Characters(((order, text),)))
    if order in (Order.EQUALS, Order.NOT_EQUAL):
        branches.extend(_compile_identities(text, types, equal=order is Order.EQUALS))
    return tuple(branches)


def compile_range(low: Bound, high: Bound, types: Set[DataType]) -> Branches:
    """The branches of a range. Temporal bounds are cut without a change of operator, and nothing is dropped for it."""
    branches: list[Branch] = [*_compile_numbers(low, high, types=types), *_compile_periods(low, high, types)]
    if DataType.STRING in types:
        branches.append(Texts((low, high)))
    return tuple(branches)


def _accepts(declared: DataType, text: str) -> bool:
    if declared in NUMERIC_TYPES:
        return parse_number(text) is not None
    if declared in TEMPORAL_TYPES:
        return parse_temporal(text) is not None
    if declared is DataType.BOOLEAN:
        return text in _BOOLEANS
    if declared is DataType.CHARACTER:
        return len(text) == 1
    return declared is DataType.STRING or _is_uuid(text, declared)


def _is_uuid(text: str, declared: DataType) -> bool:
    version = _UUID_VERSIONS.get(declared)
    match = UUID.fullmatch(text)
    return version is not None and match is not None and match[1].startswith(version)


def _compile_numbers(*bounds: Bound, types: Set[DataType]) -> tuple[Numbers, ...]:
    if NUMERIC_TYPES.isdisjoint(types):
        return ()
    comparisons: list[tuple[Order, Number]] = []
    for order, text in bounds:
        number = parse_number(text)
        if number is None:
            return ()
        comparisons.append((order, number))
    return (Numbers(tuple(comparisons)),)


def _compile_instants(order: Order, text: str, types: Set[DataType]) -> list[Temporals]:
    operand = None if TEMPORAL_TYPES.isdisjoint(types) else parse_temporal(text)
    if operand is None:
        return []
    return [branch for subtype in _list_temporal_types(types) if (branch := _compile_instant(order, operand, subtype))]


def _compile_instant(order: Order, operand: Temporal, subtype: DataType) -> Temporals | None:
    resolved = resolve(operand, subtype)
    if resolved is None or (resolved.imprecise and order is Order.EQUALS):
        return None
    # A time of day does not lie inside the period of the date it was taken from.
    is_cut = resolved.imprecise and subtype is not DataType.LOCAL_TIME
    return Temporals(subtype, ((_TRUNCATED_ORDERS.get(order, order) if is_cut else order, resolved.epoch_ms),))


def _compile_periods(low: Bound, high: Bound, types: Set[DataType]) -> list[Temporals]:
    first, last = parse_temporal(low[1]), parse_temporal(high[1])
    if first is None or last is None:
        return []
    branches: list[Temporals] = []
    for subtype in _list_temporal_types(types):
        start, end = resolve(first, subtype), resolve(last, subtype)
        if start is not None and end is not None:
            branches.append(Temporals(subtype, ((low[0], start.epoch_ms), (high[0], end.epoch_ms))))
    return branches


def _list_temporal_types(types: Set[DataType]) -> list[DataType]:
    return [declared for declared in DataType if declared in types and declared in TEMPORAL_TYPES]


def _compile_identities(text: str, types: Set[DataType], *, equal: bool) -> list[Branch]:
    """Branches of the types that know equality only."""
    branches: list[Branch] = [
        Uuids(equal, text, version)
        for declared, version in _UUID_VERSIONS.items()
        if declared in types and _is_uuid(text, declared)
    ]
    if DataType.BOOLEAN in types and text in _BOOLEANS:
        branches.append(Booleans(_BOOLEANS[text] is equal))
    return branches


Fields = Mapping[str, DeclaredField]


def build_plan(condition: Condition, declared: Fields) -> Plan:
    """What has to hold of an entity whose model declares these fields. What cannot be judged stays visible in it."""
    match condition:
        case Simple():
            return _plan_simple(condition, declared)
        case Lifecycle():
            return _plan_lifecycle(condition)
        case Group():
            return _plan_group(condition, declared)
        case Array():
            return _plan_array(condition, declared)
        case Function():
            return Unanswerable("a function condition can only be a whole criterion")
        case _:
            assert_never(condition)


def _plan_group(group: Group, declared: Fields) -> Plan:
    if group.operator not in ("AND", "OR"):
        return Unanswerable(f'unknown group operator "{group.operator}"')
    parts = tuple(build_plan(child, declared) for child in group.conditions)
    if len(parts) == 1:
        return parts[0]
    return AllOf(parts) if group.operator == "AND" else AnyOf(parts)


def _plan_simple(leaf: Simple, declared: Fields) -> Plan:
    path = parse_path(leaf.path)
    if leaf.operator in PRESENCE:
        return FieldPresence(path, PRESENCE[leaf.operator])
    branches = _plan_branches(leaf, types_at(path, declared) if path else frozenset())
    if isinstance(branches, Unanswerable):
        return branches
    return FieldTest(path, branches) if path and branches else NEVER


def _plan_lifecycle(leaf: Lifecycle) -> Plan:
    field = META_FIELDS.get(leaf.field)
    if field is None:
        return Unanswerable(f'unknown meta filter field "{leaf.field}"')
    if leaf.operator in PRESENCE:
        return NEVER if PRESENCE[leaf.operator] else ALWAYS
    if field is MetaField.ID and leaf.operator in COMPARISONS and isinstance(leaf.value, str):
        leaf = replace(leaf, value=ulid_to_uuid(leaf.value) or leaf.value)  # ids of processes are known as ULIDs, too
    branches = _plan_branches(leaf, field.types)
    if isinstance(branches, Unanswerable):
        return branches
    if field.is_time:  # an instant has no text that a text operator could look at
        branches = tuple(branch for branch in branches if not isinstance(branch, Matching))
    return MetaTest(field, branches) if branches else NEVER


def _plan_array(array: Array, declared: Fields) -> Plan:
    positions = [(index, value) for index, value in enumerate(array.values) if value is not None]
    if not positions:
        return ALWAYS
    named = parse_path(array.path)
    if named is None:
        return NEVER
    path = array_at(named, declared)
    types = types_at(path.elements, declared)
    tests = tuple((index, _plan_equality(value, types)) for index, value in positions)
    return ArrayTest(path, tests) if all(branches for _, branches in tests) else NEVER


def _plan_equality(value: JsonValue, types: Set[DataType]) -> Branches:
    return () if isinstance(value, dict | list) else compile_comparison(Order.EQUALS, format_operand(value), types)


def _plan_branches(leaf: Simple | Lifecycle, types: Set[DataType]) -> Branches | Unanswerable:
    operator, value = leaf.operator, leaf.value
    if operator in COMPARISONS:
        return (
            () if isinstance(value, dict) else compile_comparison(COMPARISONS[operator], format_operand(value), types)
        )
    if operator in RANGES:
        return _plan_range(RANGES[operator], value, types)
    if operator in TEXT_OPERATORS:
        return () if isinstance(value, dict) else _plan_text(TEXT_OPERATORS[operator], format_operand(value))
    return Unanswerable(f'unknown operator "{operator}"' if operator else "condition has no operator")


def _plan_range(orders: tuple[Order, Order], value: JsonValue, types: Set[DataType]) -> Branches:
    bounds = split_range(value)
    if bounds is None:
        return ()
    low, high = map(format_operand, bounds)
    return compile_range((orders[0], low), (orders[1], high), types)


def _plan_text(operator: TextOperator, operand: str) -> Branches | Unanswerable:
    if operator is TextOperator.MATCHES_PATTERN and (defect := find_pattern_defect(operand)):
        return Unanswerable(f'invalid MATCHES_PATTERN regex "{operand}": {defect}')
    if operator is TextOperator.LIKE and (defect := find_like_defect(operand)):
        return Unanswerable(f"invalid LIKE pattern: {defect}")
    return (Matching(operator, operand),)
