"""A model as the engine runs it: rules for its documents, workflows and criteria, compiled once per revision
(docs/reference/models.md#strict-validation, docs/reference/models.md#change-level,
docs/reference/models.md#unique-keys).
"""

from collections.abc import Mapping

from msgspec import Struct

from statewright.background import MAX_INLINE_BYTES, run_by_size
from statewright.conditions import MAX_TURN_VALUES, Predicate, compile_predicate
from statewright.engine.unit import Unit
from statewright.entity import ModelKey
from statewright.ids import ModelId
from statewright.jsonval.values import JsonValue
from statewright.schema import (
    ChangeLevel,
    Claim,
    DeclaredField,
    Extender,
    SchemaNode,
    UniqueKey,
    Validator,
    build_validation_failure,
    compile_extender,
    read_claims,
    validate,
)
from statewright.turns import TurnExceeded, is_large
from statewright.workflow import Criterion, Workflow


class DocumentRules(Struct, frozen=True, kw_only=True, eq=False):
    """The rules for documents of one model, compiled from one revision of it.

    ``extend`` is None for a model without change level. Growth that the transaction has staged counts, too.
    """

    model: ModelId
    key: ModelKey
    schema: SchemaNode
    validate: Validator
    level: ChangeLevel | None = None
    extend: Extender | None = None
    unique_keys: tuple[UniqueKey, ...] = ()

    def accept(self, unit: Unit, document: JsonValue, *, strictly: bool = False) -> None:
        """Accept a document as far as the change level goes, or only without growth: ``strictly``, and where there is
        no level. Growth of the schema is staged in the unit.

        Raises ``IncompatibleType``, ``BadRequest``, ``PolymorphicSlot``, ``InvalidUniqueKeyDefinition``.
        """
        self._stage(unit, document, self._find_growth(unit, document, strictly=strictly))

    async def accept_by_size(self, unit: Unit, document: JsonValue, size: int, *, strictly: bool = False) -> None:
        """The same for a document whose text has ``size`` characters: a large one is examined off the event loop,
        while the unit waits.
        """
        if size <= MAX_INLINE_BYTES:
            self.accept(unit, document, strictly=strictly)
            return
        found = await run_by_size(size, lambda: self._find_growth(unit, document, strictly=strictly))
        self._stage(unit, document, found)

    def _stage(self, unit: Unit, document: JsonValue, grown: "_Growth | None") -> None:
        if grown is not None:
            unit.growth.add(self.model, document, grown.schema, grown.extend)

    def _find_growth(self, unit: Unit, document: JsonValue, *, strictly: bool) -> "_Growth | None":
        if strictly or self.level is None or self.extend is None:
            self._require_valid(unit, document)
            return None
        grown = unit.growth.find(self.model)
        known = self.schema if grown is None else grown.schema
        extend = self.extend if grown is None else grown.extend
        extended = (extend or self._compile_extender(known, self.level))(document)
        return None if extended is known else _Growth(extended, self._compile_extender(extended, self.level))

    def _require_valid(self, unit: Unit, document: JsonValue) -> None:
        grown = unit.growth.find(self.model)
        violations = self.validate(document) if grown is None else validate(grown.schema, document)
        if violations:
            raise build_validation_failure(violations, self.key)

    def _compile_extender(self, schema: SchemaNode, level: ChangeLevel) -> Extender:
        return compile_extender(schema, level, self.unique_keys)

    def compute_claims(self, document: JsonValue, *, refusal: str) -> tuple[Claim, ...] | None:
        """The document's claims of unique keys; None when the model has none.

        Raises ``InvalidUniqueKey`` with the message ``refusal`` when some but not all fields of a key are there, or
        when the value of one cannot be part of a key.
        """
        return read_claims(self.unique_keys, document, refusal=refusal) if self.unique_keys else None


class _Growth(Struct, frozen=True):
    """The schema after a document."""

    schema: SchemaNode
    extend: Extender


class Model(Struct, frozen=True, kw_only=True, eq=False):
    """What a run needs of a model: compiled once, and good as long as the definition is current.

    ``workflows`` are in stored order; empty when none were imported.
    """

    key: ModelKey
    id: ModelId
    declared: Mapping[str, DeclaredField]
    documents: DocumentRules
    workflows: tuple[Workflow, ...]
    workflows_revision: int
    lock: int | None = None
    """The revision of the model lock under which documents are validated; None for a model that cannot be unlocked."""
    predicates: dict[int, Predicate] = {}

    def get_predicate(self, criterion: Criterion, *, within_turn: bool = False) -> Predicate:
        """The compiled criterion; compiled on first use, since most criteria of a large workflow are rarely met.

        Raises ``TurnExceeded`` when compiling it takes longer than a turn of the event loop.
        """
        found = self.predicates.get(id(criterion))
        if found is None:
            if within_turn and is_large(criterion.source, MAX_TURN_VALUES):
                raise TurnExceeded
            assert criterion.condition is not None, "a malformed criterion is refused before it is compiled"  # noqa: S101
            found = self.predicates[id(criterion)] = compile_predicate(criterion.condition, self.declared)
        return found
