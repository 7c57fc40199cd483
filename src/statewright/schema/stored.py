"""The form in which a schema is stored with its model: a table of nodes that refer to each other by position.

``[["OBJECT", [], {"sku": 1, "tags": 2}], ["LEAF", ["STRING"]], ["ARRAY", [], 3], ["LEAF", ["STRING"]]]``

The first row is the root, and every row stands before those it refers to. A nested form would be more than twice as
deep as the documents it describes, which may be as deep as JSON is accepted at all.
"""

from typing import TypeAlias

from msgspec import Struct, ValidationError, convert

from statewright.jsonval.values import JsonValue
from statewright.schema.node import Kind, SchemaNode, TypeSet, element_of, type_set


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
