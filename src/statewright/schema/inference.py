"""From sample values to schema trees, and from two trees to one that admits both (docs/reference/models.md#inference,
docs/reference/models.md#merging).

Functions that descend into documents take one frame of the interpreter's stack per level, so that the deepest document
that :mod:`statewright.jsonval.codec` lets in (256 levels) is far from its limit.
"""

from typing import Final

from statewright.jsonval.numbers import classify_number
from statewright.jsonval.temporals import classify_text
from statewright.jsonval.values import DataType, JsonScalar, JsonValue
from statewright.schema.node import Kind, SchemaNode, type_set
from statewright.schema.places import Place, Tally, choose_kind


def infer(value: JsonValue, max_fields: int | None = None) -> SchemaNode:
    """The tree of one sample. The items of an array are merged, not told apart by position.

    Raises ``BadRequest`` as soon as the tree has more than ``max_fields`` places, when such a limit is given.
    """
    root = Place()
    learn(root, value, Tally(max_fields))
    return root.freeze()


def learn(place: Place, value: JsonValue, tally: Tally) -> None:
    """Add a sample to what was seen at a place. Raises ``BadRequest`` as ``tally`` does."""
    if isinstance(value, dict):
        place.kind = Kind.OBJECT
        children = place.children
        for name, member in value.items():
            child = children.get(name)
            if child is None:
                child = children[name] = tally.build_place()
            learn(child, member, tally)
    elif isinstance(value, list):
        place.add_kind(Kind.ARRAY)
        element = place.get_element(tally)
        for item in _learn_simple_items(element, value):
            learn(element, item, tally)
    else:
        place.add_type(classify(value))


def _learn_simple_items(element: Place, items: list[JsonValue]) -> list[JsonValue]:
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
    return SchemaNode(kind=choose_kind(a.kind, b.kind), types=_unite_types(a, b), children=children, element=element)


def _unite_types(a: SchemaNode, b: SchemaNode) -> tuple[DataType, ...]:
    return a.types if a.types == b.types else type_set((*a.types, *b.types))
