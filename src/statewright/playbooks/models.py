"""The built-in models of playbooks: executions and definitions (docs/reference/executions.md#as-entities)."""

from typing import Final

from statewright.builtin_models import BuiltinModel
from statewright.entity import ModelKey
from statewright.playbooks.execution import INITIAL, TRANSITIONS

OWNER: Final = "the playbook engine"


def _build_execution_states() -> dict[str, dict[str, str]]:
    states: dict[str, dict[str, str]] = {INITIAL: {}}
    for source, target in TRANSITIONS:
        states.setdefault(source, {})
        states.setdefault(target, {})
    for (source, target), name in TRANSITIONS.items():
        states[source][name] = target
    return states


EXECUTION: Final = BuiltinModel(
    key=ModelKey("PlaybookExecution", 1),
    owner=OWNER,
    sample={
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "path": "examples/orders",
        "version": 1,
        "status": "running",
        "state": "RUNNING",
        "workload": {},
        "ctx": {},
        "results": {},
        "result": {},
        "conclusion": {},
        "activeSteps": ["a step"],
        "pendingSteps": ["a step"],
        "branches": {"succeeded": 1, "failed": 1},
        "startedAt": "2026-06-01T09:31:00.5Z",
        "completedAt": "2026-06-01T09:31:00.5Z",
        "failureReason": "a reason",
        "businessKey": "a key",
        "parentExecutionId": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "awaitedBy": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "data": {},
        "marking": {},
    },
    states=_build_execution_states(),
    client_transitions=frozenset({"cancel", "restart"}),
    open_paths=("$.workload", "$.ctx", "$.results", "$.result", "$.conclusion", "$.data", "$.marking"),
)

DEFINITION: Final = BuiltinModel(
    key=ModelKey("PlaybookDefinition", 1),
    owner=OWNER,
    sample={
        "path": "examples/orders",
        "version": 1,
        "name": "a name",
        "description": "a text",
        "playbookVersion": "1.0",
        "tags": ["a tag"],
        "source": "a document",
        "steps": ["a step"],
        "kinds": ["noop"],
        "warnings": [{"path": "/workflow/0", "message": "a text", "severity": "warning"}],
        "uploadedAt": "2026-06-01T09:31:00.5Z",
        "contentHash": "a hash",
    },
    states={"PUBLISHED": {}},
)
