"""How far the documents of a model may change its schema (spec/models.md §9).

Under a change level a document is not validated. Its own tree is compared with that of the model, and is either
refused or merged into it. Comparing is stricter than validating in one way: below ``TYPE`` even a value that fits is
refused when its type is not the declared one.

What the reference refuses with an internal error is a ``BAD_REQUEST`` here, which names the place (decision S6).
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from statewright.failures import BadRequest, PolymorphicSlot
from statewright.jsonval.datatypes import DataType
from statewright.jsonval.values import JsonValue
from statewright.schema.inference import infer, merge
from statewright.schema.node import NULL_LEAF, Kind, Node, element_of, normal_form
from statewright.schema.size import require_reasonable
from statewright.schema.unique_keys import InvalidUniqueKeyDefinition, UniqueKey, definition_fault


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
    node: Node, document: JsonValue, level: ChangeLevel, unique_keys: Sequence[UniqueKey] = ()
) -> Node:
    """The schema after the document was accepted: ``node`` itself when it taught nothing new.

    Raises :class:`BadRequest` when the level does not allow the change, the schema cannot express it, or would be too
    large, :class:`PolymorphicSlot` when a scalar, an object and an array meet at one place, and
    :class:`InvalidUniqueKeyDefinition` when a field of a unique key would no longer be a scalar.
    """
    incoming = infer(document)
    _compare(node, incoming, "", level)
    extended = normal_form(merge(node, incoming))
    if extended == node:
        return node
    if fault := definition_fault(unique_keys, extended):
        raise InvalidUniqueKeyDefinition(f"schema change would invalidate a composite unique key: {fault}")
    _require_expressible(node, extended, "")
    require_reasonable(extended, node)
    return extended


def _compare(stored: Node, incoming: Node, path: str, level: ChangeLevel) -> None:
    """Raises what forbids the change (spec/models.md §9.1)."""
    if stored.kind is not incoming.kind:
        _require_null(stored, incoming, path)
        _require(level, ChangeLevel.TYPE, f"nullable marker at {_shown(path)}")
    elif stored.kind is Kind.OBJECT:
        for name, child in incoming.children.items():
            if (known := stored.children.get(name)) is not None:
                _compare(known, child, f"{path}.{name}", level)
            else:
                _require(level, ChangeLevel.STRUCTURAL, f'new field "{name}" at {path}.{name}')
    elif stored.kind is Kind.ARRAY:
        _compare_elements(element_of(stored), element_of(incoming), f"{path}[]", level)
    elif stored.types != incoming.types:
        _require(level, ChangeLevel.TYPE, f"type change at {_shown(path)}")


def _compare_elements(stored: Node, incoming: Node, path: str, level: ChangeLevel) -> None:
    if stored.kind is not incoming.kind:
        _require_null(stored, incoming, path)
        _require(level, ChangeLevel.ARRAY_ELEMENTS, f"nullable marker on array element at {path}")
    elif stored.kind is Kind.OBJECT:
        _compare(stored, incoming, path, level)
    elif stored.kind is Kind.ARRAY:
        _compare_elements(element_of(stored), element_of(incoming), f"{path}[]", level)
    elif stored.types != incoming.types:
        _require(level, ChangeLevel.ARRAY_ELEMENTS, f"array element type change at {path}")


def _require_null(stored: Node, incoming: Node, path: str) -> None:
    """Different kinds can only meet when one of them is no more than null."""
    if NULL_LEAF not in (stored, incoming):
        raise PolymorphicSlot(
            f"polymorphic slot at {_shown(path)}: {incoming.kind} where the model has {stored.kind}",
        )


def _require(level: ChangeLevel, needed: ChangeLevel, change: str) -> None:
    if not level.includes(needed):
        raise BadRequest(f'change level violation: {change} requires {needed} level, but level is "{level}"')


def _require_expressible(stored: Node, extended: Node, path: str) -> None:
    """Raises when a place would have to become something that later documents could not be held against (§9.3)."""
    if stored.kind is Kind.LEAF:
        if extended.kind is not Kind.LEAF:
            raise BadRequest(_inexpressible(path, f"known only as null so far, cannot become {extended.kind}"))
        return
    if gained := [str(gain) for gain in extended.types if gain not in (*stored.types, DataType.NULL)]:
        raise BadRequest(_inexpressible(path, f"known as {stored.kind}, cannot also hold {', '.join(gained)}"))
    for name, child in stored.children.items():
        _require_expressible(child, extended.children[name], f"{path}.{name}")
    if stored.kind is Kind.ARRAY:
        _require_expressible(element_of(stored), element_of(extended), f"{path}[]")


def _inexpressible(path: str, reason: str) -> str:
    return f"the schema cannot be extended at {_shown(path)}: {reason}"


def _shown(path: str) -> str:
    return path or "$"
