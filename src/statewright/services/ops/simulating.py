"""Simulating workflows (docs/reference/operations.md#simulating-workflows)."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.engine.models import Model
from statewright.engine.simulation import (
    Scenario,
    SimulatedEvent,
    SimulationLimits,
    SimulationResult,
    Stubs,
    simulate,
)
from statewright.entity import Entity, ModelKey, Principal, ScheduledTask, TaskKey
from statewright.failures import EntityNotFound, VersionNotFound
from statewright.ids import EntityId, TransactionId
from statewright.jsonval.values import JsonValue
from statewright.services.models import build_not_found
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import versions
from statewright.workflow import Workflow, find_violations, read_import
from statewright.workflow.violations import refuse_first

_executor: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="simulation")
"""One at a time: each computes for up to two seconds, and what it waits for is computed by other threads."""


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
    runtime: Runtime, caller: Caller, key: ModelKey, request: SimulationRequest
) -> SimulationResult:
    """Play a scenario.

    Raises ``ModelNotFound``, ``Forbidden`` for a built-in model, ``EntityNotFound``, ``VersionNotFound``,
    ``ValidationFailed`` for workflows that could not be imported, ``BadRequest`` for those and beyond the limits.
    """
    runtime.builtin.refuse_model(key)
    definition = await runtime.definitions.find(caller.tenant, key)
    if definition is None:
        raise build_not_found(key)
    model = definition.model
    start: JsonValue | Entity = request.document
    timers: dict[TaskKey, ScheduledTask] = {}
    if request.entity_id is not None:
        start = await _get_entity(runtime, caller, model, request.entity_id, request.transaction_id)
        if request.transaction_id is None:
            timers = dict(await runtime.tasks.list_for_entity(caller.tenant, request.entity_id))
    scenario = Scenario(
        start=start,
        events=request.events,
        stubs=request.stubs,
        principal=request.principal or caller.principal,
        at=runtime.clock() if request.at is None else request.at,
        timers=timers,
    )
    runtime.extensions.get(OpsMetrics).simulations += 1
    limits = runtime.extensions.get(SimulationLimits)
    work = partial(_simulate, model, request.workflows, scenario, limits)
    return await asyncio.get_running_loop().run_in_executor(_executor, work)


def _simulate(model: Model, workflows: JsonValue, scenario: Scenario, limits: SimulationLimits) -> SimulationResult:
    # Criteria are compiled anew: the cache of the model belongs to the event loop.
    chosen = model.workflows if workflows is None else read_importable(workflows)
    return simulate(replace(model, workflows=chosen, predicates={}), scenario, limits)


def read_importable(workflows: JsonValue) -> tuple[Workflow, ...]:
    """The workflows of a scenario. Raises ``BadRequest`` and ``ValidationFailed`` for what could not be imported."""
    request = read_import({"workflows": workflows})
    refuse_first(find_violations(request))
    return request.workflows


async def _get_entity(
    runtime: Runtime, caller: Caller, model: Model, entity_id: EntityId, transaction: TransactionId | None
) -> Entity:
    entity = await runtime.reader.get(caller.tenant, entity_id)
    if entity is None or entity.model != model.id:
        raise EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
    if transaction is None or transaction == entity.transaction_id:
        return entity
    found = await versions.find_version(runtime.pool, caller.tenant, entity_id, transaction=transaction)
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
