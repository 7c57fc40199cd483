"""The OpenAPI document stays as it is, but for what is meant to change (docs/reference/service.md#openapi).

``openapi_document.txt`` has a line for each operation and schema, without the examples, which are made from these. Run
this file as a program to write it anew.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from statewright.api.http.openapi import build_openapi_document

KEPT: Final = Path(__file__).with_name("openapi_document.txt")

NAME: Final = {"minLength": 1, "maxLength": 256}
SUSPENSION: Final = "OpsNewSuspension.properties"
INSTANCE: Final = "OpsInstanceExplanation.properties"
ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}
OBJECT_OR_ARRAY: Final = [ANY_OBJECT, {"type": "array", "items": {}}]
CAPITALISED: Final = (
    "ID InstanceID StepID StepName StepType AttemptNumber Status StartedAt EndedAt InputSnapshot OutputSnapshot "
    "FailureReason DefinitionID DefinitionName"
)

OPEN_OBJECTS: Final = (
    "Account.properties.userAccountInfo",
    "AuditItem.properties.actor",
    "AuditItem.properties.data",
    "ExecutionPatch.properties.ctx",
    "ExecutionStart.properties.args",
    "ExecutionStart.properties.ctx",
    "ExecutionStart.properties.workload",
    "ExecutionToken.properties.args",
    "FlowEvent.properties.fields",
    "GET:/.well-known/jwks.json.responses.200.content.application/json.schema.properties.keys.items",
    "GET:/help/cloudevents/json.responses.200.content.application/json.schema.properties.schemas",
    "GET:/help/grpc/json.responses.200.content.application/json.schema.properties.file.items",
    "GET:/help/workflows/schema-version/versions.responses.200.content.application/json.schema",
    "GET:/help/workflows/schema.responses.200.content.application/schema+json.schema",
    "GroupedQuery.properties.condition",
    "Message.properties.metaData",
    "MessageWithText.properties.metaData",
    "ModelExport.properties.model",
    "ModelExport.properties.uniqueKeys.items",
    "NewMessage.properties.metaData",
    "NewTrustedKey.properties.jwk",
    "Playbook",
    "PlaybookEvent.properties.payload",
    "PlaybookExecution.properties.ctx",
    "PlaybookExecution.properties.result",
    "PlaybookExecution.properties.results",
    "PlaybookExecution.properties.workload",
    "TrustedKey.properties.jwk",
)
ALTERNATIVES: Final = {
    "Document": OBJECT_OR_ARRAY,
    "FlowEvent.properties.output": [*OBJECT_OR_ARRAY, {"type": "null"}],
    "FlowInstance.properties.input": OBJECT_OR_ARRAY,
    "FlowInstance.properties.result": OBJECT_OR_ARRAY,
    "FlowStart.properties.input": [*OBJECT_OR_ARRAY, {"type": "null"}],
    "OpsVersionDocument.properties.document": [*OBJECT_OR_ARRAY, {"type": "null"}],
    "StepResult.properties.variables": [*OBJECT_OR_ARRAY, {"type": "null"}],
}

MENDS: Final[dict[str, dict[str, Any]]] = {
    "it is there at all times": {
        "OpsIncident.required.payloadOmitted": True,
        "OpsIncident.properties.resolution.required.reason": True,
    },
    "incidents of queues, models and subscriptions are about no entity (O-12, O-1)": {
        "OpsIncident.properties.subject.properties.kind.enum": [
            "ENTITY",
            "INSTANCE",
            "MODEL",
            "NEW_ENTITY",
            "QUEUE",
            "SUBSCRIPTION",
        ],
    },
    "it may be null, which no list of words allowed": {
        "OpsWorkflowCheck.properties.affected.properties.byState.items.properties.issue.enum": [None, "STATE_REMOVED"],
    },
    "it was refused before, and is said now": {
        "OpsRestore.properties.paths.items.maxLength": 4096,
        **{f"OpsRestore.properties.transition.{word}": limit for word, limit in NAME.items()},
        **{
            f"{SUSPENSION}.{name}.{word}": limit
            for name in ("name", "workflow", "transition", "model.properties.name")
            for word, limit in NAME.items()
        },
        f"{SUSPENSION}.definitionId.minLength": 1,
        f"{SUSPENSION}.definitionId.maxLength": 1024,
        f"{SUSPENSION}.model.additionalProperties": False,
        f"{SUSPENSION}.model.properties.version.minimum": 1,
        f"{SUSPENSION}.model.properties.version.maximum": 2**31 - 1,
    },
    "no kinds at all matched all": {
        f"{place}.properties.filters.items.properties.kinds.minItems": 1
        for place in ("OpsNewSubscription", "OpsSubscription", "OpsSubscriptionPatch")
    },
    "openapi-typescript took an object of which nothing else is said for one without members": {
        **{f"{place}.additionalProperties": True for place in OPEN_OBJECTS},
        "Schedule.anyOf": [
            {"required": {"delayMs": True}, "properties": {"delayMs": {"type": "integer", "exclusiveMinimum": 0}}},
            {"required": {"function": True}, "properties": {"function": ANY_OBJECT}},
        ],
    },
    "oapi-codegen knows one type of a schema, and null": {
        **{f"{place}.type": None for place in ALTERNATIVES},
        **{f"{place}.anyOf": schemas for place, schemas in ALTERNATIVES.items()},
    },
    "oapi-codegen capitalises members, and took them for those that are capitalised already": {
        **{f"StepExecution.properties.{name}.x-go-name": f"Capitalised{name}" for name in CAPITALISED.split()},
        "StepExecution.properties.Status.x-go-type-name": "CapitalisedStatus",
        "StepExecution.properties.InputSnapshot": None,
        "StepExecution.properties.OutputSnapshot": None,
    },
}
"""What is otherwise than in the file, and why."""

DESCRIBED: Final = (
    "OpsExplanation.properties.model",
    f"{INSTANCE}.suspensions.items",
    f"{INSTANCE}.incidents.items",
    "OpsSimulation.properties.path.items.properties.criteria.items",
    "OpsSimulation.properties.path.items.properties.processors.items",
)
"""Places at which a schema stands in place of that of any object, or of a reference to a closed one."""


def test_the_document_is_the_one_that_was_kept_but_for_named_mends() -> None:
    kept = {path: leaf for name, text in read_lines() for path, leaf in list_leaves(json.loads(text), name)}
    now = {path: leaf for name, part in list_parts() for path, leaf in list_leaves(part, name)}
    changed = {path for path in kept.keys() | now.keys() if kept.get(path, ...) != now.get(path, ...)}
    described = {path for path in changed if path.startswith(DESCRIBED)}
    mends = {path: leaf for of_reason in MENDS.values() for path, leaf in of_reason.items()}
    assert {path: now.get(path) for path in changed - described} == mends
    assert all(any(path.startswith(place) for path in described) for place in DESCRIBED)


def list_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What stands in the document, by where it stands."""
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for name, inner in value.items():
        yield from list_leaves(inner, f"{path}.{name}" if path else name)


def list_parts() -> Iterator[tuple[str, Any]]:
    """Operations and schemas by name, in a form that does not depend on an order that says nothing."""
    document = build_openapi_document()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()}:{path}", normalize(operation)
    for name, schema in document["components"]["schemas"].items():
        yield name, normalize(schema)


def normalize(value: Any) -> Any:
    if isinstance(value, list):
        return [normalize(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {name: normalize(each) for name, each in value.items() if name not in ("example", "examples")}
    if isinstance(plain.get("required"), list):
        plain["required"] = dict.fromkeys(sorted(plain["required"]), True)
    if isinstance(plain.get("enum"), list):
        plain["enum"] = sorted(plain["enum"], key=str)
    return plain


def read_lines() -> Iterator[tuple[str, str]]:
    for line in KEPT.read_text().splitlines():
        name, _, text = line.partition(" ")
        yield name, text


if __name__ == "__main__":
    KEPT.write_text("".join(f"{name} {json.dumps(part, sort_keys=True)}\n" for name, part in list_parts()))
