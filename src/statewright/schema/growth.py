"""How far the documents of a model may change its schema (docs/reference/models.md#change-level).

Under a change level a document is not validated. Its own tree is compared with that of the model, and is either
refused or merged into it. Comparing is stricter than validating in one way: below ``TYPE`` even a value that fits is
refused when its type is not the declared one. What the reference refuses with an internal error is a ``BAD_REQUEST``
here, which names the place (decision S6).

*The quick test.* Most documents cause no growth, and a schema compiled for its change level sees that quickly. The test
is sound, not complete. True means that comparing refuses nothing and merging changes nothing; after False,
:func:`extend_schema` decides. It is compiled when it is first asked for: of the schemas that documents extend, most are
never held against another document. What True needs: from ``TYPE`` upwards, or ``ARRAY_ELEMENTS`` for items of arrays,
a scalar must be assignable, and merging then leaves the type set as it is; below, its type must be the only declared
one. An empty array counts as one that holds null: both extend alike.
"""

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from statewright.failures import BadRequest, PolymorphicSlot
from statewright.jsonval.values import DataType, JsonValue, extend_path
from statewright.schema.node import (
    NULL_LEAF,
    Kind,
    SchemaNode,
    TypeSet,
    classify,
    count_fields,
    element_of,
    find_sample_limit,
    infer,
    merge,
    normalise,
    require_field_limit,
)
from statewright.schema.unique_keys import InvalidUniqueKeyDefinition, UniqueKey, find_definition_fault
from statewright.schema.validation import Test, build_array_test, build_leaf_test, build_object_test, reject


class ChangeLevel(StrEnum):
    """What a document may add to its model; each level includes those before it."""

    ARRAY_LENGTH = "ARRAY_LENGTH"
    ARRAY_ELEMENTS = "ARRAY_ELEMENTS"
    TYPE = "TYPE"
    STRUCTURAL = "STRUCTURAL"

    def includes(self, other: "ChangeLevel") -> bool:
        """Whether what ``other`` lets through is let through here."""
        return _RANK[self] >= _RANK[other]


_RANK: Final = {level: rank for rank, level in enumerate(ChangeLevel)}


def extend_schema(
    node: SchemaNode, incoming: SchemaNode, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()
) -> SchemaNode:
    """The schema after a document of the tree ``incoming`` was accepted: ``node`` itself when there is no growth.

    Raises :class:`BadRequest` when the level does not allow the change, the schema cannot express it, or would be too
    large, :class:`PolymorphicSlot` when a scalar, an object and an array meet at one place, and
    :class:`InvalidUniqueKeyDefinition` when a field of a unique key would no longer be a scalar.
    """
    _compare(node, incoming, "", level)
    extended = normalise(merge(node, incoming))
    if extended == node:
        return node
    if fault := find_definition_fault(unique_keys, extended):
        raise InvalidUniqueKeyDefinition(f"schema change would invalidate a composite unique key: {fault}")
    _require_expressible(node, extended, "")
    require_field_limit(extended, node)
    return extended


def _compare(stored: SchemaNode, incoming: SchemaNode, path: str, level: ChangeLevel) -> None:
    """Raises the refusal of a change that the level does not allow
    (docs/reference/models.md#refusals-under-a-change-level).
    """
    if stored.kind is not incoming.kind:
        _require_null(stored, incoming, path)
        _require(level, ChangeLevel.TYPE, f"nullable marker at {_format_path(path)}")
    elif stored.kind is Kind.OBJECT:
        for name, child in incoming.children.items():
            if (known := stored.children.get(name)) is not None:
                _compare(known, child, extend_path(path, f".{name}"), level)
            else:
                place = extend_path(path, f".{name}")
                _require(level, ChangeLevel.STRUCTURAL, f'new field "{name}" at {place}')
    elif stored.kind is Kind.ARRAY:
        _compare_elements(element_of(stored), element_of(incoming), extend_path(path, "[]"), level)
    elif stored.types != incoming.types:
        _require(level, ChangeLevel.TYPE, f"type change at {_format_path(path)}")


