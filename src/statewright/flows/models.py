"""The built-in models of flows: instances and definitions (docs/reference/flows.md#as-entities)."""

from typing import Final

from statewright.builtin_models import BuiltinModel
from statewright.entity import ModelKey
from statewright.flows.instance import INITIAL, TRANSITIONS
from statewright.jsonval.values import JsonObject

OWNER: Final = "the flow engine"


def _build_instance_states() -> dict[str, dict[str, str]]:
    states: dict[str, dict[str, str]] = {INITIAL: {}}
    for source, target in TRANSITIONS:
        states.setdefault(source, {})
        states.setdefault(target, {})
    for (source, target), name in TRANSITIONS.items():
        states[source][name] = target
    for stopped in ("FAILED", "TERMINATED"):
        states[stopped]["change"] = stopped
    states["TERMINATING"]["terminate"] = "TERMINATED"  # once more: at once
    return states


_PLACE: Final[JsonObject] = {"node": 1, "name": "a name", "element": 1, "reason": "a reason"}

INSTANCE: Final = BuiltinModel(
    key=ModelKey("FlowInstance", 1),
    owner=OWNER,
    sample={
        "id": "01JABC3V9E6K8M2Q4S6T8W0Y2Z",
        "definitionId": "orders",
        "definitionVersion": 1,
        "status": "RUNNING",
        "input": {},
        "result": {},
        "activeNodes": [1],
        "failedNodes": [{**_PLACE}],
        "waitingNodes": [{**_PLACE}],
        "startedAt": "2026-06-01T09:31:00.5Z",
        "completedAt": "2026-06-01T09:31:00.5Z",
        "failureReason": "a reason",
        "warning": "a text",
        "businessKey": "a key",
        "marking": {},
        "saved": {},
        "parts": [{}],
        "inputAt": [1],
    },
    states=_build_instance_states(),
    client_transitions=frozenset({"cancel", "terminate", "restart", "change"}),
    open_paths=("$.input", "$.result", "$.marking", "$.saved", "$.parts"),
)

DEFINITION: Final = BuiltinModel(
    key=ModelKey("FlowDefinition", 1),
    owner=OWNER,
    sample={
        "id": "orders",
        "version": 1,
        "name": "a name",
        "description": "a text",
        "source": "A → B",
        "settings": {"maxVisits": 1, "concurrency": 1, "retries": 1, "baseUri": "a URL", "baseUris": {}},
        "nodes": 1,
        "tasks": ["A"],
        "warnings": ["a warning"],
        "uploadedAt": "2026-06-01T09:31:00.5Z",
        "contentHash": "a hash",
    },
    states={"PUBLISHED": {}},
    open_paths=("$.settings.baseUris",),
)

MODELS: Final = (INSTANCE, DEFINITION)
