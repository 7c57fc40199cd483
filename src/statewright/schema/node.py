"""The schema tree: what may stand at each place of a model's documents, and how large it may become
(docs/reference/models.md#nodes, docs/reference/models.md#sets-of-types, docs/reference/models.md#merging).
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.failures import BadRequest
from statewright.jsonval.numbers import DECIMAL_TYPES, INTEGER_TYPES, NUMERIC_TYPES, is_assignable
from statewright.jsonval.values import DataType

TypeSet: TypeAlias = tuple[DataType, ...]
"""Distinct types in canonical order; ``NULL`` only alone, at most one of them numeric. Built by :func:`type_set`."""

_CANONICAL: Final = {data_type: position for position, data_type in enumerate(DataType)}
_NUMERIC_WIDTH: Final = {data_type: width for width, data_type in enumerate((*INTEGER_TYPES, *DECIMAL_TYPES))}


class Kind(StrEnum):
    """What a place holds; a later kind absorbs an earlier one when both were seen at the same place."""

    LEAF = "LEAF"
    ARRAY = "ARRAY"
    OBJECT = "OBJECT"


class SchemaNode(Struct, frozen=True, kw_only=True):
    """One place of a document.

    A leaf's ``types`` are what its values may be. Those of an object or array are what else was seen at its place:
    nothing, ``NULL`` (it may be null), or the scalar types of a mixed slot. ``children`` belong to objects,
    ``element``, which describes every item, to arrays. A tree fresh from merging may have both at one place.
    """

    kind: Kind
    types: TypeSet = ()
    children: Mapping[str, "SchemaNode"] = {}
    element: "SchemaNode | None" = None


def leaf(*types: DataType) -> SchemaNode:
    """A place that holds scalars of these types."""
    return SchemaNode(kind=Kind.LEAF, types=type_set(types))


def type_set(types: Iterable[DataType]) -> TypeSet:
    """The types in canonical order, numerics collapsed into one, ``NULL`` dropped beside other types
    (docs/reference/models.md#sets-of-types).
    """
    distinct = set(types)
    numerics = distinct & NUMERIC_TYPES
    if len(numerics) > 1:
        distinct = (distinct - numerics) | {collapse(numerics)}
    if len(distinct) > 1:
        distinct.discard(DataType.NULL)
    return tuple(sorted(distinct, key=_CANONICAL.__getitem__))


def collapse(numerics: Iterable[DataType]) -> DataType:
    """The one type for a place that held all these numeric types (docs/reference/models.md#sets-of-types)."""
    members = frozenset(numerics)
    widest = max(members, key=_NUMERIC_WIDTH.__getitem__)  # the widest decimal when there is one: they come last
    return widest if all(is_assignable(member, widest) for member in members) else DataType.UNBOUND_DECIMAL


def element_of(array: SchemaNode) -> SchemaNode:
    """The node that describes every item of an array."""
    return NULL_LEAF if array.element is None else array.element


def is_mixed(container: SchemaNode) -> bool:
    """Whether scalars other than null were seen at the place of this object or array."""
    return container.types not in ((), NULL_LEAF.types)


def normalise(node: SchemaNode) -> SchemaNode:
    """The tree as it is stored: an object keeps no element, so the array branch of a mixed place is lost
    (docs/reference/models.md#merging).
    """
    if node.kind is Kind.ARRAY:
        return SchemaNode(kind=Kind.ARRAY, types=node.types, element=normalise(element_of(node)))
    children = dict[str, SchemaNode]()
    if node.kind is Kind.OBJECT:
        for name, child in node.children.items():
            children[name] = normalise(child)
    return SchemaNode(kind=node.kind, types=node.types, children=children)


NULL_LEAF: Final = leaf(DataType.NULL)
"""A place that only ever held null, or the items of an array that was always empty."""


MAX_FIELDS: Final = 10_000
"""Places of a schema (docs/adr/0018). One with more has values, such as ids, for names of members."""

MAX_PATHS_CHARS: Final = 16 * 1024 * 1024
"""Characters of the paths of all places of a schema: they are written out for conditions and exports, and a long name
stands in the path of everything below it.
"""

MAX_SAMPLE_FIELDS: Final = 2 * MAX_FIELDS
"""Places of one sample, beyond which it is read no further: no model could learn it, whatever the rest holds."""


def find_sample_limit(before: SchemaNode | None = None) -> int:
    """The most places of a sample that may still be learnt; a model that has more already takes as many."""
    return MAX_SAMPLE_FIELDS if before is None else max(MAX_SAMPLE_FIELDS, count_fields(before))


def require_field_limit(schema: SchemaNode, before: SchemaNode | None = None) -> None:
    """Refuse a schema that has become too large; one that was so before may stay as it is. Raises ``BadRequest``."""
    count = count_fields(schema)
    if count > MAX_FIELDS and (before is None or count > count_fields(before)):
        raise BadRequest(describe_excess(str(count)))
    chars = count_path_chars(schema)
    if chars > MAX_PATHS_CHARS and (before is None or chars > count_path_chars(before)):
        raise BadRequest(
            f"the paths of the model's fields would have {chars} characters together, and {MAX_PATHS_CHARS} is the most"
        )


def describe_excess(count: str) -> str:
    """The refusal of a schema of ``count`` places."""
    return (
        f"the model would have {count} fields, and {MAX_FIELDS} is the most; "
        "do values, such as ids or dates, stand for names of members?"
    )


def count_fields(schema: SchemaNode) -> int:
    """Members and elements, at any depth."""
    count, pending = 0, [schema]
    while pending:
        node = pending.pop()
        inner = [*node.children.values(), *([] if node.element is None else [node.element])]
        count += len(inner)
        pending += inner
    return count


def count_path_chars(schema: SchemaNode) -> int:
    """The characters of the paths of all members and elements together."""
    total, pending = 0, [(schema, 0)]
    while pending:
        node, length = pending.pop()
        inner = [(child, length + 1 + len(name)) for name, child in node.children.items()]
        if node.element is not None:
            inner.append((node.element, length + len("[*]")))
        total += sum(chars for _, chars in inner)
        pending += inner
    return total