def _compare_elements(stored: SchemaNode, incoming: SchemaNode, path: str, level: ChangeLevel) -> None:
    if stored.kind is not incoming.kind:
        _require_null(stored, incoming, path)
        _require(level, ChangeLevel.ARRAY_ELEMENTS, f"nullable marker on array element at {path}")
    elif stored.kind is Kind.OBJECT:
        _compare(stored, incoming, path, level)
    elif stored.kind is Kind.ARRAY:
        _compare_elements(element_of(stored), element_of(incoming), extend_path(path, "[]"), level)
    elif stored.types != incoming.types:
        _require(level, ChangeLevel.ARRAY_ELEMENTS, f"array element type change at {path}")


def _require_null(stored: SchemaNode, incoming: SchemaNode, path: str) -> None:
    """Different kinds can only meet when one of them is no more than null."""
    if NULL_LEAF not in (stored, incoming):
        raise PolymorphicSlot(
            f"polymorphic slot at {_format_path(path)}: {incoming.kind} where the model has {stored.kind}",
        )


def _require(level: ChangeLevel, needed: ChangeLevel, change: str) -> None:
    if not level.includes(needed):
        raise BadRequest(f'change level violation: {change} requires {needed} level, but level is "{level}"')


def _require_expressible(stored: SchemaNode, extended: SchemaNode, path: str) -> None:
    """Raises when a place would have to become something that later documents could not be held against
    (docs/reference/models.md#refusals-under-a-change-level).
    """
    if stored.kind is Kind.LEAF:
        if extended.kind is not Kind.LEAF:
            raise BadRequest(_format_inexpressible(path, f"known only as null so far, cannot become {extended.kind}"))
        return
    if gained := [str(gain) for gain in extended.types if gain not in (*stored.types, DataType.NULL)]:
        raise BadRequest(_format_inexpressible(path, f"known as {stored.kind}, cannot also hold {', '.join(gained)}"))
    for name, child in stored.children.items():
        _require_expressible(child, extended.children[name], extend_path(path, f".{name}"))
    if stored.kind is Kind.ARRAY:
        _require_expressible(element_of(stored), element_of(extended), extend_path(path, "[]"))


def _format_inexpressible(path: str, reason: str) -> str:
    return f"the schema cannot be extended at {_format_path(path)}: {reason}"


def _format_path(path: str) -> str:
    return path or "$"


FIELD_WEIGHT: Final = 64
"""Bytes of a document that take as long to infer as extending a schema takes for each of its fields (measured)."""


INFERENCE_WEIGHT: Final = 4
"""Times that inferring a document takes longer than decoding it, at the worst."""


class Extension(Struct, frozen=True, eq=False):
    """What a document teaches: ``incoming``, its own tree, and ``schema``, that of the model after it."""

    incoming: SchemaNode
    schema: SchemaNode


class Extender:
    """One schema that documents may extend as far as a change level goes."""

    def __init__(self, schema: SchemaNode, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()) -> None:
        self.schema = schema
        self._level = level
        self._unique_keys = unique_keys

    @cached_property
    def fits(self) -> Test:
        """Whether a document certainly causes no growth; compiled at the first use."""
        return _build_member_test(self.schema, self._level)

    @cached_property
    def fields(self) -> int:
        """Places of the schema, which extending goes through, however small the document is."""
        return count_fields(self.schema)

    @property
    def is_compiled(self) -> bool:
        """Whether ``fits`` can be called at once."""
        return "fits" in self.__dict__

    def compile(self) -> "Extender":
        """Itself, so that the first document need not wait for what is compiled at the first use."""
        _ = self.fits, self.fields  # for what they keep
        return self

    def extend(self, document: JsonValue) -> Extension | None:
        """What a document teaches; None when there is no growth. Raises what :func:`extend_schema` does."""
        if self.fits(document):
            return None
        incoming = infer(document, find_sample_limit(self.schema))
        extended = extend_schema(self.schema, incoming, self._level, self._unique_keys)
        return None if extended is self.schema else Extension(incoming, extended)

    def follow(self, schema: SchemaNode) -> "Extender":
        """The same for the schema after some growth."""
        return Extender(schema, self._level, self._unique_keys)


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
