"""The state of a run: its anchor entity, held in memory until the run is saved
(docs/reference/workflows.md#what-holds-for-every-run), how that becomes the next version, and what every step of the
run shares; the spans of runs, where traces are switched on (docs/reference/traces.md#spans).

Noting with a failure where its run failed, for those who keep incidents (docs/reference/operations.md#incidents).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from statewright.compute.callout import CalloutKind, CalloutSpec
from statewright.engine.events import trim_texts
from statewright.engine.models import Model
from statewright.engine.unit import Unit
from statewright.entity import LOOPBACK, Entity, EntityMeta, Event, ModelKey
from statewright.failures import (
    ComputeMemberDisconnected,
    DispatchTimeout,
    EntityModified,
    FailedRun,
    Failure,
    NoComputeMember,
    WorkflowFailed,
)
from statewright.ids import EntityId, IdSource, TransactionId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import MalformedJson, canonicalise
from statewright.jsonval.values import JsonValue, json_type
from statewright.schema import NULL_OR_INVALID
from statewright.telemetry import logs
from statewright.telemetry.tracing import NO_SPAN, Attribute, Span, Tracer
from statewright.workflow import Transition, Workflow

_encode_text = msgspec.json.Encoder().encode


class EntityDraft(Struct, frozen=True, kw_only=True):
    """The entity as the run has made it so far. ``text`` is the encoded ``document``; times are in epoch microseconds.

    ``transition`` is what lifecycle criteria see as the previous transition: the requested name, empty for create and
    loopback (docs/reference/workflows.md#lifecycle-criteria). ``transaction_id`` is the transaction of the run; after a
    segment was committed, the id of the version that it made durable.
    """

    id: EntityId
    model: ModelKey
    state: str
    document: JsonValue
    text: str
    created_at: int
    now: int
    transition: str
    transaction_id: TransactionId

    def with_document(self, raw: bytes) -> "EntityDraft":
        """The draft after a processor has replaced its document. Raises ``MalformedJson``, also for JSON that is no
        object and so no document (decision W13).
        """
        if raw == self.text.encode():  # unchanged to the byte: no need to decode it
            return self
        document, text = canonicalise(raw)
        if not isinstance(document, dict):
            raise MalformedJson(f"expected object, got {json_type(document)}")
        return replace(self, document=document, text=text.decode())

    def with_state(self, state: str) -> "EntityDraft":
        """The draft after a transition."""
        return replace(self, state=state)

    def to_meta(self) -> EntityMeta:
        """The metadata that lifecycle conditions compare."""
        return EntityMeta(
            id=self.id,
            state=self.state,
            creation_date=self.created_at // 1000,
            last_update_time=self.now // 1000,
            transition=self.transition,
            transaction_id=self.transaction_id,
        )

    def build_payload(self) -> bytes:
        """``{type, data, meta}`` of a callout, spliced around the encoded document."""
        created, now = to_rfc3339(self.created_at), to_rfc3339(self.now)
        name, state = _encode_text(self.model.name).decode(), _encode_text(self.state).decode()
        return (
            f'{{"type":"JSON","data":{self.text},"meta":{{"id":"{self.id}",'
            f'"modelKey":{{"name":{name},"version":{self.model.version}}},"state":{state},'
            f'"creationDate":"{created}","lastUpdateTime":"{now}","transactionId":"{self.transaction_id}"}}}}'
        ).encode()


class EntityWriter:
    """Stages the anchor entity of one run: once at its end, and once at each segment boundary.

    ``base`` is the stored version, None for a new entity; ``transition`` is the name the client asked for, None for a
    create or a loopback; ``if_match`` is the version the client demands, consumed by the first segment
    (docs/reference/workflows.md#preconditions).
    """

    def __init__(
        self,
        entity_id: EntityId,
        model: Model,
        *,
        base: Entity | None = None,
        transition: str | None = None,
        if_match: str | None = None,
        submitted: str = "",
    ) -> None:
        self.submitted = submitted
        """The document that the run began with."""
        self.requested = transition
        self.id = entity_id
        self._model = model
        self._base = base
        self._transition = transition or LOOPBACK
        self._if_match = if_match

    @property
    def base_transaction(self) -> TransactionId | None:
        """The version that is stored; None when nothing is."""
        return None if self._base is None else self._base.transaction_id

    @property
    def is_new(self) -> bool:
        """Whether nothing of the entity is stored yet."""
        return self._base is None

    def stage(self, unit: Unit, draft: EntityDraft, *, workflow: str, revision: int) -> None:
        """Stage the draft as the next version, with the unique keys it claims as processors left it.

        Raises ``InvalidUniqueKey``, and ``EntityModified`` when the client demanded another version.
        """
        self._stage_version(unit, self._build_version(unit, draft, workflow, revision), draft.document)

    async def commit_segment(
        self, unit: Unit, draft: EntityDraft, *, workflow: str, revision: int, ids: IdSource
    ) -> TransactionId:
        """Make the draft durable as it is and go on in a new segment, which must find this very version again.

        The version is no outcome. So it bears an id of its own, never the one that the client of the run is told: a
        precondition with that one holds for the outcome alone (decision W8). Gives that id.
        """
        own_id = ids.new_transaction_id() if unit.id == unit.label else unit.id
        version = self._build_version(unit, draft, workflow, revision)
        version = replace(version, transaction_id=own_id, entry_transaction_id=own_id)
        self._stage_version(unit, version, draft.document, is_intermediate=True)
        await unit.commit_segment(ids.new_transaction_id())
        self._base = version
        self._if_match = None
        unit.expect(self.id, own_id)
        return own_id

    def _stage_version(
        self, unit: Unit, version: Entity, document: JsonValue, *, is_intermediate: bool = False
    ) -> None:
        claims = self._model.documents.compute_claims(document, refusal=NULL_OR_INVALID)
        if self._base is None:
            unit.create(version, claims=claims, lock=self._model.lock, is_intermediate=is_intermediate)
            return
        if self._if_match is not None:
            check_if_match(self._base, self._if_match)
        unit.save(version, if_match=self._if_match is not None, claims=claims, is_intermediate=is_intermediate)

    def _build_version(self, unit: Unit, draft: EntityDraft, workflow: str, revision: int) -> Entity:
        if self._base is None:
            return self._build_first_version(unit, draft, workflow, revision)
        return replace(
            self._base,
            state=draft.state,
            transaction_id=unit.id,
            entry_transaction_id=unit.label,
            updated_at=draft.now,
            transition=self._transition,
            workflow=workflow,
            workflow_revision=revision,
            attributed=unit.attributed,
            executor=unit.executor,
            document=draft.text,
        )

    def _build_first_version(self, unit: Unit, draft: EntityDraft, workflow: str, revision: int) -> Entity:
        return Entity(
            tenant=unit.tenant,
            id=draft.id,
            model=self._model.id,
            state=draft.state,
            transaction_id=unit.id,
            entry_transaction_id=unit.label,
            created_at=draft.created_at,
            updated_at=draft.now,
            transition=LOOPBACK,
            workflow=workflow,
            workflow_revision=revision,
            attributed=unit.attributed,
            executor=unit.executor,
            document=draft.text,
        )


def check_if_match(entity: Entity, if_match: str) -> None:
    """Refuse a stale ``If-Match``. The id that the client of a segmented run got names its outcome, as the id of the
    segment does that wrote it (decision W8).
    """
    if if_match not in {entity.transaction_id, entity.entry_transaction_id}:
        raise EntityModified(entity.id, expected=if_match, actual=entity.transaction_id)


log = logs.logger(__name__)


class Run(Struct, frozen=True, kw_only=True):
    """The run of one entity through one workflow, within one unit of work.

    ``stored_workflow_name`` is the name of the workflow to keep with the entity (decision W12).
    """

    unit: Unit
    model: Model
    workflow: Workflow
    stored_workflow_name: str
    writer: EntityWriter

    @property
    def is_half_done(self) -> bool:
        """Whether a segment of it is durable."""
        return self.unit.id != self.unit.label

    def with_unit(self, unit: Unit) -> "Run":
        """The same run as part of a savepoint."""
        return replace(self, unit=unit)

    def record(self, event: Event) -> None:
        """Stage an audit event, later than all before it; it becomes durable with the unit."""
        self.unit.record(self.writer.id, event)

    def tell_warnings(self, kind: CalloutKind, name: str, texts: Sequence[str]) -> None:
        """Hand on what a member warned of: to the client of the run, and to the log."""
        for text in trim_texts(texts):
            self.unit.warnings.append(f"{kind} {name}: {text}")
            log.warning("member_warned", kind=kind, name=name, text=text, **self.describe())

    def describe(self) -> dict[str, object]:
        """Which run it is, for the log."""
        return {
            "tenant": self.unit.tenant,
            "entityName": self.model.key.name,
            "modelVersion": self.model.key.version,
            "entity": self.writer.id,
            "transaction": self.unit.label,
        }

    def stage(self, draft: EntityDraft) -> None:
        """Hand the draft to the unit as the entity's next version."""
        self.writer.stage(self.unit, draft, workflow=self.stored_workflow_name, revision=self.model.workflows_revision)

    async def commit_segment(self, draft: EntityDraft, ids: IdSource) -> EntityDraft:
        """Make everything so far durable, the draft in its present state included, and go on in a new segment; the
        draft as it is stored.
        """
        revision = self.model.workflows_revision
        version = await self.writer.commit_segment(
            self.unit, draft, workflow=self.stored_workflow_name, revision=revision, ids=ids
        )
        return replace(draft, transaction_id=version)

    async def record_outside_segment(self, event: Event, cause: Failure) -> Failure:
        """Commit the event of a failure by itself, since the open segment is going to be dropped; the failure, on
        record or not.

        Best effort, like all audit: its failure must not hide the failure of the run.
        """
        try:
            is_on_record = await self.unit.commit_failure_event(self.writer.id, event, cause)
        except Failure as failure:
            log.warning("audit_event_lost", type=event.type, entity=self.writer.id, error=failure.detail)
            return cause
        return cause.amend(is_on_record=True) if is_on_record else cause


NOTED: Final = (WorkflowFailed, NoComputeMember, ComputeMemberDisconnected, DispatchTimeout)
"""What is not the fault of a client, where a callout or a limit is the reason."""

SwallowedFailureReport: TypeAlias = Callable[[Unit, Failure], None]
"""Told of the failure of a processor that its run survives."""


def locate_failure(
    failure: Failure, run: Run, draft: EntityDraft, transition: Transition | None, component: str = ""
) -> Failure:
    """The failure with where its run failed; one that is another's fault stays as it is."""
    if failure.failed_run is not None or not isinstance(failure, NOTED):
        return failure
    writer, is_half_done = run.writer, run.is_half_done
    return failure.amend(
        failed_run=FailedRun(
            entity_id=writer.id,
            model=run.model.key.name,
            version=run.model.key.version,
            workflow=run.workflow.name,
            state=draft.state,
            transition=transition.name if transition else "",
            component=component,
            base_transaction=writer.base_transaction,
            document=draft.text if is_half_done else writer.submitted,
            requested=transition.name if is_half_done and transition else writer.requested,
            attempts=failure.attempts,
        )
    )


class RunSpans:
    """Begins the spans of runs, of their transitions and callouts. This one begins none."""

    def begin_run(self, unit: Unit, model: Model, entity: EntityId) -> AbstractContextManager[Span | None]:
        """The span of a run."""
        return NO_SPAN

    def begin_transition(
        self, run: Run, draft: EntityDraft, transition: Transition
    ) -> AbstractContextManager[Span | None]:
        """The span of a transition with its processors."""
        return NO_SPAN

    def begin_callout(
        self, spec: CalloutSpec, run: Run, draft: EntityDraft, transition: Transition | None
    ) -> AbstractContextManager[Span | None]:
        """The span of an attempt at a callout; the work of the member is a part of it."""
        return NO_SPAN


class TracedRuns(RunSpans):
    """Begins the spans ``engine.run``, ``engine.transition``, ``dispatch.processor``, ``dispatch.criteria`` and
    ``dispatch.function``.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def begin_run(self, unit: Unit, model: Model, entity: EntityId) -> Span:
        """The span of a run."""
        attributes = {
            "tenant": unit.tenant,
            "entity.id": entity,
            "entity.model": f"{model.key.name}/{model.key.version}",
            "tx.id": unit.id,
        }
        return self._tracer.begin("engine.run", attributes=attributes)

    def begin_transition(self, run: Run, draft: EntityDraft, transition: Transition) -> Span:
        """The span of a transition with its processors."""
        attributes = {
            "entity.id": draft.id,
            "workflow.name": run.workflow.name,
            "transition.name": transition.name,
            "state.from": draft.state,
            "state.to": transition.next,
        }
        return self._tracer.begin("engine.transition", attributes=attributes)

    def begin_callout(self, spec: CalloutSpec, run: Run, draft: EntityDraft, transition: Transition | None) -> Span:
        """The span of an attempt at a callout."""
        subject = "criterion" if spec.kind == "criteria" else spec.kind
        attributes: dict[str, Attribute] = {
            f"{subject}.name": spec.name,
            f"{subject}.tags": spec.tags,
            "entity.id": draft.id,
            "workflow.name": run.workflow.name,
            "transition.name": transition.name if transition else "",
            "tx.id": run.unit.id,
        }
        if spec.execution_mode:
            attributes["processor.execution_mode"] = spec.execution_mode
        if spec.target:
            attributes["criterion.target"] = spec.target
        return self._tracer.begin(f"dispatch.{spec.kind}", "client", attributes)
