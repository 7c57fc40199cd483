"""The built-in models: instances, definitions and user tasks as entities (spec/step-engine.md §25.2, §25.3).

They are made for a tenant when it first uploads or starts something, locked, with the workflow that their entities
follow. Nobody but the step engine writes them; the transitions of ``OPEN`` are also open to clients of the entity API.
What authors and workers choose themselves (``variables`` and the like) has no schema, so the models' fields are open
there: any path below is known, and holds texts, numbers and booleans alike.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from statewright.entity import ModelKey
from statewright.identity import ModelId, TenantId, model_id
from statewright.jsonval.codec import encode
from statewright.jsonval.datatypes import DataType
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.schema import Declared, Node, infer, normal_form
from statewright.schema import to_stored as schema_to_stored
from statewright.steps.core.lifecycle import INITIAL, TRANSITIONS
from statewright.storage import models
from statewright.storage.pool import Pool

INSTANCE: Final = ModelKey("StepWorkflowInstance", 1)
DEFINITION: Final = ModelKey("StepWorkflowDefinition", 1)
USER_TASK: Final = ModelKey("StepUserTask", 1)

INSTANCE_ID: Final = model_id(INSTANCE.name, INSTANCE.version)
DEFINITION_ID: Final = model_id(DEFINITION.name, DEFINITION.version)
USER_TASK_ID: Final = model_id(USER_TASK.name, USER_TASK.version)

KEYS: Final[Mapping[ModelId, ModelKey]] = {INSTANCE_ID: INSTANCE, DEFINITION_ID: DEFINITION, USER_TASK_ID: USER_TASK}

OPEN: Final[Mapping[ModelId, frozenset[str]]] = {
    INSTANCE_ID: frozenset({"cancel", "retry"}),
    DEFINITION_ID: frozenset(),
    USER_TASK_ID: frozenset({"complete"}),
}
"""Transitions that clients of the entity API may fire, by model."""

_FREE: Final[Mapping[ModelId, tuple[str, ...]]] = {
    INSTANCE_ID: ("$.variables", "$.tokens", "$.joins", "$.attempts", "$.pending", "$.answers"),
    DEFINITION_ID: ("$.metadata", "$.steps"),
    USER_TASK_ID: ("$.payload", "$.result"),
}
_ANYTHING: Final = Declared(types=frozenset({DataType.STRING, DataType.UNBOUND_DECIMAL, DataType.BOOLEAN}))

_SAMPLES: Final[Mapping[ModelKey, JsonObject]] = {
    INSTANCE: {
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "definitionId": "HR::onboarding",
        "definitionVersion": 1,
        "status": "ACTIVE",
        "currentStepIds": ["step"],
        "variables": {},
        "startedAt": "2026-06-01T09:31:00.5Z",
        "completedAt": "2026-06-01T09:31:00.5Z",
        "failureReason": "a reason",
        "businessKey": "a key",
        "parentInstanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "tokens": [],
        "joins": [],
        "attempts": {},
        "pending": [],
        "answers": [],
    },
    DEFINITION: {
        "id": "HR::onboarding",
        "version": 1,
        "name": "a name",
        "description": "a text",
        "autoStartNextWorkflow": True,
        "nextWorkflowId": "HR::other",
        "steps": [],
        "metadata": {},
        "uploadedAt": "2026-06-01T09:31:00.5Z",
        "contentHash": "a hash",
    },
    USER_TASK: {
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "instanceId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "stepId": "a step",
        "stepExecutionId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "definitionId": "HR::onboarding",
        "definitionVersion": 1,
        "jobType": "a type",
        "businessKey": "a key",
        "status": "OPEN",
        "payload": {},
        "result": {},
        "completedBy": "a person",
        "createdAt": "2026-06-01T09:31:00.5Z",
        "completedAt": "2026-06-01T09:31:00.5Z",
    },
}


class OpenFields(Mapping[str, Declared]):
    """Declared fields, and every path at or below a free one."""

    def __init__(self, declared: Mapping[str, Declared], free: tuple[str, ...]) -> None:
        self._declared = declared
        self._free = free

    def __getitem__(self, path: str) -> Declared:
        found = self._declared.get(path)
        if found is not None:
            return found
        if any(path.startswith((f"{free}.", f"{free}[*]")) or path == free for free in self._free):
            return _ANYTHING
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


def opened(model: ModelId, declared: Mapping[str, Declared]) -> Mapping[str, Declared]:
    """The fields of a model as conditions see them; those of a built-in one are open where they are free."""
    free = _FREE.get(model)
    return declared if free is None else OpenFields(declared, free)


def schema(key: ModelKey) -> Node:
    """The schema of a built-in model."""
    return normal_form(infer(_SAMPLES[key]))


def workflow(key: ModelKey) -> JsonObject:
    """The workflow of a built-in model, in the form of an import."""
    states = _STATES[key]
    return {
        "version": "1.3",
        "name": key.name,
        "desc": "Kept by the step engine",
        "initialState": next(iter(states)),
        "active": True,
        "states": {state: {"transitions": transitions} for state, transitions in states.items()},
    }


def transitions_of(key: ModelKey, state: str) -> frozenset[str]:
    """The names of the transitions of a state."""
    return frozenset(
        str(transition["name"]) for transition in _STATES[key].get(state, []) if isinstance(transition, dict)
    )


async def equip(pool: Pool, tenant: TenantId) -> None:
    """Make the built-in models that a tenant lacks; concurrent calls are harmless."""
    for key in KEYS.values():
        async with models.edit(pool, tenant, key) as edit:
            if await edit.model() is None:
                await edit.save_schema(encode(schema_to_stored(schema(key))).decode())
                await edit.save_workflows(encode([{"contract": "STRICT", "workflow": workflow(key)}]).decode())
                await edit.set_state("LOCKED")


def _manual(name: str, target: str) -> JsonValue:
    return {"name": name, "next": target, "manual": True}


def _instance_states() -> dict[str, list[JsonValue]]:
    states: dict[str, list[JsonValue]] = {INITIAL: [], "WAITING": [], "COMPLETED": [], "FAILED": [], "CANCELLED": []}
    for (source, target), name in TRANSITIONS.items():
        states[source].append(_manual(name, target))
    return states


_STATES: Final[Mapping[ModelKey, Mapping[str, list[JsonValue]]]] = {
    INSTANCE: _instance_states(),
    DEFINITION: {"PUBLISHED": []},
    USER_TASK: {
        "OPEN": [_manual("complete", "COMPLETED"), _manual("cancel", "CANCELLED")],
        "COMPLETED": [],
        "CANCELLED": [],
    },
}
