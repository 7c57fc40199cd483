"""Checking workflows before they are imported (docs/reference/operations.md#checking-workflows).

Simulating workflows (docs/reference/operations.md#simulating-workflows).
"""

from collections.abc import Collection, Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import KnownFields
from statewright.engine.models import Model
from statewright.engine.simulation import (
    Scenario,
    SimulatedEvent,
    SimulationResult,
    Stubs,
)
from statewright.engine.simulation.simulator import simulate_sent
from statewright.entity import Entity, ModelKey, Principal, ScheduledTask, TaskKey
from statewright.failures import EntityNotFound, RevisionMismatch, VersionNotFound
from statewright.ids import EntityId, TransactionId, model_id
from statewright.jsonval.codec import decode
from statewright.jsonval.values import JsonValue
from statewright.operations.checks import AffectedEntities, AffectedState, WorkflowCheck
from statewright.schema import flatten_fields, schema_from_stored
from statewright.services.core import Caller, Core
from statewright.services.models import build_not_found
from statewright.services.ops.service import Operations
from statewright.services.ops.suspensions import SuspendedMoves, list_suspended_moves
from statewright.storage import models
from statewright.storage.ops import history
from statewright.storage.ops.listings import StateCount, count_use
from statewright.storage.ops.queues import list_seen_tags
from statewright.storage.ops.revisions import fetch_newest
from statewright.workflow import Workflow, decode_json, find_governing, workflows_from_stored
from statewright.workflow.review import CheckResult, StateUse, Surroundings, check_import


class CheckedWorkflows(Struct, frozen=True):
    """What an import would come to, and the number of the revision that it was held against, 0: none yet. An import
    that demands this revision does what the check says, or is refused.
    """

    check: WorkflowCheck
    revision: int


async def check_workflows(
    operations: Operations, caller: Caller, key: ModelKey, body: bytes, *, if_match: int | None = None
) -> CheckedWorkflows:
    """Check the document of an import against a model, only while it has the revision ``if_match``; nothing is saved.

    Raises ``BadRequest`` for what is no JSON, ``ModelNotFound``, ``RevisionMismatch``, ``Forbidden`` for a built-in
    model, ``ComputationKilled``, ``ComputationsBusy``.
    """
    operations.core.builtin.refuse_model(key)
    model = model_id(key.name, key.version)
    # Before the workflows: those of an import that comes between are told by a number that is no longer in force.
    newest, is_stored = await fetch_newest(operations.core.pool, caller.tenant, model)
    found = await models.fetch_model_definitions(operations.core.pool, caller.tenant, model)
    if found is None:
        raise build_not_found(key)
    # What a node without revisions has imported becomes one with the next import.
    revision = newest if found.workflows is None or is_stored else newest + 1
    if if_match not in (None, revision):
        raise RevisionMismatch(revision)
    use = await count_use(operations.core.pool, caller.tenant, model)
    members = operations.members
    known = _Known(
        key=key,
        schema=found.model.schema,
        stored=found.workflows.text if found.workflows else "[]",
        tags_of_members=tuple(frozenset(member.tags) for member in members.iterate(caller.tenant)),
        seen_tags=await list_seen_tags(operations.core.pool, caller.tenant),
        uses=None if use is None else _to_uses(use[0]),
        timers=None if use is None else _to_uses(use[1]),
        scan_interval_ms=operations.scan_interval // timedelta(milliseconds=1),
        suspended=list_suspended_moves(operations.concerns.active, caller.tenant),
    )
    result = await operations.core.computations.compute(caller.tenant, "check", _check, body, known)
    operations.metrics.checks["importable" if result.is_importable else "refused"] += 1
    affected = None
    if use is not None:
        by_state = _judge(use[0], result.merged)
        total, armed = sum(each.count for each in by_state), sum(timer.count for timer in use[1])
        affected = AffectedEntities(total=total, by_state=by_state, armed_timers=armed)
    check = WorkflowCheck(
        importable=result.is_importable, findings=result.findings, diff=result.changes, affected=affected
    )
    return CheckedWorkflows(check, revision)


