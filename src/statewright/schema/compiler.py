"""Schemas compiled into nested closures that say whether a document is valid; they run on every write.

Only an invalid document is gone through again by :mod:`statewright.schema.validation`, to say what is wrong with it.
"""

import math
from collections.abc import Callable, Container, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from typing import Final, TypeAlias

from statewright.jsonval.numbers import classify_number
from statewright.jsonval.temporals import classify_text
from statewright.jsonval.values import DataType, JsonValue
from statewright.schema.node import Kind, SchemaNode, TypeSet, element_of
from statewright.schema.validation import MAX_DEPTH, Violation, admits, admits_beside, validate

Validator: TypeAlias = Callable[[JsonValue], tuple[Violation, ...]]
Test: TypeAlias = Callable[[JsonValue], bool]

_RANGES: Final[Mapping[DataType, tuple[float, float]]] = {
    DataType.INTEGER: (-(1 << 31), (1 << 31) - 1),
    DataType.LONG: (-(1 << 63), (1 << 63) - 1),
    DataType.BIG_INTEGER: (-(1 << 127), (1 << 127) - 1),
    DataType.UNBOUND_INTEGER: (-math.inf, math.inf),
}
"""Whole types, narrow to wide (docs/reference/models.md#numbers)."""

_MAX_SHORT_CHARS: Final = 10
"""Characters of a decimal that has fewer than 15 digits and, if it is whole, lies in the range of an ``INTEGER``."""


def compile_validator(node: SchemaNode) -> Validator:
    """:func:`statewright.schema.validation.validate` for one schema, and quick with valid documents."""
    accepts = compile_test(node)

    def validator(document: JsonValue) -> tuple[Violation, ...]:
        return () if accepts(document) else validate(node, document)

    return validator


def compile_test(node: SchemaNode, depth: int = 0) -> Test:
    """Whether a value is valid at a place of the given depth; the root's is 0."""
    if depth >= MAX_DEPTH:
        return reject
    if node.kind is Kind.LEAF:
        return build_leaf_test(node.types)
    beside = partial(admits_beside, node) if node.types else reject
    if node.kind is Kind.ARRAY:
        return build_array_test(compile_test(element_of(node), depth + 1), beside, accepts_empty=True)
    children = dict[str, Test]()
    for name, child in node.children.items():
        children[name] = compile_test(child, depth + 1)
    return build_object_test(children, beside)


def build_object_test(children: Mapping[str, Test], beside: Test) -> Test:
    """Whether a value is an object of known members that pass their tests; ``beside`` is the test for other kinds."""
    test_of = children.get

    def accepts(value: JsonValue) -> bool:
        if type(value) is not dict:
            return beside(value)
        for name, member in value.items():
            test = test_of(name)
            if test is None or not test(member):
                return False
        return True

    return accepts


def build_array_test(accepts_item: Test, beside: Test, *, accepts_empty: bool) -> Test:
    """Whether a value is an array of items that pass the test; ``beside`` is the test for other kinds."""

    def accepts(value: JsonValue) -> bool:
        if type(value) is not list:
            return beside(value)
        for item in value:  # all() would take two more stack frames per level of the document
            if not accepts_item(item):
                return False
        return accepts_empty or value != []

    return accepts


@lru_cache(maxsize=4096)  # schemas have many leaves of few kinds, and what they admit is costly to find
def build_leaf_test(types: TypeSet) -> Test:
    """Whether a value is a scalar that may be stored where ``types`` are declared."""
    admitted = frozenset(actual for actual in DataType if admits(types, actual))
    low, high = _find_whole_range(admitted)
    is_boolean = DataType.BOOLEAN in admitted
    is_double = DataType.DOUBLE in admitted  # and so is INTEGER
    is_text = DataType.STRING in admitted

    def accepts(value: JsonValue) -> bool:
        if type(value) is str:
            return (is_text and not "0" <= value[:1] <= "9") or classify_text(value) in admitted
        if type(value) is int:
            return low <= value <= high
        if type(value) is Decimal:
            return (is_double and _is_short(value)) or classify_number(value) in admitted
        return value is None or (is_boolean and type(value) is bool)

    return accepts


def _find_whole_range(admitted: Container[DataType]) -> tuple[float, float]:
    """What integers a leaf admits; where a whole type is admitted, the narrower ones are too."""
    ranges = [bounds for data_type, bounds in _RANGES.items() if data_type in admitted]
    return ranges[-1] if ranges else (1, 0)


def _is_short(value: Decimal) -> bool:
    """Whether the number is certainly a ``DOUBLE`` or an ``INTEGER``: quicker to see than which of the two."""
    text = str(value)
    return len(text) <= _MAX_SHORT_CHARS and "E" not in text


def reject(_: JsonValue) -> bool:
    """The test that nothing passes."""
    return False
