"""What every step of a run shares, and the trail it leaves."""

from msgspec import Struct
from msgspec.structs import replace

from statewright import logs
from statewright.engine.anchor import Anchor
from statewright.engine.events import Event
from statewright.engine.model import Model
from statewright.engine.subject import Subject
from statewright.entity import AuditEvent
from statewright.failures import Failure
from statewright.identity import EntityId, TransactionId
from statewright.storage.unit_of_work import UnitOfWork
from statewright.workflow import Workflow

log = logs.logger("engine")


class Run(Struct, frozen=True, kw_only=True):
    """One entity on its way through one workflow, within one unit of work.

    ``remembers`` is the name of the workflow to keep with the entity (decision W12).
    """

    unit: UnitOfWork
    model: Model
    workflow: Workflow
    remembers: str
    anchor: Anchor

    def within(self, unit: UnitOfWork) -> "Run":
        """The same run as part of a savepoint."""
        return replace(self, unit=unit)

    def record(self, event: Event) -> None:
        """File an audit event, later than all before it; it becomes durable with the unit."""
        self.unit.record(self.anchor.id, audited(self.unit, event))

    def stage(self, subject: Subject) -> None:
        """Hand the subject to the unit as the entity's next version."""
        self.anchor.stage(self.unit, subject, workflow=self.remembers, revision=self.model.workflows_revision)

    async def commit_segment(self, subject: Subject, next_id: TransactionId) -> None:
        """Make everything so far durable, the subject in its present state included, and go on under ``next_id``."""
        revision = self.model.workflows_revision
        await self.anchor.commit_segment(
            self.unit, subject, workflow=self.remembers, revision=revision, next_id=next_id
        )

    async def abandon(self, event: Event) -> None:
        """Keep one event on record although the open segment is going to be dropped.

        Best effort, like all audit: its failure must not hide the failure of the run.
        """
        try:
            await self.unit.commit_event(self.anchor.id, audited(self.unit, event))
        except Failure as failure:
            log.warning("audit_event_lost", type=event.type, entity=self.anchor.id, error=failure.detail)


def record(unit: UnitOfWork, entity_id: EntityId, event: Event) -> None:
    """File an audit event of an entity whose workflow is not known yet."""
    unit.record(entity_id, audited(unit, event))


def audited(unit: UnitOfWork, event: Event) -> AuditEvent:
    """The event with its instant."""
    return AuditEvent(type=event.type, at=unit.event_time(), details=event.details, state=event.state, data=event.data)
