"""A schema while it is learnt: places that grow as samples, or descriptions of schemas, are read.

What is read is added to the places at once, so that it costs its own size only, and reading can stop where more places
come up than a model may have, whatever the rest of the text holds.
"""

from functools import lru_cache
from typing import Final

from statewright.failures import BadRequest
from statewright.jsonval.values import DataType
from statewright.schema.node import Kind, SchemaNode, TypeSet, describe_excess, leaf, type_set

_LEAVES: Final = {data_type: leaf(data_type) for data_type in DataType}
_RANK: Final = {kind: rank for rank, kind in enumerate(Kind)}


class Tally:
    """The places of one schema. Beyond ``limit`` no more are built; None is no limit."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._count = 0

    def build_place(self) -> "Place":
        """A further place. Raises ``BadRequest`` when there are too many."""
        self._count += 1
        if self._limit is not None and self._count > self._limit:
            raise BadRequest(describe_excess(f"more than {self._limit}"))
        return Place()


class Place:
    """What was seen at one place so far."""

    __slots__ = ("children", "element", "kind", "types")

    def __init__(self) -> None:
        self.kind = Kind.LEAF
        self.types: TypeSet = ()
        self.children: dict[str, Place] = {}
        self.element: Place | None = None

    def add_type(self, data_type: DataType) -> None:
        """A scalar of that type was seen."""
        if data_type not in self.types:
            self.types = _add_type(self.types, data_type)

    def add_kind(self, kind: Kind) -> None:
        """A value of that kind was seen."""
        self.kind = choose_kind(self.kind, kind)

    def get_child(self, name: str, tally: Tally) -> "Place":
        """The place of a member."""
        child = self.children.get(name)
        if child is None:
            child = self.children[name] = tally.build_place()
        return child

    def get_element(self, tally: Tally) -> "Place":
        """The place of all items."""
        if self.element is None:
            self.element = tally.build_place()
        return self.element

    def freeze(self) -> SchemaNode:
        """The tree of what was seen."""
        if not self.children and self.element is None and self.kind is Kind.LEAF and len(self.types) == 1:
            return _LEAVES[self.types[0]]
        children = dict[str, SchemaNode]()
        for name, child in self.children.items():
            children[name] = child.freeze()
        element = None if self.element is None else self.element.freeze()
        return SchemaNode(kind=self.kind, types=self.types, children=children, element=element)


def choose_kind(a: Kind, b: Kind) -> Kind:
    """The kind of a place where both were seen."""
    return a if _RANK[a] >= _RANK[b] else b


@lru_cache(maxsize=4096)
def _add_type(types: TypeSet, data_type: DataType) -> TypeSet:
    return type_set((*types, data_type))
