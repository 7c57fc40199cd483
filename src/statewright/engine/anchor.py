"""The entity a run is about, as the unit of work gets to see it: once at the end, and once at each segment boundary."""

from msgspec.structs import replace

from statewright.engine.model import Model
from statewright.engine.subject import Subject
from statewright.entity import LOOPBACK, Entity
from statewright.failures import EntityModified
from statewright.identity import EntityId, TransactionId
from statewright.schema import NULL_OR_INVALID
from statewright.storage.unit_of_work import UnitOfWork


class Anchor:
    """Stages the anchor entity of one run.

    ``base`` is the stored version, None for a new entity; ``transition`` is the name the client asked for, None for a
    create or a loopback; ``if_match`` is the version the client demands, consumed by the first segment
    (spec/workflows.md §8.6).
    """

    def __init__(
        self,
        entity_id: EntityId,
        model: Model,
        *,
        base: Entity | None = None,
        transition: str | None = None,
        if_match: str | None = None,
    ) -> None:
        self.id = entity_id
        self._model = model
        self._base = base
        self._transition = transition or LOOPBACK
        self._if_match = if_match

    @property
    def is_new(self) -> bool:
        """Whether nothing of the entity is stored yet."""
        return self._base is None

    def stage(self, unit: UnitOfWork, subject: Subject, *, workflow: str, revision: int) -> None:
        """Stage the subject as the next version, with the unique keys it claims as processors left it.

        Raises ``InvalidUniqueKey``, and ``EntityModified`` when the client demanded another version.
        """
        claims = self._model.documents.claims(subject.document, refusal=NULL_OR_INVALID)
        if self._base is None:
            unit.create(self._created(unit, subject, workflow, revision), claims=claims, lock=self._model.lock)
            return
        if self._if_match is not None:
            demand(self._base, self._if_match)
        version = replace(
            self._base,
            state=subject.state,
            transaction_id=unit.id,
            entry_transaction_id=unit.label,
            updated_at=subject.now,
            transition=self._transition,
            workflow=workflow,
            workflow_revision=revision,
            attributed=unit.attributed,
            executor=unit.executor,
            document=subject.text,
        )
        unit.save(version, if_match=self._if_match is not None, claims=claims)

    async def commit_segment(
        self, unit: UnitOfWork, subject: Subject, *, workflow: str, revision: int, next_id: TransactionId
    ) -> None:
        """Make the subject durable as it is and go on in a new segment, which must find this very version again."""
        self.stage(unit, subject, workflow=workflow, revision=revision)
        self._base = self._created(unit, subject, workflow, revision) if self._base is None else self._base
        segment = unit.id
        await unit.commit_segment(next_id)
        self._if_match = None
        unit.expect(self.id, segment)

    def _created(self, unit: UnitOfWork, subject: Subject, workflow: str, revision: int) -> Entity:
        return Entity(
            tenant=unit.tenant,
            id=subject.id,
            model=self._model.id,
            state=subject.state,
            transaction_id=unit.id,
            entry_transaction_id=unit.label,
            created_at=subject.created_at,
            updated_at=subject.now,
            transition=LOOPBACK,
            workflow=workflow,
            workflow_revision=revision,
            attributed=unit.attributed,
            executor=unit.executor,
            document=subject.text,
        )


def demand(entity: Entity, if_match: str) -> None:
    """Refuse a stale ``If-Match``; the id a client was told for a segmented run counts like its last version (W8)."""
    if if_match not in {entity.transaction_id, entity.entry_transaction_id}:
        raise EntityModified(entity.id, expected=if_match, actual=entity.transaction_id)
