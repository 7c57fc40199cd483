"""The schema tree: what a model knows about one place of its documents (spec/models.md §5.1, §5.5, §5.10)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.jsonval.datatypes import DataType
from statewright.jsonval.numbers import DECIMAL_TYPES, INTEGER_TYPES, NUMERIC_TYPES, is_assignable

TypeSet: TypeAlias = tuple[DataType, ...]
"""Distinct types in canonical order; ``NULL`` only alone, at most one of them numeric. Built by :func:`type_set`."""

_CANONICAL: Final = {data_type: position for position, data_type in enumerate(DataType)}
_NUMERIC_WIDTH: Final = {data_type: width for width, data_type in enumerate((*INTEGER_TYPES, *DECIMAL_TYPES))}


class Kind(StrEnum):
    """What a place holds; a later kind absorbs an earlier one when both were seen at the same place."""

    LEAF = "LEAF"
    ARRAY = "ARRAY"
    OBJECT = "OBJECT"


class Node(Struct, frozen=True, kw_only=True):
    """One place of a document.

    A leaf's ``types`` are what its values may be. Those of an object or array are what else was seen at its place:
    nothing, ``NULL`` (it may be null), or the scalar types of a mixed slot. ``children`` belong to objects,
    ``element``, which describes every item, to arrays. A tree fresh from merging may have both at one place.
    """

    kind: Kind
    types: TypeSet = ()
    children: Mapping[str, "Node"] = {}
    element: "Node | None" = None


def leaf(*types: DataType) -> Node:
    """A place of scalars."""
    return Node(kind=Kind.LEAF, types=type_set(types))


def type_set(types: Iterable[DataType]) -> TypeSet:
    """In canonical order, numerics collapsed into one, ``NULL`` dropped beside other types (spec/models.md §5.5)."""
    distinct = set(types)
    numerics = distinct & NUMERIC_TYPES
    if len(numerics) > 1:
        distinct = (distinct - numerics) | {collapse(numerics)}
    if len(distinct) > 1:
        distinct.discard(DataType.NULL)
    return tuple(sorted(distinct, key=_CANONICAL.__getitem__))


def collapse(numerics: Iterable[DataType]) -> DataType:
    """The one type for a place that held all these numeric types (spec/models.md §5.7)."""
    members = frozenset(numerics)
    widest = max(members, key=_NUMERIC_WIDTH.__getitem__)  # the widest decimal when there is one: they come last
    return widest if all(is_assignable(member, widest) for member in members) else DataType.UNBOUND_DECIMAL


def element_of(array: Node) -> Node:
    """The node that describes every item of an array."""
    return NULL_LEAF if array.element is None else array.element


def is_mixed(container: Node) -> bool:
    """Whether scalars other than null were seen at the place of this object or array."""
    return container.types not in ((), NULL_LEAF.types)


def normal_form(node: Node) -> Node:
    """The tree as it is stored: an object keeps no element, so the array branch of a mixed place is lost (§5.10)."""
    if node.kind is Kind.ARRAY:
        return Node(kind=Kind.ARRAY, types=node.types, element=normal_form(element_of(node)))
    children = dict[str, Node]()
    if node.kind is Kind.OBJECT:
        for name, child in node.children.items():
            children[name] = normal_form(child)
    return Node(kind=node.kind, types=node.types, children=children)


NULL_LEAF: Final = leaf(DataType.NULL)
"""A place that only ever held null, or the items of an array that was always empty."""
