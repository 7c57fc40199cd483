"""Why an entity is where it is, and what would move it (docs/reference/operations.md#explain).

What an instance of a process waits for (docs/reference/operations.md#instances).
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.conditions import EvaluationError
from statewright.engine.engine import UpdateEntity
from statewright.engine.explanation import (
    Explanation,
    FunctionAnswer,
    SentSituation,
    explain_sent,
    hold_transitions,
    list_asked,
    list_needed_tags,
)
from statewright.entity import Entity, ModelKey, ScheduledTask
from statewright.failures import EntityNotFound, Failure, ProcessNotFound
from statewright.ids import EntityId
from statewright.net import NodeId
from statewright.net.arrivals import OpenJoin, OpenWaits
from statewright.operations.explanations import Phase, WaitsFor
from statewright.services.core import Caller, Core
from statewright.services.definitions import ModelDefinition
from statewright.services.ops.incidents import Obstacles, find_entity_obstacles, find_instance_obstacles
from statewright.services.ops.queues import get_queue
from statewright.services.ops.service import Operations
from statewright.services.processes.hosting import Processes
from statewright.services.writing import decode_by_size
from statewright.storage import entities
from statewright.storage.ops.explanations import (
    ObservedExecution,
    ObservedInstance,
    ObservedJob,
    observe_entity,
    observe_instance,
)
from statewright.workflow import Transition

MAX_ASKED: Final = 50
"""Criteria that members are asked for."""


class EntityExplanation(Struct, frozen=True, kw_only=True):
    """An explanation with what it is about. ``since`` is when the entity came into its state, None when that is not
    known; ``timers`` and ``obstacles`` are None for an instant of the past.
    """

    entity: Entity
    model: ModelKey
    revision: int
    since: int | None
    timers: tuple[ScheduledTask, ...] | None
    explanation: Explanation
    obstacles: Obstacles | None = None


async def explain(
    operations: Operations,
    caller: Caller,
    entity_id: EntityId,
    *,
    instant: int | None = None,
    asks_members: bool = False,
) -> EntityExplanation:
    """Explain an entity as it is now, or as it was at an instant, without members and timers then. ``asks_members``:
    they are asked for the criteria that they judge, if it is about now.

    Raises ``EntityNotFound``, ``HistoryPruned``, ``ComputationKilled``, ``ComputationsBusy``.
    """
    operations.metrics.explains += 1
    if instant is None:
        observed = await observe_entity(operations.core.pool, caller.tenant, entity_id)
        if observed is None:
            raise EntityNotFound.of(entity_id)
        definition = await _get_definition(operations.core, caller, observed.entity)
        answers = await _ask_members(operations.core, caller, definition, observed.entity) if asks_members else {}
        explained = await _explain(
            operations, definition, observed.entity, since=observed.state_since, timers=observed.timers, answers=answers
        )
        return await _add_obstacles(operations, caller, explained)
    entity = await entities.fetch_entity_at(operations.core.pool, caller.tenant, entity_id, instant)
    if entity is None:
        raise EntityNotFound.of(entity_id)
    definition = await _get_definition(operations.core, caller, entity)
    return await _explain(operations, definition, entity, instant=instant)


async def _add_obstacles(operations: Operations, caller: Caller, explained: EntityExplanation) -> EntityExplanation:
    """With what operators have suspended, and what has failed: both come before all other verdicts."""
    found, active = explained.explanation, operations.concerns.active
    obstacles = await find_entity_obstacles(
        operations.core,
        active,
        caller,
        explained.entity.id,
        explained.model,
        found.workflow or "",
        [each.name for each in found.transitions],
    )
    if obstacles.whole or obstacles.single:
        found = hold_transitions(found, None if obstacles.whole else obstacles.single)
    if obstacles.whole or (obstacles.single and found.verdict == "READY"):
        found = replace(found, verdict="SUSPENDED", summary=f"Suspended: {obstacles.reason}")
    elif obstacles.failure is not None:
        found = replace(found, verdict="FAILED", summary=f"Failed: {obstacles.failure}")
    return replace(explained, explanation=found, obstacles=obstacles)


async def _explain(
    operations: Operations,
    definition: ModelDefinition,
    entity: Entity,
    *,
    since: int | None = None,
    timers: tuple[ScheduledTask, ...] | None = None,
    instant: int | None = None,
    answers: Mapping[str, FunctionAnswer] | None = None,
) -> EntityExplanation:
    model = definition.model
    members = operations.members
    needed = list_needed_tags(model, entity)
    counts = {tags: members.count(entity.tenant, tags) for tags in needed} if instant is None else None
    now, transaction = instant or operations.core.clock(), operations.core.ids.new_transaction_id()

    situation = SentSituation(
        model=definition.send(),
        entity=entity,
        now=now,
        transaction=transaction,
        timers=timers,
        member_counts=counts,
        answers=answers or {},
    )
    return EntityExplanation(
        entity=entity,
        model=model.key,
        revision=model.workflows_revision,
        since=since,
        timers=timers,
        explanation=await operations.core.computations.compute(entity.tenant, "explanation", explain_sent, situation),
    )


async def _ask_members(
    core: Core, caller: Caller, definition: ModelDefinition, entity: Entity
) -> dict[str, FunctionAnswer]:
    """What members say now of the criteria that they judge, by transition; ``MAX_ASKED`` are asked, at once."""
    model = definition.model
    workflow, transitions = list_asked(model, entity)
    if workflow is None:
        return {}
    document = await decode_by_size(entity.document)
    request = UpdateEntity(entity=entity, document=document, text=entity.document)

    async def ask(transition: Transition) -> FunctionAnswer:
        try:
            async with core.open_unit(Caller(caller.principal)) as unit:
                result = await core.engine.ask_criterion(unit, model, request, workflow, transition)
        except (EvaluationError, Failure) as failure:
            return FunctionAnswer(error=failure.message if isinstance(failure, Failure) else str(failure))
        return FunctionAnswer(matches=result.matches, reason=result.reason)

    asked = transitions[:MAX_ASKED]
    answers = await asyncio.gather(*map(ask, asked))
    return {transition.name: answer for transition, answer in zip(asked, answers, strict=True)}


async def _get_definition(core: Core, caller: Caller, entity: Entity) -> ModelDefinition:
    definition = await core.definitions.find_by_id(caller.tenant, entity.model)
    if definition is None:  # deleted between the two reads, with its entities
        raise EntityNotFound.of(entity.id)
    return definition


ENDED: Final = frozenset({"COMPLETED", "CANCELLED", "TERMINATED"})

_WAITING_TYPES: Final[dict[str, WaitsFor]] = {"WAIT": "SIGNAL", "JOIN_GATEWAY": "JOIN"}

_VERDICTS: Final[tuple[tuple[WaitsFor, str, str], ...]] = (
    ("JOB", "WAITS_FOR_JOB", "Waits for a job of {0}."),
    ("USER_TASK", "WAITS_FOR_TASK", "Waits for a person at {0}."),
    ("SIGNAL", "WAITS_FOR_SIGNAL", "Waits for a signal at {0}."),
    ("JOIN", "WAITS_FOR_JOIN", "Waits for other branches at {0}."),
)


class Place(Struct, frozen=True, kw_only=True):
    """Where an instance stands, and what has to happen there. ``workers`` could take the job; None without one."""

    execution: ObservedExecution
    waits_for: WaitsFor
    phase: Phase | None = None
    workers: int | None = None


class InstanceExplanation(Struct, frozen=True, kw_only=True):
    """What an instance waits for, or how it ended."""

    id: EntityId
    observed: ObservedInstance
    verdict: str
    summary: str
    places: tuple[Place, ...]
    obstacles: Obstacles
    joins: tuple[OpenJoin, ...]


async def explain_instance(
    operations: Operations, caller: Caller, instance: EntityId, unknown: ProcessNotFound
) -> InstanceExplanation:
    """Explain an instance of whatever process language, as it is now. Raises ``unknown``."""
    operations.metrics.explains += 1
    observed = await observe_instance(operations.core.pool, caller.tenant, instance)
    if observed is None:
        raise unknown
    places = tuple([await _find_place(operations, caller, each) for each in observed.executions])
    types = dict.fromkeys(place.execution.job.type for place in places if place.execution.job is not None)
    active, core = operations.concerns.active, operations.core
    obstacles = await find_instance_obstacles(core, active, caller, instance, observed.definition_id, types)
    waits = await _list_waits(operations.processes, caller, instance, observed)
    verdict, summary = _decide_verdict(observed, places, obstacles, waits.denied)
    return InstanceExplanation(
        id=instance,
        observed=observed,
        verdict=verdict,
        summary=summary,
        places=places,
        obstacles=obstacles,
        joins=waits.joins,
    )


async def _list_waits(
    processes: Processes, caller: Caller, instance: EntityId, observed: ObservedInstance
) -> OpenWaits:
    if observed.status in ENDED:
        return OpenWaits()
    hosted = processes.hosts.get_hosted(observed.language)
    return await hosted.list_waits(caller.tenant, instance)


async def _find_place(operations: Operations, caller: Caller, execution: ObservedExecution) -> Place:
    if execution.job is not None:
        queue = await get_queue(operations.work, caller, execution.job.type)
        return Place(execution=execution, waits_for="JOB", phase=_find_phase(execution.job), workers=queue.workers)
    if execution.task is not None:
        return Place(execution=execution, waits_for="USER_TASK")
    return Place(execution=execution, waits_for=_WAITING_TYPES.get(execution.node_type, "NOTHING"))


def _find_phase(job: ObservedJob) -> Phase:
    if job.kept:
        return "REPORTED"
    if job.held:
        return "HELD"
    if job.lock_expires_at is None:
        return "QUEUED"
    return "DELAYED" if job.locked_at is None else "LEASED"


def _decide_verdict(
    observed: ObservedInstance, places: tuple[Place, ...], obstacles: Obstacles, denied: tuple[NodeId, ...]
) -> tuple[str, str]:
    """The first that holds, and one sentence."""
    if observed.status in ENDED:
        return observed.status, f"It is {observed.status.lower()}."
    if obstacles.whole:
        return "SUSPENDED", f"Suspended: {obstacles.reason}"
    if observed.status == "FAILED":
        return "FAILED", f"Failed at {observed.failed_node or 'its start'}: {observed.failure or 'no reason is known'}"
    alone = next((place for place in places if place.phase == "QUEUED" and not place.workers), None)
    if alone is not None and alone.execution.job is not None:
        return "WAITS_FOR_WORKER", f"Nobody is there for jobs of {alone.execution.job.type}."
    for waits_for, verdict, summary in _VERDICTS:
        place = next((each for each in places if each.waits_for == waits_for), None)
        if place is not None:
            named = place.execution.job.type if place.execution.job is not None else place.execution.node
            return verdict, summary.format(named)
    if denied:
        return "WAITS_FOR_ADMISSION", f"Waits to be admitted at {', '.join(denied[:5])}: no rule there holds yet."
    if observed.timers:
        return "WAITS_FOR_TIMER", "Waits for a timer."
    return "TERMINAL", "Nothing leads on from where it stands."
