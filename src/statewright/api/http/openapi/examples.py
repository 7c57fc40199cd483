"""Examples for the OpenAPI document: what the quick start uses, so that each can be tried as it stands.

Bodies and answers whose meaning a schema cannot tell have their examples here; those of all others are made from their
schemas, so that no operation is without one.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from statewright.api.http.openapi.components import SCHEMAS as ENTITY_SCHEMAS
from statewright.api.http.openapi.operations import Document
from statewright.api.http.openapi.ops_schemas import OPS_SCHEMAS

SCHEMAS: Final = ENTITY_SCHEMAS | OPS_SCHEMAS

Schema = Mapping[str, Any]  # Any: a JSON Schema is a tree of whatever its own specification allows

ENTITY: Final = "5a6c1f20-77aa-11f0-9a3e-0242ac120003"
TRANSACTION: Final = "91b2d0c4-77ac-11f0-9a3e-0242ac120003"
INSTANT: Final = "2026-03-04T09:00:01.004507Z"
PRIZE: Final = {"category": "physics", "year": 2024}

WORKFLOW: Final = {
    "version": "1.3",
    "name": "prizes",
    "initialState": "NEW",
    "active": True,
    "states": {
        "NEW": {"transitions": [{"name": "APPROVE", "next": "APPROVED", "manual": True}]},
        "APPROVED": {},
    },
}

PARAMETER_EXAMPLES: Final[Mapping[str, object]] = {
    "entityName": "prize",
    "modelVersion": 1,
    "entityId": ENTITY,
    "messageId": ENTITY,
    "transactionId": TRANSACTION,
    "jobId": TRANSACTION,
    "transition": "APPROVE",
    "dataFormat": "JSON",
    "converter": "SIMPLE_VIEW",
    "changeLevel": "STRUCTURAL",
    "format": "JSON",
    "subject": "dock.arrivals",
    "topic": "errors",
    "pointInTime": INSTANT,
    "If-Match": TRANSACTION,
    "Content-Length": 42,
    "transactionWindow": 100,
    "pageSize": 20,
    "pageNumber": 0,
    "states": ["NEW", "APPROVED"],
    "sort": ["year:desc"],
    "limit": 100,
    "explain": "plan",
    "afterId": ENTITY,
    "dryRun": False,
    "warnings": True,
    "olderThan": "90d",
    "audience": "client",
    "keyId": "a3c17b2e6f8d4c5e9b0a1d2c3e4f5a6b",
    "clientId": "3F0KQ9V2B1C7TD5E",
    "withAdminRole": False,
    "withOperatorRole": True,
    "withReadOnlyRole": False,
    "entityClass": "prize.1",
    "fromUtcTime": INSTANT,
    "toUtcTime": INSTANT,
    "severity": "INFO",
    "eventType": ["StateMachine"],
}
"""By name, wherever the parameter stands."""

OPERATION_EXAMPLES: Final[Mapping[str, Mapping[str, object]]] = {
    "importEntityModel": {"converter": "SAMPLE_DATA"},
    "listIncidents": {"severity": ["ERROR"]},
}
"""By operation, where the example of a parameter would not go with that of the body."""

SCHEMA_EXAMPLES: Final[Mapping[str, object]] = {
    "Document": PRIZE,
    "ModelId": "0b0c3b52-0f0e-5c1f-9f5e-6b1f2f3a4c5d",
    "ModelExport": {"currentState": "LOCKED", "model": {"$": {".category": "STRING", ".year": "INTEGER"}}},
    "ModelAction": {
        "success": True,
        "message": "Model prize:1 locked",
        "modelId": "0b0c3b52-0f0e-5c1f-9f5e-6b1f2f3a4c5d",
        "modelKey": {"name": "prize", "version": 1},
    },
    "UniqueKeys": {"uniqueKeys": [{"id": "by-year", "fields": ["$.category", "$.year"]}]},
    "WorkflowImport": {"importMode": "REPLACE", "workflows": [WORKFLOW]},
    "WorkflowExport": {"entityName": "prize", "modelVersion": 1, "workflows": [WORKFLOW]},
    "Envelope": {
        "type": "ENTITY",
        "data": PRIZE,
        "meta": {
            "id": ENTITY,
            "modelKey": {"name": "prize", "version": 1},
            "state": "APPROVED",
            "creationDate": "2026-03-04T08:15:30.12Z",
            "lastUpdateTime": INSTANT,
            "transactionId": TRANSACTION,
            "transitionForLatestSave": "APPROVE",
        },
    },
    "TransactionResult": {"transactionId": TRANSACTION, "entityIds": [ENTITY]},
    "ChunkResult": {"transactionId": TRANSACTION, "entityIds": [ENTITY]},
    "NewItems": [{"model": {"name": "prize", "version": 1}, "payload": '{"category":"physics","year":2024}'}],
    "ChangedItems": [{"id": ENTITY, "payload": '{"category":"physics","year":2025}', "transition": "APPROVE"}],
    "Patch": {"year": 2025},
    "Condition": {"type": "simple", "jsonPath": "$.year", "operatorType": "GREATER_THAN", "value": 2000},
    "WantedIndex": {"path": "$.year", "type": "NUMBER"},
    "GroupedQuery": {
        "groupBy": ["$.category", "state"],
        "aggregations": [{"op": "avg", "field": "$.year", "as": "meanYear"}],
        "limit": 50,
    },
    "Groups": [
        {
            "groupKey": [{"path": "$.category", "value": "physics"}, {"path": "state", "value": "APPROVED"}],
            "count": 41,
            "aggregations": {"meanYear": 1990.5},
        }
    ],
    "NewMessage": {"payload": {"plate": "AB-1234", "pallets": [1, 2]}, "metaData": {"source": "gate-3"}},
    "Names": ["APPROVE"],
    "Ids": [ENTITY],
    "LogLevel": {"level": "info"},
    "TraceSampler": {"sampler": "always", "parent_based": True},
    "TraceSamplerChange": {"sampler": "ratio", "ratio": 0.25, "parent_based": True},
}
"""By name of the schema."""


def build_example(schema: Schema, schemas: Mapping[str, Schema]) -> object:
    """A value that conforms to a schema; ``schemas`` are those it may refer to by name."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            return SCHEMA_EXAMPLES[name] if name in SCHEMA_EXAMPLES else build_example(schemas[name], schemas)
        case {"const": value} | {"examples": [value, *_]} | {"enum": [value, *_]}:
            return value
        case {"oneOf": [first, *_]}:
            return build_example(first, schemas)
        case _:
            return _build_by_type(schema, schemas)


