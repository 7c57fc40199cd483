"""A schema under a change level, compiled: most documents teach it nothing, and that is quick to see.

The test is sound, not complete. A yes means that comparing refuses nothing and merging changes nothing; after a no,
:func:`statewright.schema.change_level.compare_and_extend` finds out. What a yes needs: from ``TYPE`` upwards, or
``ARRAY_ELEMENTS`` for items of arrays, a scalar must be assignable, and merging then leaves the type set as it is;
below, its type must be the only declared one. An empty array counts as one that holds null: it teaches the same.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from statewright.jsonval.values import JsonValue
from statewright.schema.change_level import ChangeLevel, compare_and_extend
from statewright.schema.compiled import Test, array_test, leaf_test, never, object_test
from statewright.schema.inference import classify
from statewright.schema.node import Kind, Node, TypeSet, element_of
from statewright.schema.unique_keys import UniqueKey

Extender: TypeAlias = Callable[[JsonValue], Node]
"""Document to the schema after it; raises what :func:`compare_and_extend` raises."""


def compile_extender(node: Node, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()) -> Extender:
    """:func:`compare_and_extend` for one schema and level, and quick with documents that teach nothing."""
    fits = _member_test(node, level)

    def extender(document: JsonValue) -> Node:
        return node if fits(document) else compare_and_extend(node, document, level, unique_keys)

    return extender


def _member_test(node: Node, level: ChangeLevel) -> Test:
    return _test(node, level, is_lenient=level.includes(ChangeLevel.TYPE))


def _item_test(node: Node, level: ChangeLevel) -> Test:
    return _test(node, level, is_lenient=level.includes(ChangeLevel.ARRAY_ELEMENTS))


def _test(node: Node, level: ChangeLevel, *, is_lenient: bool) -> Test:
    if node.kind is Kind.LEAF:
        return leaf_test(node.types) if is_lenient else _exact_test(node.types)
    beside = _is_null if is_lenient and node.types else never
    if node.kind is Kind.ARRAY:
        fits_item = _item_test(element_of(node), level)
        return array_test(fits_item, beside, accepts_empty=fits_item(None))
    children = dict[str, Test]()
    for name, child in node.children.items():
        children[name] = _member_test(child, level)
    return object_test(children, beside)


def _exact_test(types: TypeSet) -> Test:
    if len(types) != 1:
        return never

    def fits(value: JsonValue) -> bool:
        return not isinstance(value, dict | list) and classify(value) is types[0]

    return fits


def _is_null(value: JsonValue) -> bool:
    return value is None
