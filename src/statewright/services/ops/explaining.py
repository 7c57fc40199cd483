"""Why an entity is where it is, and what would move it (docs/reference/operations.md#explain)."""

from typing import Final

from msgspec import Struct

from statewright.background import MAX_INLINE_BYTES, run_by_size
from statewright.engine.explanation import Explanation, Situation, explain_entity, list_needed_tags
from statewright.entity import Entity, ModelKey, ScheduledTask
from statewright.failures import EntityNotFound
from statewright.ids import EntityId
from statewright.jsonval.codec import decode_stored
from statewright.services.definitions import ModelDefinition
from statewright.services.ops.members import ConnectedMembers
from statewright.services.ops.metrics import OpsMetrics
from statewright.services.runtime import Caller, Runtime
from statewright.storage import entities
from statewright.storage.ops.explaining import observe_entity

IN_A_THREAD: Final = MAX_INLINE_BYTES + 1
"""The size of an explanation as ``run_by_size`` takes it: conditions may have hundreds of leaves, whatever the size of
the document.
"""


class EntityExplanation(Struct, frozen=True, kw_only=True):
    """An explanation with what it is about. ``since`` is when the entity came into its state, None when that is not
    known; ``timers`` are None for an instant of the past.
    """

    entity: Entity
    model: ModelKey
    revision: int
    since: int | None
    timers: tuple[ScheduledTask, ...] | None
    explanation: Explanation


async def explain(
    runtime: Runtime, caller: Caller, entity_id: EntityId, *, instant: int | None = None
) -> EntityExplanation:
    """Explain an entity as it is now, or as it was at an instant, without members and timers then.

    Raises ``EntityNotFound``, ``HistoryPruned``.
    """
    runtime.extensions.get(OpsMetrics).explains += 1
    if instant is None:
        observed = await observe_entity(runtime.pool, caller.tenant, entity_id)
        if observed is None:
            raise _build_not_found(entity_id)
        definition = await _get_definition(runtime, caller, observed.entity)
        return await _explain(runtime, definition, observed.entity, since=observed.state_since, timers=observed.timers)
    entity = await entities.fetch_entity_at(runtime.pool, caller.tenant, entity_id, instant)
    if entity is None:
        raise _build_not_found(entity_id)
    definition = await _get_definition(runtime, caller, entity)
    return await _explain(runtime, definition, entity, instant=instant)


async def _explain(
    runtime: Runtime,
    definition: ModelDefinition,
    entity: Entity,
    *,
    since: int | None = None,
    timers: tuple[ScheduledTask, ...] | None = None,
    instant: int | None = None,
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


async def _get_definition(runtime: Runtime, caller: Caller, entity: Entity) -> ModelDefinition:
    definition = await runtime.definitions.find_by_id(caller.tenant, entity.model)
    if definition is None:  # deleted between the two reads, with its entities
        raise _build_not_found(entity.id)
    return definition


def _build_not_found(entity_id: EntityId) -> EntityNotFound:
    return EntityNotFound(f"entity id={entity_id} not found", {"entityId": entity_id})
