"""The built-in models of the step language: instances, definitions, user tasks (docs/reference/steps.md)."""

from typing import Final

from statewright.builtin_models import BuiltinModel
from statewright.entity import ModelKey
from statewright.steps.instance import INITIAL, TRANSITIONS

OWNER: Final = "the step engine"


def _build_instance_states() -> dict[str, dict[str, str]]:
    states: dict[str, dict[str, str]] = {INITIAL: {}, "WAITING": {}, "COMPLETED": {}, "FAILED": {}, "CANCELLED": {}}
    for (source, target), name in TRANSITIONS.items():
        states[source][name] = target
    return states


INSTANCE: Final = BuiltinModel(
    key=ModelKey("StepWorkflowInstance", 1),
    owner=OWNER,
    sample={
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
    states=_build_instance_states(),
    client_transitions=frozenset({"cancel", "retry"}),
    open_paths=("$.variables", "$.tokens", "$.joins", "$.attempts", "$.pending", "$.answers"),
)

DEFINITION: Final = BuiltinModel(
    key=ModelKey("StepWorkflowDefinition", 1),
    owner=OWNER,
    sample={
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
    states={"PUBLISHED": {}},
    open_paths=("$.metadata", "$.steps"),
)

USER_TASK: Final = BuiltinModel(
    key=ModelKey("StepUserTask", 1),
    owner=OWNER,
    sample={
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
    states={"OPEN": {"complete": "COMPLETED", "cancel": "CANCELLED"}, "COMPLETED": {}, "CANCELLED": {}},
    client_transitions=frozenset({"complete"}),
    open_paths=("$.payload", "$.result"),
)

MODELS: Final = (INSTANCE, DEFINITION, USER_TASK)
