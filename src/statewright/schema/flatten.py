"""The schema as a flat map of field paths: what conditions are checked and typed against (spec/models.md §5.11)."""

from collections.abc import Mapping

from msgspec import Struct

from statewright.jsonval.datatypes import DataType
from statewright.schema.node import Kind, Node, element_of, is_mixed


class Declared(Struct, frozen=True, kw_only=True):
    """What is known about one field.

    ``is_array`` marks the items of an array of scalars; their path ends in ``[*]``. Fields below an array of objects
    have ``[*]`` inside the path and no mark.
    """

    types: frozenset[DataType]
    is_array: bool = False


def declared_types(node: Node) -> Mapping[str, Declared]:
    """Path (``$.lines[*].sku``) to field, in order of the paths. Objects have an entry only as mixed slots."""
    fields = dict[str, Declared]()
    _collect(node, "$", fields)
    return {path: fields[path] for path in sorted(fields)}


def _collect(node: Node, path: str, fields: dict[str, Declared]) -> None:
    if node.kind is Kind.LEAF or (node.kind is Kind.OBJECT and is_mixed(node)):
        fields[path] = Declared(types=frozenset(node.types))
    if node.kind is Kind.OBJECT:
        for name, child in node.children.items():
            _collect(child, f"{path}.{name}", fields)
    elif node.kind is Kind.ARRAY:
        _collect_items(element_of(node), f"{path}[*]", fields)


def _collect_items(element: Node, path: str, fields: dict[str, Declared]) -> None:
    if element.kind is Kind.LEAF:
        fields[path] = Declared(types=frozenset(element.types), is_array=True)
    else:
        _collect(element, path, fields)
