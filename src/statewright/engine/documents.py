"""What a model demands of its documents, and what they may teach it (spec/models.md §8, §9, §11)."""

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.identity import ModelId
from statewright.jsonval.values import JsonValue
from statewright.schema import (
    ChangeLevel,
    Claim,
    Extender,
    Node,
    UniqueKey,
    Validator,
    claims,
    compile_extender,
    refuse,
    validate,
)
from statewright.storage.unit_of_work import UnitOfWork


class Documents(Struct, frozen=True, kw_only=True, eq=False):
    """The rules for documents of one model, compiled from one revision of it.

    ``extend`` is None for a model without change level. What the transaction itself has taught the model counts, too.
    """

    model: ModelId
    key: ModelKey
    schema: Node
    validate: Validator
    level: ChangeLevel | None = None
    extend: Extender | None = None
    unique_keys: tuple[UniqueKey, ...] = ()

    def accept(self, unit: UnitOfWork, document: JsonValue) -> None:
        """Accept a document strictly, or as far as the change level goes; what it teaches is staged in the unit.

        Raises ``IncompatibleType``, ``BadRequest``, ``PolymorphicSlot``, ``InvalidUniqueKeyDefinition``.
        """
        if self.level is None or self.extend is None:
            self.accept_strictly(unit, document)
            return
        grown = unit.growth.of(self.model)
        known = self.schema if grown is None else grown.schema
        extend = self.extend if grown is None else grown.extend
        extended = (extend or self._compiled(known, self.level))(document)
        if extended is not known:
            unit.growth.add(self.model, document, extended, self._compiled(extended, self.level))

    def accept_strictly(self, unit: UnitOfWork, document: JsonValue) -> None:
        """Accept a document that teaches nothing. Raises ``IncompatibleType``, ``BadRequest``."""
        grown = unit.growth.of(self.model)
        violations = self.validate(document) if grown is None else validate(grown.schema, document)
        if violations:
            raise refuse(violations, self.key)

    def _compiled(self, schema: Node, level: ChangeLevel) -> Extender:
        return compile_extender(schema, level, self.unique_keys)

    def claims(self, document: JsonValue, *, refusal: str) -> tuple[Claim, ...] | None:
        """What the document claims; None when the model has no unique keys.

        Raises ``InvalidUniqueKey``, saying ``refusal``, when a key is partly there or cannot be one.
        """
        return claims(self.unique_keys, document, refusal=refusal) if self.unique_keys else None
