"""JSON Schemas of all event payloads, for those who write clients (spec/grpc.md §1).

Requests and responses are described by the structs that read and write them; what members and server say to each other
by the tables at the end of this module.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import fields

from statewright.api.grpc import answers
from statewright.api.grpc.answers import Answer
from statewright.api.grpc.collections import ENTITY_MANAGE_COLLECTION
from statewright.api.grpc.entities import ENTITY_MANAGE
from statewright.api.grpc.envelope import ACK, GREET, JOIN, KEEP_ALIVE
from statewright.api.grpc.models import ENTITY_MODEL_MANAGE
from statewright.api.grpc.payloads import Instant
from statewright.api.grpc.rpc import Rpc
from statewright.api.grpc.search import ENTITY_SEARCH, ENTITY_SEARCH_COLLECTION

Schema = dict[str, Any]  # Any: JSON Schema is a tree of whatever its own specification allows

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
BASE_ID: Final = "https://cyoda.com/cloud/event/"

RPCS: Final[Mapping[str, tuple[Rpc, ...]]] = {
    "entity": (ENTITY_MANAGE, ENTITY_MANAGE_COLLECTION),
    "model": (ENTITY_MODEL_MANAGE,),
    "search": (ENTITY_SEARCH, ENTITY_SEARCH_COLLECTION),
}
"""Requests by category."""

RESPONSES: Final[Mapping[str, tuple[type[Answer], ...]]] = {
    "entity": (
        answers.EntityTransactionResponse,
        answers.EntityDeleteResponse,
        answers.EntityDeleteAllResponse,
        answers.EntityTransitionResponse,
    ),
    "model": (
        answers.EntityModelImportResponse,
        answers.EntityModelExportResponse,
        answers.EntityModelTransitionResponse,
        answers.EntityModelDeleteResponse,
        answers.EntityModelGetAllResponse,
        answers.EntityModelSetUniqueKeysResponse,
    ),
    "search": (
        answers.EntityResponse,
        answers.EntitySnapshotSearchResponse,
        answers.EntityStatsResponse,
        answers.EntityStatsByStateResponse,
        answers.EntityChangesMetadataResponse,
    ),
}


def schemas() -> dict[str, Schema]:
    """Every payload's schema by its path, ``<category>/<event type>.json``, in order of paths."""
    found: dict[str, Schema] = {}
    for category, kind, schema in (*_requests(), *_responses(), *_of_members()):
        path = f"{category}/{kind}.json"
        found[path] = {"$schema": DIALECT, "$id": f"{BASE_ID}{path}"} | schema | {"title": kind}
    return dict(sorted(found.items()))


def _requests() -> Iterator[tuple[str, str, Schema]]:
    for category, rpcs in RPCS.items():
        for kind, operation in ((kind, operation) for rpc in rpcs for kind, operation in rpc.operations.items()):
            yield category, kind, _described(operation.request) if operation.request else {"type": "object"}


def _responses() -> Iterator[tuple[str, str, Schema]]:
    for category, kinds in RESPONSES.items():
        yield from ((category, kind.__name__, _as_written(kind)) for kind in kinds)


def _of_members() -> Iterator[tuple[str, str, Schema]]:
    return (("processing", kind, schema) for kind, schema in MEMBER_EVENTS.items())


def _described(kind: type) -> Schema:
    """The schema of a struct, with those of its members below ``$defs``."""
    schema = msgspec.json.schema(kind, schema_hook=_scalar)
    definitions: dict[str, Schema] = schema["$defs"]
    root = definitions.pop(cast("str", schema["$ref"]).rpartition("/")[2])
    root.pop("description", None)  # what our class is for, not what the event is for
    return root | ({"$defs": definitions} if definitions else {})


def _scalar(kind: type) -> Schema:
    assert kind is Instant, kind  # noqa: S101 - the only type of ours that JSON Schema does not know
    return {"type": "string", "format": "date-time"}


