"""From sample values to schema trees, and from two trees to one that admits both (spec/models.md §5.8, §5.9).

Functions that descend into documents take one frame of the interpreter's stack per level, so that the deepest document
that :mod:`statewright.jsonval.codec` lets in (256 levels) is far from its limit.
"""

from collections.abc import Mapping
from typing import Final

from statewright.jsonval.datatypes import DataType
from statewright.jsonval.numbers import classify_number
from statewright.jsonval.temporals import classify_text
from statewright.jsonval.values import JsonScalar, JsonValue
from statewright.schema.node import NULL_LEAF, Kind, Node, leaf, type_set

_LEAVES: Final[Mapping[DataType, Node]] = {data_type: leaf(data_type) for data_type in DataType}
_RANK: Final = {kind: rank for rank, kind in enumerate(Kind)}


def infer(value: JsonValue) -> Node:
    """The tree of one sample. The items of an array are merged, not told apart by position."""
    if isinstance(value, dict):
        children = dict[str, Node]()
        for name, member in value.items():
            children[name] = infer(member)
        return Node(kind=Kind.OBJECT, children=children)
    if isinstance(value, list):
        element = None
        for item in value:
            seen = infer(item)
            element = seen if element is None else merge(element, seen)
        return Node(kind=Kind.ARRAY, element=element or NULL_LEAF)
    return _LEAVES[classify(value)]


def classify(value: JsonScalar) -> DataType:
    """The type of a scalar (spec/models.md §5.2)."""
    if isinstance(value, str):
        return classify_text(value)
    if value is None:
        return DataType.NULL
    if isinstance(value, bool):
        return DataType.BOOLEAN
    return classify_number(value)


def merge(a: Node, b: Node) -> Node:
    """The least tree that admits what either admits; commutative, associative and idempotent.

    A scalar beside a container becomes one of the container's own types; of an object and an array the object stays.
    """
    if a is b:
        return a
    children = dict(a.children)
    for name, child in b.children.items():
        known = children.get(name)
        children[name] = child if known is None else merge(known, child)
    element = merge(a.element, b.element) if a.element and b.element else a.element or b.element
    return Node(kind=_stronger(a.kind, b.kind), types=_union(a, b), children=children, element=element)


def _stronger(a: Kind, b: Kind) -> Kind:
    return a if _RANK[a] >= _RANK[b] else b


def _union(a: Node, b: Node) -> tuple[DataType, ...]:
    return a.types if a.types == b.types else type_set((*a.types, *b.types))
