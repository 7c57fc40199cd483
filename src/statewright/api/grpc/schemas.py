"""What the service publishes about its interface, for authors and generators of clients: JSON Schemas of all event
payloads, and the protobuf sources and descriptors (docs/reference/grpc.md#service).

The schemas of requests and responses are made from the structs that read and write them, those of the events of member
streams from the tables below.
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final, cast

import msgspec
from google.protobuf import json_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from msgspec import UNSET
from msgspec.structs import fields

from statewright.api.grpc import responses
from statewright.api.grpc.collections import ENTITY_MANAGE_COLLECTION
from statewright.api.grpc.entities import ENTITY_MANAGE
from statewright.api.grpc.envelope import ACK, GREET, JOIN, KEEP_ALIVE
from statewright.api.grpc.handlers import RpcMethod
from statewright.api.grpc.models import ENTITY_MODEL_MANAGE
from statewright.api.grpc.payloads import Instant
from statewright.api.grpc.responses import Response
from statewright.api.grpc.search import ENTITY_SEARCH, ENTITY_SEARCH_COLLECTION
from statewright.proto import cyoda_cloud_api_pb2
from statewright.proto.workflow.v1 import engine_pb2

Schema = dict[str, Any]  # Any: JSON Schema is a tree of whatever its own specification allows

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
BASE_ID: Final = "https://cyoda.com/cloud/event/"

RPCS: Final[Mapping[str, tuple[RpcMethod, ...]]] = {
    "entity": (ENTITY_MANAGE, ENTITY_MANAGE_COLLECTION),
    "model": (ENTITY_MODEL_MANAGE,),
    "search": (ENTITY_SEARCH, ENTITY_SEARCH_COLLECTION),
}
"""Requests by category."""

RESPONSES: Final[Mapping[str, tuple[type[Response], ...]]] = {
    "entity": (
        responses.EntityTransactionResponse,
        responses.EntityDeleteResponse,
        responses.EntityDeleteAllResponse,
        responses.EntityTransitionResponse,
    ),
    "model": (
        responses.EntityModelImportResponse,
        responses.EntityModelExportResponse,
        responses.EntityModelTransitionResponse,
        responses.EntityModelDeleteResponse,
        responses.EntityModelGetAllResponse,
        responses.EntityModelSetUniqueKeysResponse,
    ),
    "search": (
        responses.EntityResponse,
        responses.EntitySnapshotSearchResponse,
        responses.EntityStatsResponse,
        responses.EntityStatsByStateResponse,
        responses.EntityChangesMetadataResponse,
    ),
}


def build_schemas() -> dict[str, Schema]:
    """Every payload's schema by its path, ``<category>/<event type>.json``, in order of paths."""
    found: dict[str, Schema] = {}
    for category, kind, schema in (*_describe_requests(), *_describe_responses(), *_describe_member_events()):
        path = f"{category}/{kind}.json"
        found[path] = {"$schema": DIALECT, "$id": f"{BASE_ID}{path}"} | schema | {"title": kind}
    return dict(sorted(found.items()))


def _describe_requests() -> Iterator[tuple[str, str, Schema]]:
    for category, rpcs in RPCS.items():
        for kind, operation in ((kind, operation) for rpc in rpcs for kind, operation in rpc.operations.items()):
            yield category, kind, _describe(operation.request) if operation.request else {"type": "object"}


def _describe_responses() -> Iterator[tuple[str, str, Schema]]:
    for category, kinds in RESPONSES.items():
        yield from ((category, kind.__name__, _describe_response(kind)) for kind in kinds)


def _describe_member_events() -> Iterator[tuple[str, str, Schema]]:
    return (("processing", kind, schema) for kind, schema in MEMBER_EVENTS.items())


def _describe(kind: type) -> Schema:
    """The schema of a struct, with those of its members below ``$defs``."""
    schema = msgspec.json.schema(kind, schema_hook=_describe_scalar)
    definitions: dict[str, Schema] = schema["$defs"]
    root = definitions.pop(cast("str", schema["$ref"]).rpartition("/")[2])
    root.pop("description", None)  # what our class is for, not what the event is for
    return root | ({"$defs": definitions} if definitions else {})


def _describe_scalar(kind: type) -> Schema:
    assert kind is Instant, kind  # noqa: S101 - the only type of ours that JSON Schema does not know
    return {"type": "string", "format": "date-time"}


def _describe_response(kind: type[Response]) -> Schema:
    """The schema of a response; members with a placeholder are required, since they are always sent."""
    schema = _describe(kind)
    schema["required"] = [each.encode_name for each in fields(kind) if each.default is not UNSET]
    for part in (schema, *schema.get("$defs", {}).values()):
        members: dict[str, Schema] = part.get("properties", {})
        written = [name for name, member in members.items() if "default" in member]
        for name in written:
            del members[name]["default"]
        part["required"] = sorted({*part.get("required", ()), *written})
    return schema


