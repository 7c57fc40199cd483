"""Entities that could move and have not for long (docs/reference/operations.md#idle-entities)."""

from typing import Final

from statewright.services.definitions import ModelDefinition
from statewright.services.ops.lists import PageRequest
from statewright.services.runtime import Caller, Runtime
from statewright.storage.ops import idle_entities
from statewright.storage.ops.idle_entities import IdleEntity as IdleEntity
from statewright.storage.ops.idle_entities import Scan as Scan
from statewright.storage.ops.idle_entities import ScanKey as ScanKey
from statewright.storage.ops.idle_entities import ScannedModel

WITHIN_S: Final = 2.0
"""Time of one request."""


async def find_idle_entities(runtime: Runtime, caller: Caller, page: PageRequest[ScanKey], *, name: str | None) -> Scan:
    """The entities in states that can still be left which were written the longest time ago, of all models or of
    those with a name. Raises ``SearchTimeout``.
    """
    models = list[ScannedModel]()
    for key in await idle_entities.list_model_keys(runtime.search, caller.tenant, name=name):
        definition = await runtime.definitions.find(caller.tenant, key)
        states = () if definition is None else _list_movable_states(definition)
        if definition is not None and states:
            models.append(ScannedModel(key=key, id=definition.stored.id, states=states))
    models.sort(key=_get_place)
    return await idle_entities.find_idle_entities(
        runtime.search, caller.tenant, models, after=page.after, limit=page.size, within_s=WITHIN_S
    )


def _get_place(model: ScannedModel) -> tuple[str, int]:
    return model.key.name, model.key.version


def _list_movable_states(definition: ModelDefinition) -> tuple[str, ...]:
    """The states that an enabled transition of an active workflow leads out of."""
    states = {
        name
        for workflow in definition.model.workflows
        if workflow.active
        for name, state in workflow.states.items()
        if any(not transition.disabled for transition in state.transitions)
    }
    return tuple(sorted(states))
