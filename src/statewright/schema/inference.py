"""From sample values to schema trees, and from two trees to one that admits both (docs/reference/models.md#inference,
docs/reference/models.md#merging).

Functions that descend into documents take one frame of the interpreter's stack per level, so that the deepest document
that :mod:`statewright.jsonval.codec` lets in (256 levels) is far from its limit.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from statewright.failures import BadRequest
from statewright.jsonval.numbers import classify_number
from statewright.jsonval.temporals import classify_text
from statewright.jsonval.values import DataType, JsonScalar, JsonValue
from statewright.schema.node import Kind, SchemaNode, TypeSet, describe_excess, leaf, type_set

_LEAVES: Final[Mapping[DataType, SchemaNode]] = {data_type: leaf(data_type) for data_type in DataType}
_RANK: Final = {kind: rank for rank, kind in enumerate(Kind)}


def infer(value: JsonValue, max_fields: int | None = None) -> SchemaNode:
    """The tree of one sample. The items of an array are merged, not told apart by position.

    Raises ``BadRequest`` as soon as the tree has more than ``max_fields`` places, when such a limit is given.
    """
    root = _Place()
    _learn(root, value, _Tally(max_fields))
    return _freeze(root)


class _Place:
    """What was seen at one place so far; it grows in place, so that learning a value costs its own size only."""

    __slots__ = ("children", "element", "kind", "types")

    def __init__(self) -> None:
        self.kind = Kind.LEAF
        self.types: TypeSet = ()
        self.children: dict[str, _Place] = {}
        self.element: _Place | None = None

    def add_type(self, data_type: DataType) -> None:
        if data_type not in self.types:
            self.types = _add_type(self.types, data_type)


class _Tally:
    """The places that one sample has come to."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._count = 0

    def build_place(self) -> _Place:
        self._count += 1
        if self._limit is not None and self._count > self._limit:
            raise BadRequest(describe_excess(f"more than {self._limit}"))
        return _Place()


def _learn(place: _Place, value: JsonValue, tally: _Tally) -> None:
    if isinstance(value, dict):
        place.kind = Kind.OBJECT
        children = place.children
        for name, member in value.items():
            child = children.get(name)
            if child is None:
                child = children[name] = tally.build_place()
            _learn(child, member, tally)
    elif isinstance(value, list):
        place.kind = _choose_kind(place.kind, Kind.ARRAY)
        element = place.element
        if element is None:
            element = place.element = tally.build_place()
        for item in _learn_simple_items(element, value):
            _learn(element, item, tally)
    else:
        place.add_type(classify(value))


def _learn_simple_items(element: _Place, items: list[JsonValue]) -> list[JsonValue]:
    """Learn what takes no look at each item, and leave those that do."""
    kinds = set(map(type, items))
    if not items or type(None) in kinds:
        element.add_type(DataType.NULL)
    if bool in kinds:
        element.add_type(DataType.BOOLEAN)
    if int in kinds:
        whole = [item for item in items if type(item) is int]
        element.add_type(classify_number(min(whole)))  # each type of whole numbers includes the narrower ones
        element.add_type(classify_number(max(whole)))
    return items if kinds.isdisjoint(_SIMPLE) else [item for item in items if type(item) not in _SIMPLE]


_SIMPLE: Final = frozenset((type(None), bool, int))


@lru_cache(maxsize=4096)
def _add_type(types: TypeSet, data_type: DataType) -> TypeSet:
    return type_set((*types, data_type))


def _freeze(place: _Place) -> SchemaNode:
    if not place.children and place.element is None and place.kind is Kind.LEAF and len(place.types) == 1:
        return _LEAVES[place.types[0]]
    children = dict[str, SchemaNode]()
    for name, child in place.children.items():
        children[name] = _freeze(child)
    element = None if place.element is None else _freeze(place.element)
    return SchemaNode(kind=place.kind, types=place.types, children=children, element=element)


def classify(value: JsonScalar) -> DataType:
    """The type of a scalar (docs/reference/models.md#data-types)."""
    if isinstance(value, str):
        return classify_text(value)
    if value is None:
        return DataType.NULL
    if isinstance(value, bool):
        return DataType.BOOLEAN
    return classify_number(value)


def merge(a: SchemaNode, b: SchemaNode) -> SchemaNode:
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
    return SchemaNode(kind=_choose_kind(a.kind, b.kind), types=_unite_types(a, b), children=children, element=element)


def merge_all(nodes: Iterable[SchemaNode]) -> SchemaNode:
    """What merging them one after the other gives, in time proportional to their size."""
    root = _Place()
    for node in nodes:
        _unite(root, node)
    return _freeze(root)


def _unite(place: _Place, node: SchemaNode) -> None:
    place.kind = _choose_kind(place.kind, node.kind)
    for data_type in node.types:
        place.add_type(data_type)
    for name, child in node.children.items():
        known = place.children.get(name)
        if known is None:
            known = place.children[name] = _Place()
        _unite(known, child)
    if node.element is not None:
        if place.element is None:
            place.element = _Place()
        _unite(place.element, node.element)


def _choose_kind(a: Kind, b: Kind) -> Kind:
    return a if _RANK[a] >= _RANK[b] else b


def _unite_types(a: SchemaNode, b: SchemaNode) -> tuple[DataType, ...]:
    return a.types if a.types == b.types else type_set((*a.types, *b.types))