def _as_written(kind: type[Answer]) -> Schema:
    """The schema of a response, in which everything that has a placeholder is always there."""
    schema = _described(kind)
    schema["required"] = [each.encode_name for each in fields(kind) if each.default is not UNSET]
    for part in (schema, *schema.get("$defs", {}).values()):
        members: dict[str, Schema] = part.get("properties", {})
        written = [name for name, member in members.items() if "default" in member]
        for name in written:
            del members[name]["default"]
        part["required"] = sorted({*part.get("required", ()), *written})
    return schema


def _object(required: str, **members: Schema) -> Schema:
    return {"type": "object", "properties": members, "required": required.split()}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_ANY: Final[Schema] = {}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}

_CALLOUT: Final[dict[str, Schema]] = {
    "id": _TEXT,
    "success": {"const": True},
    "requestId": _TEXT,
    "entityId": _TEXT,
    "workflow": _object("id name", id=_TEXT, name=_TEXT),
    "transition": _object("id name stateFrom stateTo", id=_TEXT, name=_TEXT, stateFrom=_TEXT, stateTo=_TEXT),
    "transactionId": _TEXT | {"description": "empty outside a transaction"},
    "parameters": _TEXT | {"description": "the configured context"},
    "payload": _object("type data meta", type={"const": "JSON"}, data=_ANY, meta={"type": "object"}),
}
_ALWAYS: Final = "id success requestId entityId workflow transition transactionId"

_REPLY: Final[dict[str, Schema]] = {
    "id": _or_null(_TEXT),
    "requestId": _TEXT,
    "entityId": _or_null(_TEXT),
    "success": _or_null(_FLAG | {"description": "anything but true is a failure"}),
    "error": _or_null({"type": "object", "properties": {"code": _TEXT, "message": _or_null(_TEXT)}}),
    "warnings": _or_null(_TEXTS),
}

MEMBER_EVENTS: Final[Mapping[str, Schema]] = {
    JOIN: _object("", id=_or_null(_TEXT), tags=_or_null(_TEXTS), joinedLegalEntityId=_or_null(_TEXT)),
    GREET: _object(
        "id success memberId joinedLegalEntityId",
        id=_TEXT,
        success=_FLAG,
        memberId=_TEXT,
        joinedLegalEntityId=_TEXT,
    ),
    KEEP_ALIVE: _object("", id=_or_null(_TEXT), success=_or_null(_FLAG), memberId=_or_null(_TEXT)),
    ACK: _object("", id=_or_null(_TEXT), success=_or_null(_FLAG), sourceEventId=_or_null(_TEXT)),
    "EntityProcessorCalculationRequest": _object(
        f"{_ALWAYS} processorId processorName", **_CALLOUT, processorId=_TEXT, processorName=_TEXT
    ),
    "EntityCriteriaCalculationRequest": _object(
        f"{_ALWAYS} criteriaId criteriaName target",
        **_CALLOUT,
        criteriaId=_TEXT,
        criteriaName=_TEXT,
        target={"enum": ["WORKFLOW", "TRANSITION"]},
    ),
    "EntityFunctionCalculationRequest": _object(
        f"{_ALWAYS} functionId functionName", **_CALLOUT, functionId=_TEXT, functionName=_TEXT
    ),
    "EntityProcessorCalculationResponse": _object(
        "requestId",
        **_REPLY,
        payload=_or_null(
            {"type": "object", "properties": {"data": {"description": "the new document; null or absent: no change"}}}
        ),
    ),
    "EntityCriteriaCalculationResponse": _object(
        "requestId", **_REPLY, matches=_or_null(_FLAG), reason=_or_null(_TEXT)
    ),
    "EntityFunctionCalculationResponse": _object("requestId", **_REPLY, result=_ANY, resultKind=_or_null(_TEXT)),
}
"""What goes over the stream of a calculation member (spec/grpc.md §13, §14)."""
