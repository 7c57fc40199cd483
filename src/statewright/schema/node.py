"""The schema tree: what may stand at each place of a model's documents, and how large it may become
(docs/reference/models.md#nodes, docs/reference/models.md#sets-of-types, docs/reference/models.md#merging).

*Learning* (docs/reference/models.md#inference). Samples and descriptions of schemas become trees, and two trees one
that admits both. What is read is added to growing places at once, so that it costs its own size only, and reading can
stop where more places come up than a model may have, whatever the rest of the text holds. Functions that descend into
documents take one frame of the interpreter's stack per level, so that the deepest document that
:mod:`statewright.jsonval.codec` lets in (256 levels) is far from its limit.

*Field paths* (docs/reference/models.md#declared-fields). Conditions are checked and typed against the schema as a flat
map of them.

*Stored form.* A schema is stored with its model as a table of nodes that refer to each other by position::

    [["OBJECT", [], {"sku": 1, "tags": 2}], ["LEAF", ["STRING"]], ["ARRAY", [], 3], ["LEAF", ["STRING"]]]

The first row is the root, and every row stands before those it refers to. A nested form would be more than twice as
deep as the documents it describes, which may be as deep as JSON is accepted at all.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct, ValidationError, convert

from statewright.failures import BadRequest
from statewright.jsonval.numbers import DECIMAL_TYPES, INTEGER_TYPES, NUMERIC_TYPES, classify_number, is_assignable
from statewright.jsonval.temporals import classify_text
from statewright.jsonval.values import DataType, JsonScalar, JsonValue

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


class DeclaredField(Struct, frozen=True, kw_only=True):
    """The data types declared for one field.

    ``is_array`` marks the items of an array of scalars; their path ends in ``[*]``. Fields below an array of objects
    have ``[*]`` inside the path and no mark.
    """

    types: frozenset[DataType]
    is_array: bool = False


def flatten_fields(node: SchemaNode) -> Mapping[str, DeclaredField]:
    """Path (``$.lines[*].sku``) to field, in order of the paths. Objects have an entry only as mixed slots."""
    fields = dict[str, DeclaredField]()
    _collect(node, "$", fields)
    return {path: fields[path] for path in sorted(fields)}


def _collect(node: SchemaNode, path: str, fields: dict[str, DeclaredField]) -> None:
    if node.kind is Kind.LEAF or (node.kind is Kind.OBJECT and is_mixed(node)):
        fields[path] = DeclaredField(types=frozenset(node.types))
    if node.kind is Kind.OBJECT:
        for name, child in node.children.items():
            _collect(child, f"{path}.{name}", fields)
    elif node.kind is Kind.ARRAY:
        _collect_items(element_of(node), f"{path}[*]", fields)


def _collect_items(element: SchemaNode, path: str, fields: dict[str, DeclaredField]) -> None:
    if element.kind is Kind.LEAF:
        fields[path] = DeclaredField(types=frozenset(element.types), is_array=True)
    else:
        _collect(element, path, fields)


class _Leaf(Struct, frozen=True, array_like=True, tag="LEAF"):
    types: TypeSet


class _Object(Struct, frozen=True, array_like=True, tag="OBJECT"):
    types: TypeSet
    children: dict[str, int]


class _Array(Struct, frozen=True, array_like=True, tag="ARRAY"):
    types: TypeSet
    element: int


_Row: TypeAlias = _Leaf | _Object | _Array


class UnreadableSchema(ValueError):
    """What is stored as a schema is none; it was not written by :func:`schema_to_stored`."""


def schema_to_stored(node: SchemaNode) -> JsonValue:
    """The table of a tree in normal form; :func:`schema_from_stored` gives the tree back."""
    nodes, rows = [node], list[JsonValue]()
    for current in nodes:  # grows while it is read
        types: list[JsonValue] = [str(data_type) for data_type in current.types]
        row: list[JsonValue] = [str(current.kind), types]
        if current.kind is Kind.OBJECT:
            first = len(nodes)
            nodes.extend(current.children.values())
            row.append({name: first + offset for offset, name in enumerate(current.children)})
        elif current.kind is Kind.ARRAY:
            row.append(len(nodes))
            nodes.append(element_of(current))
        rows.append(row)
    return rows


def schema_from_stored(value: JsonValue) -> SchemaNode:
    """The tree of a table. Raises :class:`UnreadableSchema`."""
    try:
        rows = convert(value, list[_Row])
        nodes = dict[int, SchemaNode]()
        for position in reversed(range(len(rows))):
            nodes[position] = _build_node(rows[position], nodes)
        return nodes[0]
    except (ValidationError, KeyError) as error:
        raise UnreadableSchema(f"stored schema: {error}") from error


def _build_node(row: _Row, later: dict[int, SchemaNode]) -> SchemaNode:
    types = type_set(row.types)
    match row:
        case _Leaf():
            return SchemaNode(kind=Kind.LEAF, types=types)
        case _Object(children=children):
            return SchemaNode(
                kind=Kind.OBJECT, types=types, children={name: later[at] for name, at in children.items()}
            )
        case _Array(element=element):
            return SchemaNode(kind=Kind.ARRAY, types=types, element=later[element])


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
        for start in range(0, len(value) or 1, _SLICE):
            for item in _learn_simple_items(element, value[start : start + _SLICE]):
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


_SLICE: Final = 10_000
"""Items that are gone through in single calls, during which other threads stand still."""

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