def _object_schema(required: str, **members: Schema) -> Schema:
    return {"type": "object", "properties": members, "required": required.split()}


def _nullable(schema: Schema) -> Schema:
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
    "workflow": _object_schema("id name", id=_TEXT, name=_TEXT),
    "transition": _object_schema("id name stateFrom stateTo", id=_TEXT, name=_TEXT, stateFrom=_TEXT, stateTo=_TEXT),
    "transactionId": _TEXT | {"description": "empty outside a transaction"},
    "parameters": _TEXT | {"description": "the configured context"},
    "payload": _object_schema("type data meta", type={"const": "JSON"}, data=_ANY, meta={"type": "object"}),
}
_ALWAYS: Final = "id success requestId entityId workflow transition transactionId"

_RESULT: Final[dict[str, Schema]] = {
    "id": _nullable(_TEXT),
    "requestId": _TEXT,
    "entityId": _nullable(_TEXT),
    "success": _nullable(_FLAG | {"description": "anything but true is a failure"}),
    "error": _nullable({"type": "object", "properties": {"code": _TEXT, "message": _nullable(_TEXT)}}),
    "warnings": _nullable(_TEXTS),
}

MEMBER_EVENTS: Final[Mapping[str, Schema]] = {
    JOIN: _object_schema("", id=_nullable(_TEXT), tags=_nullable(_TEXTS), joinedLegalEntityId=_nullable(_TEXT)),
    GREET: _object_schema(
        "id success memberId joinedLegalEntityId",
        id=_TEXT,
        success=_FLAG,
        memberId=_TEXT,
        joinedLegalEntityId=_TEXT,
    ),
    KEEP_ALIVE: _object_schema("", id=_nullable(_TEXT), success=_nullable(_FLAG), memberId=_nullable(_TEXT)),
    ACK: _object_schema("", id=_nullable(_TEXT), success=_nullable(_FLAG), sourceEventId=_nullable(_TEXT)),
    "EntityProcessorCalculationRequest": _object_schema(
        f"{_ALWAYS} processorId processorName", **_CALLOUT, processorId=_TEXT, processorName=_TEXT
    ),
    "EntityCriteriaCalculationRequest": _object_schema(
        f"{_ALWAYS} criteriaId criteriaName target",
        **_CALLOUT,
        criteriaId=_TEXT,
        criteriaName=_TEXT,
        target={"enum": ["WORKFLOW", "TRANSITION"]},
    ),
    "EntityFunctionCalculationRequest": _object_schema(
        f"{_ALWAYS} functionId functionName", **_CALLOUT, functionId=_TEXT, functionName=_TEXT
    ),
    "EntityProcessorCalculationResponse": _object_schema(
        "requestId",
        **_RESULT,
        payload=_nullable(
            {"type": "object", "properties": {"data": {"description": "the new document; null or absent: no change"}}}
        ),
    ),
    "EntityCriteriaCalculationResponse": _object_schema(
        "requestId", **_RESULT, matches=_nullable(_FLAG), reason=_nullable(_TEXT)
    ),
    "EntityFunctionCalculationResponse": _object_schema(
        "requestId", **_RESULT, result=_ANY, resultKind=_nullable(_TEXT)
    ),
}
"""Schemas of the events on the stream of a calculation member (docs/reference/grpc.md#member-streams,
docs/reference/grpc.md#callouts).
"""


SOURCES: Final = ("cloudevents.proto", "cyoda-cloud-api.proto", "workflow/v1/engine.proto")
SERVICES: Final = (cyoda_cloud_api_pb2.DESCRIPTOR, engine_pb2.DESCRIPTOR)


def read_proto_sources() -> str:
    """All source files, each under its name."""
    folder = files("statewright.proto")
    return "\n".join(f"// {name}\n\n{(folder / name).read_text()}" for name in SOURCES)


def build_descriptor_set() -> str:
    """The services and everything they are made of as protobuf JSON, dependencies first."""
    found: dict[str, FileDescriptor] = {}
    for service in SERVICES:
        _collect(service, found)
    described = FileDescriptorSet()
    for descriptor in found.values():
        descriptor.CopyToProto(described.file.add())
    return json_format.MessageToJson(described, indent=None)


def _collect(descriptor: FileDescriptor, found: dict[str, FileDescriptor]) -> None:
    for dependency in descriptor.dependencies:
        _collect(dependency, found)
    found[descriptor.name] = descriptor
