"""A model as the engine runs it: rules for its documents, workflows and criteria, compiled once per revision
(docs/reference/models.md#strict-validation, docs/reference/models.md#change-level,
docs/reference/models.md#unique-keys).

Which runs may commit segments on their way, and so have to be brought to their end when their client leaves
(docs/transactions.md#faults-of-clients). All others are dropped then, as if they had never begun.

Models as another process is sent them, which compiles their rules for itself.
"""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from msgspec.json import Decoder

from statewright.conditions import Predicate, compile_predicate, is_large_criterion
from statewright.engine.unit import Unit
from statewright.entity import Entity, ModelKey
from statewright.ids import ModelId
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.loop.background import MAX_INLINE_BYTES, run_by_size
from statewright.loop.turns import TurnExceeded
from statewright.schema import (
    FIELD_WEIGHT,
    INFERENCE_WEIGHT,
    ChangeLevel,
    Claim,
    DeclaredField,
    Extender,
    Extension,
    SchemaNode,
    UniqueKey,
    Validator,
    build_validation_failure,
    compile_validator,
    read_claims,
    schema_from_stored,
    validate,
)
from statewright.workflow import Criterion, Workflow, find_governing, list_candidates


class DocumentRules(Struct, frozen=True, kw_only=True, eq=False):
    """The rules for documents of one model, compiled from one revision of it.

    ``extender`` is None for a model without change level. Growth that the transaction has staged counts, too.
    """

    model: ModelId
    key: ModelKey
    schema: SchemaNode
    validate: Validator
    revision: int = 0
    extender: Extender | None = None
    unique_keys: tuple[UniqueKey, ...] = ()

    def accept(self, unit: Unit, document: JsonValue, *, strictly: bool = False) -> None:
        """Accept a document as far as the change level goes, or only without growth: ``strictly``, and where there is
        no level. Growth of the schema is staged in the unit.

        Raises ``IncompatibleType``, ``BadRequest``, ``PolymorphicSlot``, ``InvalidUniqueKeyDefinition``.
        """
        extender = None if strictly else self._find_extender(unit)
        if extender is None:
            self._require_valid(unit, document)
        elif (extension := extender.extend(document)) is not None:
            self._stage(unit, extender, extension)

    async def accept_by_size(self, unit: Unit, document: JsonValue, size: int, *, strictly: bool = False) -> None:
        """The same for a document whose text has ``size`` characters. A large one is examined off the event loop, while
        the unit waits, and so is one that extends a large schema.
        """
        extender = None if strictly else self._find_extender(unit)
        if size <= MAX_INLINE_BYTES and extender is None:
            self._require_valid(unit, document)
            return
        if extender is None:
            await run_by_size(size, partial(self._require_valid, unit, document))
            return
        if size <= MAX_INLINE_BYTES and extender.is_compiled and extender.fits(document):
            return
        weight = size * INFERENCE_WEIGHT + extender.fields * FIELD_WEIGHT
        extension = await run_by_size(weight, partial(extender.extend, document))
        if extension is not None:
            self._stage(unit, extender, extension)

    def _find_extender(self, unit: Unit) -> Extender | None:
        grown = None if self.extender is None else unit.find_grown(self.model)
        return self.extender if grown is None else grown.extender

    def _stage(self, unit: Unit, extender: Extender, extension: Extension) -> None:
        unit.growth.add(self.model, extension, extender.follow(extension.schema), self.revision)

    def _require_valid(self, unit: Unit, document: JsonValue) -> None:
        grown = unit.find_grown(self.model)
        violations = self.validate(document) if grown is None else validate(grown.extender.schema, document)
        if violations:
            raise build_validation_failure(violations, self.key)

    def compute_claims(self, document: JsonValue, *, refusal: str) -> tuple[Claim, ...] | None:
        """The document's claims of unique keys; None when the model has none.

        Raises ``InvalidUniqueKey`` with the message ``refusal`` when some but not all fields of a key are there, or
        when the value of one cannot be part of a key.
        """
        return read_claims(self.unique_keys, document, refusal=refusal) if self.unique_keys else None


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

    def has_predicate(self, criterion: Criterion) -> bool:
        """Whether the criterion is compiled already."""
        return id(criterion) in self.predicates

    def get_predicate(self, criterion: Criterion, *, within_turn: bool = False) -> Predicate:
        """The compiled criterion; compiled on first use, since most criteria of a large workflow are rarely met.

        Raises ``TurnExceeded`` when compiling it takes longer than a turn of the event loop.
        """
        found = self.predicates.get(id(criterion))
        if found is None:
            if within_turn and is_large_criterion(criterion.source):
                raise TurnExceeded
            assert criterion.condition is not None, "a malformed criterion is refused before it is compiled"  # noqa: S101
            found = self.predicates[id(criterion)] = compile_predicate(criterion.condition, self.declared)
        return found


def may_segment_on_create(model: Model) -> bool:
    """Whether creating an entity may come to a segment, whichever workflow takes it."""
    return any(workflow.initial_state in workflow.segmenting_states for workflow in list_candidates(model.workflows))


def may_segment_on_update(model: Model, entity: Entity, transition: str | None) -> bool:
    """Whether firing a transition of an entity may come to a segment; None is a loopback."""
    workflow = find_governing(model.workflows, entity.state, entity.workflow)
    if workflow is None:
        return False
    if transition is None:
        return entity.state in workflow.segmenting_states
    named = workflow.find_transition(entity.state, transition)
    return named is not None and workflow.may_segment(named)


def may_segment_at_all(model: Model) -> bool:
    """Whether any run of any workflow may come to a segment."""
    return any(
        workflow.may_segment(transition)
        for workflow in model.workflows
        for state in workflow.states.values()
        for transition in state.transitions
    )


_decode_unique_keys = Decoder(tuple[UniqueKey, ...]).decode


class StoredRules(Struct, frozen=True, kw_only=True):
    """The rules for documents of a model, as they are stored: ``unique_keys`` is JSON text."""

    model: ModelId
    key: ModelKey
    revision: int
    change_level: str | None
    unique_keys: str

    def compile(self, schema: SchemaNode) -> DocumentRules:
        """The rules for documents of this schema."""
        level = None if self.change_level is None else ChangeLevel(self.change_level)
        unique_keys = _decode_unique_keys(self.unique_keys)
        return DocumentRules(
            model=self.model,
            key=self.key,
            revision=self.revision,
            schema=schema,
            validate=compile_validator(schema),
            extender=None if level is None else Extender(schema, level, unique_keys).compile(),
            unique_keys=unique_keys,
        )


class SentModel(Struct, frozen=True, kw_only=True):
    """A model; ``schema`` is JSON text."""

    rules: StoredRules
    schema: str
    declared: Mapping[str, DeclaredField]
    workflows: tuple[Workflow, ...]
    workflows_revision: int
    lock: int | None

    def compile(self) -> Model:
        """The model as a run needs it."""
        return Model(
            key=self.rules.key,
            id=self.rules.model,
            declared=self.declared,
            documents=self.rules.compile(schema_from_stored(decode(self.schema))),
            workflows=self.workflows,
            workflows_revision=self.workflows_revision,
            lock=self.lock,
        )
