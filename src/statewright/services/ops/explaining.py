"""Why an entity is where it is, and what would move it (docs/reference/operations.md#explain)."""

import asyncio
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from statewright.background import MAX_INLINE_BYTES, run_by_size
from statewright.conditions import EvaluationError
from statewright.engine.engine import UpdateEntity
from statewright.engine.explanation import (
    Explanation,
    FunctionAnswer,
    Situation,
    explain_entity,
    hold_transitions,
    list_asked,
    list_needed_tags,
)
from statewright.entity import Entity, ModelKey, ScheduledTask
from statewright.failures import EntityNotFound, Failure
from statewright.ids import EntityId
from statewright.jsonval.codec import decode_stored
from statewright.services.definitions import ModelDefinition
from statewright.services.ops.members import ConnectedMembers
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.runtime import Caller, Runtime
from statewright.storage import entities
from statewright.storage.ops.explaining import observe_entity
from statewright.storage.ops.incidents import Incident, list_open_of
from statewright.suspensions import Suspension
from statewright.workflow import Transition

MAX_ASKED: Final = 50
"""Criteria that members are asked for."""

MAX_INCIDENTS: Final = 10
"""Of the entity that are told."""

IN_A_THREAD: Final = MAX_INLINE_BYTES + 1
"""The size of an explanation as ``run_by_size`` takes it: conditions may have hundreds of leaves, whatever the size of
the document.
"""


class EntityExplanation(Struct, frozen=True, kw_only=True):
    """An explanation with what it is about. ``since`` is when the entity came into its state, None when that is not
    known; ``timers`` are None for an instant of the past, and so are ``suspensions`` and open ``incidents``.
    """

    entity: Entity
    model: ModelKey
    revision: int
    since: int | None
    timers: tuple[ScheduledTask, ...] | None
    explanation: Explanation
    suspensions: tuple[Suspension, ...] | None = None
    incidents: tuple[Incident, ...] | None = None


async def explain(
    runtime: Runtime, caller: Caller, entity_id: EntityId, *, instant: int | None = None, asks_members: bool = False
) -> EntityExplanation:
    """Explain an entity as it is now, or as it was at an instant, without members and timers then. ``asks_members``:
    they are asked for the criteria that they judge, if it is about now.

    Raises ``EntityNotFound``, ``HistoryPruned``.
    """
    runtime.extensions.get(OpsMetrics).explains += 1
    if instant is None:
        observed = await observe_entity(runtime.pool, caller.tenant, entity_id)
        if observed is None:
            raise _build_not_found(entity_id)
        definition = await _get_definition(runtime, caller, observed.entity)
        answers = await _ask_members(runtime, caller, definition, observed.entity) if asks_members else {}
        explained = await _explain(
            runtime, definition, observed.entity, since=observed.state_since, timers=observed.timers, answers=answers
        )
        return await _add_obstacles(runtime, caller, explained)
    entity = await entities.fetch_entity_at(runtime.pool, caller.tenant, entity_id, instant)
    if entity is None:
        raise _build_not_found(entity_id)
    definition = await _get_definition(runtime, caller, entity)
    return await _explain(runtime, definition, entity, instant=instant)


async def _add_obstacles(runtime: Runtime, caller: Caller, explained: EntityExplanation) -> EntityExplanation:
    """With what operators have suspended, and what has failed: both come before all other verdicts."""
    entity, model, found = explained.entity, explained.model, explained.explanation
    suspensions, workflow = runtime.suspensions, found.workflow or ""
    whole = suspensions.list_entity(caller.tenant, entity.id, model, workflow)
    single = {
        each.name: held
        for each in found.transitions
        if (held := suspensions.find_transition(caller.tenant, model, workflow, each.name)) is not None
    }
    incidents = await list_open_of(runtime.pool, caller.tenant, entity.id, limit=MAX_INCIDENTS)
    if whole or single:
        found = hold_transitions(found, None if whole else single)
    if whole:
        found = replace(found, verdict="SUSPENDED", summary=f"Suspended: {whole[0].reason}")
    elif single and found.verdict == "READY":
        found = replace(found, verdict="SUSPENDED", summary=f"Suspended: {next(iter(single.values())).reason}")
    elif any(each.severity == "ERROR" for each in incidents):
        found = replace(found, verdict="FAILED", summary=f"Failed: {incidents[0].title}")
    return replace(
        explained, explanation=found, suspensions=(*whole, *dict.fromkeys(single.values())), incidents=tuple(incidents)
    )


async def _explain(
    runtime: Runtime,
    definition: ModelDefinition,
    entity: Entity,
    *,
    since: int | None = None,
    timers: tuple[ScheduledTask, ...] | None = None,
    instant: int | None = None,
    answers: Mapping[str, FunctionAnswer] | None = None,
) -> EntityExplanation:
    model = definition.model
    members = runtime.extensions.get(ConnectedMembers)
    needed = list_needed_tags(model, entity)
    counts = {tags: members.count(entity.tenant, tags) for tags in needed} if instant is None else None
    now, transaction = instant or runtime.clock(), runtime.ids.new_transaction_id()

    def compute() -> Explanation:
        situation = Situation(
            model=model,
            entity=entity,
            document=decode_stored(entity.document),
            now=now,
            transaction=transaction,
            timers=timers,
            member_counts=counts,
            answers=answers or {},
        )
        return explain_entity(situation)

    return EntityExplanation(
        entity=entity,
        model=model.key,
        revision=model.workflows_revision,
        since=since,
        timers=timers,
        explanation=await run_by_size(IN_A_THREAD, compute),
    )


async def _ask_members(
    runtime: Runtime, caller: Caller, definition: ModelDefinition, entity: Entity
) -> dict[str, FunctionAnswer]:
    """What members say now of the criteria that they judge, by transition; ``MAX_ASKED`` are asked, at once."""
    model = definition.model
    workflow, transitions = list_asked(model, entity)
    if workflow is None:
        return {}
    text = entity.document
    document = await run_by_size(len(text), lambda: decode_stored(text))
    request = UpdateEntity(entity=entity, document=document, text=text)

    async def ask(transition: Transition) -> FunctionAnswer:
        try:
            async with runtime.open_unit(Caller(caller.principal)) as unit:
                result = await runtime.engine.ask_criterion(unit, model, request, workflow, transition)
        except (EvaluationError, Failure) as failure:
            return FunctionAnswer(error=failure.message if isinstance(failure, Failure) else str(failure))
        return FunctionAnswer(matches=result.matches, reason=result.reason)

    asked = transitions[:MAX_ASKED]
    answers = await asyncio.gather(*map(ask, asked))
    return {transition.name: answer for transition, answer in zip(asked, answers, strict=True)}


async def _get_definition(runtime: Runtime, caller: Caller, entity: Entity) -> ModelDefinition:
    definition = await runtime.definitions.find_by_id(caller.tenant, entity.model)
    if definition is None:  # deleted between the two reads, with its entities
        raise _build_not_found(entity.id)
    return definition


def _build_not_found(entity_id: EntityId) -> EntityNotFound:
    return EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
