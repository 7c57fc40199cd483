"""How far the documents of a model may change its schema (docs/reference/models.md#change-level).

Under a change level a document is not validated. Its own tree is compared with that of the model, and is either
refused or merged into it. Comparing is stricter than validating in one way: below ``TYPE`` even a value that fits is
refused when its type is not the declared one.

What the reference refuses with an internal error is a ``BAD_REQUEST`` here, which names the place (decision S6).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from statewright.failures import BadRequest, PolymorphicSlot
from statewright.jsonval.values import DataType, JsonValue, extend_path
from statewright.schema.inference import infer, merge
from statewright.schema.node import (
    NULL_LEAF,
    Kind,
    SchemaNode,
    element_of,
    find_sample_limit,
    normalise,
    require_field_limit,
)
from statewright.schema.unique_keys import InvalidUniqueKeyDefinition, UniqueKey, find_definition_fault


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


def compare_and_extend(
    node: SchemaNode, document: JsonValue, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()
) -> SchemaNode:
    """The schema after the document was accepted: ``node`` itself when there is no growth.

    Raises :class:`BadRequest` when the level does not allow the change, the schema cannot express it, or would be too
    large, :class:`PolymorphicSlot` when a scalar, an object and an array meet at one place, and
    :class:`InvalidUniqueKeyDefinition` when a field of a unique key would no longer be a scalar.
    """
    incoming = infer(document, find_sample_limit(node))
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