class _Known(Struct, frozen=True, kw_only=True):
    """What workflows are held against, as another process is sent it; ``schema`` and ``stored`` are JSON text."""

    key: ModelKey
    schema: str
    stored: str
    tags_of_members: tuple[frozenset[str], ...]
    seen_tags: frozenset[str]
    uses: tuple[StateUse, ...] | None
    timers: tuple[StateUse, ...] | None
    scan_interval_ms: int
    suspended: SuspendedMoves

    def to_surroundings(self) -> Surroundings:
        """The same, to be asked."""
        suspends, suspends_tags = self.suspended.compile(self.key)
        return Surroundings(
            fields=KnownFields(flatten_fields(schema_from_stored(decode(self.schema)))),
            has_member=self._has_member,
            uses=self.uses,
            timers=self.timers,
            scan_interval_ms=self.scan_interval_ms,
            suspends=suspends,
            suspends_tags=suspends_tags,
            has_seen=lambda tag: tag.lower() in self.seen_tags,
        )

    def _has_member(self, needed: Collection[str]) -> bool:
        wanted = {tag.lower() for tag in needed}
        return any(wanted <= declared for declared in self.tags_of_members)


def _check(body: bytes, known: _Known) -> CheckResult:
    stored = workflows_from_stored(known.stored.encode())
    return check_import(decode_json(body), known.key, stored, known.to_surroundings())


def _to_uses(counts: Sequence[StateCount]) -> tuple[StateUse, ...]:
    return tuple(
        StateUse(workflow=each.workflow, state=each.state, transition=each.transition, count=each.count)
        for each in counts
    )


def _judge(counts: Sequence[StateCount], merged: Sequence[Workflow] | None) -> tuple[AffectedState, ...]:
    return tuple(
        AffectedState(
            workflow=each.workflow,
            state=each.state,
            count=each.count,
            issue=None if merged is None or find_governing(merged, each.state, each.workflow) else "STATE_REMOVED",
        )
        for each in counts
    )


class SimulationRequest(Struct, frozen=True, kw_only=True):
    """What is to be played. ``workflows``: None, those that are stored. The start is a ``document``, or an entity as it
    is, or as a transaction left it. ``principal`` None: the caller; ``at`` in epoch microseconds, None: now.
    """

    workflows: JsonValue
    document: JsonValue
    entity_id: EntityId | None
    transaction_id: TransactionId | None
    events: Sequence[SimulatedEvent]
    stubs: Stubs
    principal: Principal | None
    at: int | None


async def simulate_workflows(
    operations: Operations, caller: Caller, key: ModelKey, request: SimulationRequest
) -> SimulationResult:
    """Play a scenario.

    Raises ``ModelNotFound``, ``Forbidden`` for a built-in model, ``EntityNotFound``, ``VersionNotFound``,
    ``ValidationFailed`` for workflows that could not be imported, ``BadRequest`` for those and beyond the limits,
    ``ComputationKilled``, ``ComputationsBusy``.
    """
    operations.core.builtin.refuse_model(key)
    definition = await operations.core.definitions.find(caller.tenant, key)
    if definition is None:
        raise build_not_found(key)
    model = definition.model
    start: JsonValue | Entity = request.document
    timers: dict[TaskKey, ScheduledTask] = {}
    if request.entity_id is not None:
        start = await _get_entity(operations.core, caller, model, request.entity_id, request.transaction_id)
        if request.transaction_id is None:
            timers = dict(await operations.core.tasks.list_for_entity(caller.tenant, request.entity_id))
    scenario = Scenario(
        start=start,
        events=request.events,
        stubs=request.stubs,
        principal=request.principal or caller.principal,
        at=operations.core.clock() if request.at is None else request.at,
        timers=timers,
    )
    operations.metrics.simulations += 1
    limits = operations.simulation_limits
    return await operations.core.computations.compute(
        caller.tenant, "simulation", simulate_sent, definition.send(), request.workflows, scenario, limits
    )


async def _get_entity(
    core: Core, caller: Caller, model: Model, entity_id: EntityId, transaction: TransactionId | None
) -> Entity:
    entity = await core.reader.get(caller.tenant, entity_id)
    if entity is None or entity.model != model.id:
        raise EntityNotFound.of(entity_id)
    if transaction is None or transaction == entity.transaction_id:
        return entity
    found = await history.find_version(core.pool, caller.tenant, entity_id, transaction=transaction)
    if found is None or found.document is None:
        raise VersionNotFound(f"entity id={entity_id} has no such version, or keeps it no longer")
    old = found.version.entity
    return replace(
        entity,
        state=old.state,
        transaction_id=old.transaction_id,
        entry_transaction_id=old.transaction_id,
        updated_at=old.updated_at,
        transition=old.transition,
        workflow=old.workflow,
        workflow_revision=old.workflow_revision,
        document=found.document,
    )
