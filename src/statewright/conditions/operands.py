"""Operands: their text, and what the declared types make of it (spec/search.md §5.1, §5.3, §5.7, §5.8)."""

import re
from collections.abc import Set
from typing import Final

from statewright.conditions.operators import Order
from statewright.conditions.plan import Booleans, Branch, Branches, Characters, Numbers, Temporals, Texts, Uuids
from statewright.jsonval.codec import encode
from statewright.jsonval.datatypes import DataType
from statewright.jsonval.numbers import NUMERIC_TYPES, Number, number_text, parse_number
from statewright.jsonval.temporals import TEMPORAL_TYPES, Temporal, parse_temporal, resolve
from statewright.jsonval.values import JsonValue

UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""A canonical UUID; the group is its version."""

_UUID_VERSIONS: Final = {DataType.UUID_TYPE: "", DataType.TIME_UUID_TYPE: "1"}
"""Declared type -> the version it asks for; empty = any."""

_BOOLEANS: Final = {"true": True, "false": False}

_CUT: Final = {Order.GREATER_OR_EQUAL: Order.GREATER_THAN, Order.LESS_THAN: Order.LESS_OR_EQUAL}
"""What becomes of an operator when its operand lies inside the period that it is cut down to the start of."""

Bound = tuple[Order, str]
"""A comparison with the text of an operand."""


def operand_text(value: JsonValue) -> str:
    """The text that stands for an operand; its type is decided by the field, not by how the operand was written."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return encode(value).decode()
    return number_text(value)


def range_operands(value: JsonValue) -> list[JsonValue] | None:
    """The two bounds of a range; ``None`` when there are not exactly two.

    A text ``low,high`` stands for two bounds: searches refuse it, criteria do not (spec/search.md §17, Q17).
    """
    bounds = [bound.strip() for bound in value.split(",", 1)] if isinstance(value, str) else value
    return [*bounds] if isinstance(bounds, list) and len(bounds) == 2 else None


def accepts(types: Set[DataType], text: str) -> bool:
    """Whether the operand means something to one of the declared types; else it is a type mismatch."""
    return any(_accepts(declared, text) for declared in types)


def comparison(order: Order, text: str, types: Set[DataType]) -> Branches:
    """The branches of one comparison; none when no declared type can compare with the operand in this way."""
    branches: list[Branch] = [*_numbers((order, text), types=types), *_instants(order, text, types)]
    if DataType.STRING in types:
        branches.append(Texts(((order, text),)))
    if DataType.CHARACTER in types and len(text) == 1:
        branches.append(Characters(((order, text),)))
    if order in (Order.EQUALS, Order.NOT_EQUAL):
        branches.extend(_identities(text, types, equal=order is Order.EQUALS))
    return tuple(branches)


def between(low: Bound, high: Bound, types: Set[DataType]) -> Branches:
    """The branches of a range. Temporal bounds are cut without a change of operator, and nothing is dropped for it."""
    branches: list[Branch] = [*_numbers(low, high, types=types), *_periods(low, high, types)]
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


def _numbers(*bounds: Bound, types: Set[DataType]) -> tuple[Numbers, ...]:
    if NUMERIC_TYPES.isdisjoint(types):
        return ()
    comparisons: list[tuple[Order, Number]] = []
    for order, text in bounds:
        number = parse_number(text)
        if number is None:
            return ()
        comparisons.append((order, number))
    return (Numbers(tuple(comparisons)),)


def _instants(order: Order, text: str, types: Set[DataType]) -> list[Temporals]:
    operand = None if TEMPORAL_TYPES.isdisjoint(types) else parse_temporal(text)
    if operand is None:
        return []
    return [branch for subtype in _temporal(types) if (branch := _instant(order, operand, subtype))]


def _instant(order: Order, operand: Temporal, subtype: DataType) -> Temporals | None:
    resolved = resolve(operand, subtype)
    if resolved is None or (resolved.imprecise and order is Order.EQUALS):
        return None
    # A time of day does not lie inside the period of the date it was taken from.
    is_cut = resolved.imprecise and subtype is not DataType.LOCAL_TIME
    return Temporals(subtype, ((_CUT.get(order, order) if is_cut else order, resolved.epoch_ms),))


def _periods(low: Bound, high: Bound, types: Set[DataType]) -> list[Temporals]:
    first, last = parse_temporal(low[1]), parse_temporal(high[1])
    if first is None or last is None:
        return []
    branches: list[Temporals] = []
    for subtype in _temporal(types):
        start, end = resolve(first, subtype), resolve(last, subtype)
        if start is not None and end is not None:
            branches.append(Temporals(subtype, ((low[0], start.epoch_ms), (high[0], end.epoch_ms))))
    return branches


def _temporal(types: Set[DataType]) -> list[DataType]:
    return [declared for declared in DataType if declared in types and declared in TEMPORAL_TYPES]


def _identities(text: str, types: Set[DataType], *, equal: bool) -> list[Branch]:
    """Branches of the types that know equality only."""
    branches: list[Branch] = [
        Uuids(equal, text, version)
        for declared, version in _UUID_VERSIONS.items()
        if declared in types and _is_uuid(text, declared)
    ]
    if DataType.BOOLEAN in types and text in _BOOLEANS:
        branches.append(Booleans(_BOOLEANS[text] is equal))
    return branches
