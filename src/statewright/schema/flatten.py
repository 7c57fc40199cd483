"""The schema as a flat map of field paths: what conditions are checked and typed against
(docs/reference/models.md#declared-fields).
"""

from collections.abc import Mapping

from msgspec import Struct

from statewright.jsonval.values import DataType
from statewright.schema.node import Kind, SchemaNode, element_of, is_mixed


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
