"""A schema under a change level, compiled: most documents cause no growth, and that is quick to see.

The test is sound, not complete. True means that comparing refuses nothing and merging changes nothing; after False,
:func:`statewright.schema.change_level.compare_and_extend` decides. What True needs: from ``TYPE`` upwards, or
``ARRAY_ELEMENTS`` for items of arrays, a scalar must be assignable, and merging then leaves the type set as it is;
below, its type must be the only declared one. An empty array counts as one that holds null: both extend alike.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from statewright.jsonval.values import JsonValue
from statewright.schema.change_level import ChangeLevel, compare_and_extend
from statewright.schema.compiler import Test, build_array_test, build_leaf_test, build_object_test, reject
from statewright.schema.inference import classify
from statewright.schema.node import Kind, SchemaNode, TypeSet, element_of
from statewright.schema.unique_keys import UniqueKey

Extender: TypeAlias = Callable[[JsonValue], SchemaNode]
"""Document to the schema after it; raises what :func:`compare_and_extend` raises."""


def compile_extender(node: SchemaNode, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()) -> Extender:
    """:func:`compare_and_extend` for one schema and level, and quick with documents that cause no growth."""
    fits = _build_member_test(node, level)

    def extender(document: JsonValue) -> SchemaNode:
        return node if fits(document) else compare_and_extend(node, document, level, unique_keys)

    return extender


def _build_member_test(node: SchemaNode, level: ChangeLevel) -> Test:
    return _build_test(node, level, is_lenient=level.includes(ChangeLevel.TYPE))


def _build_item_test(node: SchemaNode, level: ChangeLevel) -> Test:
    return _build_test(node, level, is_lenient=level.includes(ChangeLevel.ARRAY_ELEMENTS))


def _build_test(node: SchemaNode, level: ChangeLevel, *, is_lenient: bool) -> Test:
    if node.kind is Kind.LEAF:
        return build_leaf_test(node.types) if is_lenient else _build_exact_test(node.types)
    beside = _is_null if is_lenient and node.types else reject
    if node.kind is Kind.ARRAY:
        fits_item = _build_item_test(element_of(node), level)
        return build_array_test(fits_item, beside, accepts_empty=fits_item(None))
    children = dict[str, Test]()
    for name, child in node.children.items():
        children[name] = _build_member_test(child, level)
    return build_object_test(children, beside)


def _build_exact_test(types: TypeSet) -> Test:
    if len(types) != 1:
        return reject

    def fits(value: JsonValue) -> bool:
        return not isinstance(value, dict | list) and classify(value) is types[0]

    return fits


def _is_null(value: JsonValue) -> bool:
    return value is None
