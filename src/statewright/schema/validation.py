"""Strict validation: does a document fit a schema as it is (docs/reference/models.md#strict-validation).

This module finds everything that is wrong with a document, and where; :mod:`statewright.schema.compiler` finds out
first, and much faster, whether anything is.

Objects and arrays offered to a leaf are refused as wrong containers. The reference counts them as strings, so that a
``STRING`` field swallows whole objects; the list of quirks (docs/reference/models.md#strict-validation, 1) calls this
an accident. Here they get a 400 that names the place, as under a change level.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.failures import BadRequest, Failure, IncompatibleType, Property
from statewright.jsonval.numbers import is_assignable
from statewright.jsonval.values import DataType, JsonValue, item_path, member_path
from statewright.schema.inference import classify
from statewright.schema.node import Kind, SchemaNode, TypeSet, element_of

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
    if depth >= MAX_DEPTH:
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