def _build_by_type(schema: Schema, schemas: Mapping[str, Schema]) -> object:
    kind = schema.get("type", "object")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            members: Mapping[str, Schema] = schema.get("properties", {})
            return {name: build_example(member, schemas) for name, member in members.items()}
        case "array":
            return [build_example(schema.get("items", {}), schemas)]
        case "string":
            return {"uuid": ENTITY, "date-time": INSTANT}.get(schema.get("format", ""), "text")
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return max(1, schema.get("minimum", 1))


def build_problem_example(code: str, status: int) -> object:
    """A problem document with this code."""
    return {
        "type": f"/api/help/errors.{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": f"{code}: what is wrong, in words",
        "instance": "/api/entity/prize/1",
        "properties": {"errorCode": code},
    }


# Operations with an example for everything that is sent and received.


def add_examples(operation: Document) -> Document:
    """The operation with an example for each parameter, body and answer that has none; failures have one by code."""
    own = OPERATION_EXAMPLES.get(operation["operationId"], {})
    parameters = [_add_parameter_example(parameter, own) for parameter in operation["parameters"]]
    answers = {status: _add_content_examples(answer) for status, answer in operation["responses"].items()}
    shown = operation | {"parameters": parameters, "responses": answers}
    if "requestBody" in operation:
        shown["requestBody"] = _add_content_examples(operation["requestBody"])
    return shown


def _add_parameter_example(parameter: Document, own: Mapping[str, object]) -> Document:
    name, schema = parameter["name"], parameter["schema"]
    examples = {**PARAMETER_EXAMPLES, **own}
    example = examples[name] if name in examples else build_example(schema, SCHEMAS)
    return {"example": str(example) if schema.get("type") == "string" else example} | parameter


def _add_content_examples(described: Document) -> Document:
    """A body, to be sent or received, with its examples."""
    content = {
        media_type: ({} if "examples" in shape else {"example": build_example(shape["schema"], SCHEMAS)}) | shape
        for media_type, shape in described.get("content", {}).items()
    }
    return described | ({"content": content} if content else {})
