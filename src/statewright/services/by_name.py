"""Firing a transition by its name on an entity whose document stays as it is (spec/grpc.md §7.5)."""

from statewright.engine.engine import Update
from statewright.identity import EntityId
from statewright.jsonval.codec import decode
from statewright.services.entities import existing, governing_definition
from statewright.services.runtime import Caller, Runtime
from statewright.services.steps import builtin, entity_door
from statewright.services.steps.entity_door import Fire
from statewright.services.writing import Saved, committed, saved


async def fire(runtime: Runtime, caller: Caller, entity_id: EntityId, *, transition: str | None) -> Saved:
    """Fire the transition, or look for automated ones without a name. Raises ``EntityNotFound`` and what a run can
    fail with.

    The document is read and written in one transaction, so nobody's change is lost. It is not held against its model
    again: what a processor made of it need not fit (decision W13), and must not stop the entity for ever.
    """
    async with runtime.unit(caller) as unit:
        entity = await existing(unit, entity_id)
        if entity.model in builtin.KEYS:
            return await entity_door.fire(runtime, caller, Fire(entity=entity, transition=transition, document={}))
        definition = await governing_definition(runtime, caller, entity)
        document, text = decode(entity.document), entity.document
        request = Update(entity=entity, document=document, text=text, transition=transition)
        run = runtime.engine.update(unit, definition.model, request)
        await committed(runtime, unit, run, may_segment=definition.model.may_segment)
        return saved(unit, [entity_id])
