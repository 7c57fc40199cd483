"""Strict validation: does a document fit a schema as it is (docs/reference/models.md#strict-validation).

On every write run nested closures, compiled of the schema, which say whether the document is valid, and nothing else.
Only an invalid document is gone through again, to find everything that is wrong with it, and where.

Objects and arrays offered to a leaf are refused as wrong containers. The reference counts them as strings, so that a
``STRING`` field swallows whole objects; the list of quirks (docs/reference/models.md#strict-validation, 1) calls this
an accident. Here they get a 400 that names the place, as under a change level.
"""

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache, partial
from typing import Final, TypeAlias

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.failures import BadRequest, Failure, IncompatibleType, Property
from statewright.jsonval.numbers import classify_number, is_assignable
from statewright.jsonval.temporals import classify_text
from statewright.jsonval.values import DataType, JsonValue, item_path, member_path
from statewright.schema.node import Kind, SchemaNode, TypeSet, classify, element_of

MAX_DEPTH: Final = 256
"""Places at this depth, the root being at 0, are not looked at (docs/reference/models.md#strict-validation, rule 1)."""


class Violation(Struct, frozen=True, kw_only=True):
    """One thing that is wrong. ``actual`` and ``expected`` are set when a scalar has a type its leaf does not admit."""

    path: str
    message: str
    actual: DataType | None = None
    expected: TypeSet = ()

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def validate(node: SchemaNode, document: JsonValue) -> tuple[Violation, ...]:
    """What is wrong with the document, in document order; empty when it is valid.

    Of more than :data:`MAX_FOUND` the rest is left out, but for the first one about the type of a scalar.
    """
    found = _Findings()
    _examine(node, document, "", 0, found)
    return tuple(found.violations)


MAX_FOUND: Final = 1000
"""Violations that are kept: a document may have as many as values, which is millions."""


class _Findings:
    def __init__(self) -> None:
        self.violations = list[Violation]()
        self._has_type = False

    @property
    def is_full(self) -> bool:
        """Whether nothing is kept of what is still found."""
        return self._has_type and len(self.violations) >= MAX_FOUND

    def append(self, violation: Violation) -> None:
        is_first_type = violation.actual is not None and not self._has_type
        if len(self.violations) < MAX_FOUND or is_first_type:
            self.violations.append(violation)
            self._has_type = self._has_type or is_first_type

    def extend(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            self.append(violation)


MAX_DESCRIBED: Final = 100
"""Violations that a refusal describes: a document may have as many as members."""


def describe_violations(violations: Sequence[Violation]) -> str:
    """``<path>: <message>; <path>: <message>``, and how many more there are."""
    described = [*map(str, violations[:MAX_DESCRIBED])]
    if len(violations) > MAX_DESCRIBED:
        described.append("and more" if len(violations) >= MAX_FOUND else f"and {len(violations) - MAX_DESCRIBED} more")
    return "; ".join(described)


def build_validation_failure(violations: Sequence[Violation], model: ModelKey) -> Failure:
    """The failure of a write whose document is not valid; a wrong type of a scalar outweighs everything else."""
    message = f"validation failed: {describe_violations(violations)}"
    for violation in violations:
        if violation.actual is not None:
            return IncompatibleType(message, _build_properties(violation, violation.actual, model))
    return BadRequest(message)


def _build_properties(violation: Violation, actual: DataType, model: ModelKey) -> dict[str, Property]:
    return {
        "entityName": model.name,
        "entityVersion": str(model.version),  # a text here, a number on all model endpoints
        "fieldPath": violation.path,
        "expectedType": [str(data_type) for data_type in violation.expected],
        "actualType": str(actual),
    }


def _examine(node: SchemaNode, value: JsonValue, path: str, depth: int, found: _Findings) -> None:
    if found.is_full:
        pass
    elif depth >= MAX_DEPTH:
        found.append(Violation(path=path, message=f"validation depth exceeded (max {MAX_DEPTH})"))
    elif node.kind is Kind.LEAF:
        found.extend(_find_mismatches(node.types, value, path))
    elif admits_beside(node, value):
        pass
    elif node.kind is Kind.OBJECT and isinstance(value, dict):
        for name, member in value.items():
            if (child := node.children.get(name)) is not None:
                _examine(child, member, member_path(path, name), depth + 1, found)
            else:
                found.append(_build_unexpected(member_path(path, name)))
    elif node.kind is Kind.ARRAY and isinstance(value, list):
        for index, item in enumerate(value):
            _examine(element_of(node), item, item_path(path, index), depth + 1, found)
    else:
        found.append(_build_wrong_container(node.kind.lower(), value, path))


def admits_beside(container: SchemaNode, value: JsonValue) -> bool:
    """Whether a value that is no container may stand in place of this object or array
    (docs/reference/models.md#strict-validation, rule 2).
    """
    if not container.types or isinstance(value, dict | list):
        return False
    return value is None or admits(container.types, classify(value))


def admits(types: TypeSet, actual: DataType) -> bool:
    """Whether a scalar of type ``actual`` may be stored where ``types`` are declared."""
    return any(is_assignable(actual, declared) for declared in types)


def _find_mismatches(types: TypeSet, value: JsonValue, path: str) -> Iterator[Violation]:
    if isinstance(value, dict | list):
        yield _build_wrong_container("scalar", value, path)
    elif value is not None and not admits(types, actual := classify(value)):
        message = f"value of type {actual} is not compatible with [{' '.join(types)}]"
        yield Violation(path=path, message=message, actual=actual, expected=types)


def _build_unexpected(path: str) -> Violation:
    return Violation(path=path, message="unexpected field not present in model")


def _build_wrong_container(expected: str, value: JsonValue, path: str) -> Violation:
    return Violation(path=path, message=f"expected {expected}, got {kind_of(value)}")


def kind_of(value: JsonValue) -> str:
    """The JSON type of the value, as messages name it."""
    return _WORDS[type(value)]


_WORDS: Final[Mapping[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    Decimal: "number",
    type(None): "null",
}


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
