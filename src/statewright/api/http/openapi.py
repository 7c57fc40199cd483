"""The OpenAPI 3.1 document, made from the table of routes (spec/auth-and-operations.md §24).

Litestar's own generator describes what its handlers declare; our parameters bind by the dialect's rules and our bodies
are documents of the client's models, so the table says it better (docs/adr/0002).
"""

import re
from http import HTTPStatus
from typing import Any, Final

from statewright.api.http.examples import PARAMETERS, example_of, problem_example
from statewright.api.http.problems import PROBLEM
from statewright.api.http.routes import ROUTES, Query, Route
from statewright.api.http.steps.description import STEP_SCHEMAS, step_paths
from statewright.conditions.metafields import META_FIELDS
from statewright.conditions.operators import OPERATORS
from statewright.failures import BodyTooLarge, Failure

Document = dict[str, Any]  # Any: OpenAPI is a tree of whatever its own specification allows

_UUID = {"type": "string", "format": "uuid"}
_INSTANT = {"type": "string", "format": "date-time"}
_TEXT = {"type": "string"}
_INT32 = {"type": "integer", "format": "int32"}
_INT64 = {"type": "integer", "format": "int64"}
_FLAG = {"type": "boolean"}
_LEVEL = {"type": "string", "enum": ["debug", "info", "warn", "error"]}


def _object(required: str, **properties: object) -> Document:
    """A closed object: existing clients reject members they do not know."""
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}


def _array(items: object) -> Document:
    return {"type": "array", "items": items}


def _ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


_PATH = {"type": "string", "description": "the field; `city` and `$.city` mean the same", "examples": ["$.year"]}
_META = {"type": "string", "enum": ["state", *(name for name in META_FIELDS if name != "state")]}
_OPERATOR = {"type": "string", "enum": list(OPERATORS)}


def _condition(kind: str, required: str, **members: object) -> Document:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **members},
        "required": ["type", *required.split()],
    }


_JOB_STATES = {"type": "string", "enum": ["RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"]}
_INDEX_TYPES = {"type": "string", "enum": ["TEXT", "NUMBER", "BOOLEAN", "DOCUMENT"]}
_JOB_MEMBERS: Final = "createTime entitiesCount calculationTimeMillis expirationDate"
_JOB: Final = {
    "createTime": _INSTANT,
    "finishTime": _INSTANT,
    "entitiesCount": _INT64,
    "calculationTimeMillis": _INT64,
    "expirationDate": _INSTANT,
}

SCHEMAS: Final[Document] = {
    "Document": {"description": "a JSON document of the model", "type": ["object", "array"]},
    "ModelKey": _object("name version", name=_TEXT, version=_INT32),
    "Model": _object(
        "id modelName modelVersion currentState modelUpdateDate",
        id=_UUID,
        modelName=_TEXT,
        modelVersion=_INT32,
        currentState={"type": "string", "enum": ["LOCKED", "UNLOCKED"]},
        modelUpdateDate=_INSTANT,
    ),
    "Models": _array(_ref("Model")),
    "ModelId": _UUID,
    "ModelExport": _object(
        "currentState model", currentState=_TEXT, model={"type": "object"}, uniqueKeys=_array({"type": "object"})
    ),
    "ModelAction": _object(
        "success message modelId modelKey", success=_FLAG, message=_TEXT, modelId=_UUID, modelKey=_ref("ModelKey")
    ),
    "UniqueKeys": {
        "type": "object",
        "properties": {
            "uniqueKeys": {
                "type": ["array", "null"],
                "items": _object("id fields", id=_TEXT, fields=_array({"type": "string", "examples": ["$.orderNo"]})),
            }
        },
    },
    "Success": _object("success", success=_FLAG),
    "WorkflowImport": {
        "type": "object",
        "properties": {
            "importMode": {"type": "string", "enum": ["MERGE", "REPLACE", "ACTIVATE"], "default": "MERGE"},
            "allowCycles": _FLAG,
            "workflows": _array({"type": "object"}),
        },
    },
    "WorkflowExport": _object(
        "entityName modelVersion workflows", entityName=_TEXT, modelVersion=_INT32, workflows=_array({"type": "object"})
    ),
    "Meta": _object(
        "id modelKey state creationDate lastUpdateTime transactionId",
        id=_UUID,
        modelKey=_ref("ModelKey"),
        state=_TEXT,
        creationDate=_INSTANT,
        lastUpdateTime=_INSTANT,
        transactionId=_UUID,
        transitionForLatestSave=_TEXT,
        pointInTime=_INSTANT,
    ),
    "Envelope": _object("type data meta", type={"const": "ENTITY"}, data={}, meta=_ref("Meta")),
    "Envelopes": _array(_ref("Envelope")),
    "TransactionResult": _object("transactionId entityIds", transactionId=_UUID, entityIds=_array(_UUID)),
    "ChunkResult": {
        "description": "a committed transaction, or as the last one why a later chunk was not committed",
        "type": "object",
        "properties": {
            "transactionId": _UUID,
            "entityIds": _array(_UUID),
            "failed": _array(
                _object(
                    "entityId error",
                    entityId=_UUID,
                    error=_object("code message itemIndex", code=_TEXT, message=_TEXT, itemIndex=_INT32),
                )
            ),
            "error": _object("code message chunkIndex", code=_TEXT, message=_TEXT, chunkIndex=_INT32),
        },
        "required": ["entityIds"],
        "additionalProperties": False,
    },
    "TransactionResults": _array(_ref("ChunkResult")),
    "NewItems": _array(
        {
            "type": "object",
            "properties": {
                "model": _ref("ModelKey"),
                "payload": {"type": "string", "description": "the document as JSON text"},
            },
            "required": ["model", "payload"],
        }
    ),
    "ChangedItems": _array(
        {
            "type": "object",
            "properties": {
                "id": _UUID,
                "payload": {"type": "string", "description": "the document as JSON text"},
                "transition": {"type": ["string", "null"], "description": "none: a loopback"},
                "ifMatch": {"type": ["string", "null"], "description": "the transactionId it must still have"},
            },
            "required": ["id", "payload"],
        }
    ),
    "Patch": {"description": "a JSON Merge Patch, or an array of JSON Patch operations"},
    "ModelDeletion": _object(
        "entityModelClassId deleteResult",
        entityModelClassId=_UUID,
        deleteResult=_object(
            "numberOfEntitites numberOfEntititesRemoved idToError",
            numberOfEntitites=_INT64,
            numberOfEntititesRemoved=_INT64,
            idToError={"type": "object", "additionalProperties": _TEXT},
        ),
        ids=_array(_UUID),
    ),
    "Deleted": _object("id modelKey transactionId", id=_UUID, modelKey=_ref("ModelKey"), transactionId=_UUID),
    "Actor": _object("id kind", id=_TEXT, kind={"type": "string", "enum": ["user", "service", "system"]}),
    "Change": _object(
        "changeType timeOfChange user",
        changeType={"type": "string", "enum": ["CREATE", "UPDATE", "DELETE"]},
        timeOfChange=_INSTANT,
        user=_TEXT,
        attributedKind=_TEXT,
        executedBy=_ref("Actor"),
        transactionId=_UUID,
    ),
    "Changes": _array(_ref("Change")),
    "Condition": {
        "description": "a condition; see docs/reference/conditions.md",
        "oneOf": [_ref(name) for name in ("SimpleCondition", "LifecycleCondition", "GroupCondition", "ArrayCondition")],
    },
    "SimpleCondition": _condition("simple", "jsonPath operatorType", jsonPath=_PATH, operatorType=_OPERATOR, value={}),
    "LifecycleCondition": _condition("lifecycle", "field operatorType", field=_META, operatorType=_OPERATOR, value={}),
    "GroupCondition": _condition(
        "group",
        "operator conditions",
        operator={"type": "string", "enum": ["AND", "OR"]},
        conditions=_array(_ref("Condition")),
    ),
    "ArrayCondition": _condition("array", "jsonPath values", jsonPath=_PATH, values={"type": "array"}),
    "WantedIndex": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "the field; `$` for the whole document"},
            "type": _INDEX_TYPES,
            "state": {"type": "string", "description": "only entities in this state"},
        },
        "required": ["path"],
        "additionalProperties": False,
    },
    "SearchIndex": _object(
        "id path type status",
        id=_TEXT,
        path=_TEXT,
        type=_INDEX_TYPES,
        state=_TEXT,
        status={"type": "string", "enum": ["BUILDING", "READY", "FAILED", "DROPPING"]},
        failure=_TEXT,
        progress=_object("phase percent", phase=_TEXT, percent=_INT32),
    ),
    "Explanation": _object(
        "sql arguments judged plan",
        sql=_TEXT,
        arguments=_array(_TEXT),
        judged=_array(_TEXT),
        plan=_array(_TEXT),
    ),
    "Pruning": _object("removed keptFrom complete", removed=_INT64, keptFrom=_INSTANT, complete=_FLAG),
    "SearchIndexes": _array(_ref("SearchIndex")),
    "JobId": _UUID,
    "JobStatus": _object(f"searchJobStatus {_JOB_MEMBERS}", searchJobStatus=_JOB_STATES, **_JOB),
    "SnapshotStatus": _object(f"snapshotStatus {_JOB_MEMBERS}", snapshotStatus=_JOB_STATES, **_JOB),
    "JobResults": _object("content page", content=_array(_ref("Envelope")), page=_ref("Page")),
    "SnapshotResults": _object(
        "_embedded page",
        _embedded=_object("objectNodes", objectNodes=_array(_ref("Envelope"))),
        page=_ref("Page"),
    ),
    "Page": _object(
        "number size totalElements totalPages", number=_INT32, size=_INT32, totalElements=_INT64, totalPages=_INT32
    ),
    "JobCancellation": _object(
        "isCancelled cancelled currentSearchJobStatus",
        isCancelled=_FLAG,
        cancelled=_FLAG,
        currentSearchJobStatus=_JOB_STATES,
    ),
    "JobFailure": _object("searchJobStatus reason", searchJobStatus=_JOB_STATES, reason={"type": ["string", "null"]}),
    "Names": _array(_TEXT),
    "AuditItem": _object(
        "auditEventType severity utcTime microsTime entityId",
        auditEventType=_TEXT,
        eventType=_TEXT,
        changeType=_TEXT,
        severity=_TEXT,
        utcTime=_INSTANT,
        microsTime={"type": "integer", "format": "int64"},
        system=_FLAG,
        entityId=_UUID,
        transactionId=_UUID,
        actor={"type": "object"},
        state=_TEXT,
        details=_TEXT,
        data={"type": ["object", "null"]},
    ),
    "AuditPage": _object(
        "items pagination",
        items=_array(_ref("AuditItem")),
        pagination=_object("hasNext", hasNext=_FLAG, nextCursor=_TEXT),
    ),
    "Count": _object("modelName modelVersion count", modelName=_TEXT, modelVersion=_INT32, count=_INT64),
    "Counts": _array(_ref("Count")),
    "StateCounts": _array(
        _object("modelName modelVersion state count", modelName=_TEXT, modelVersion=_INT32, state=_TEXT, count=_INT64)
    ),
    "GroupedQuery": _object(
        "groupBy",
        groupBy=_array(_TEXT) | {"minItems": 1, "description": "`state`, or paths of scalars such as `$.warehouse`"},
        condition={"type": ["object", "null"], "description": "a search condition"},
        aggregations=_array(
            {
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["sum", "avg", "min", "max", "stdev"]},
                    "field": _TEXT,
                    "as": _TEXT,
                },
                "required": ["op", "field"],
                "additionalProperties": False,
            }
        ),
        pointInTime=_INSTANT,
        limit={"type": "integer", "minimum": 1},
    ),
    "Groups": _array(
        _object(
            "groupKey count",
            groupKey=_array(_object("path value", path=_TEXT, value={"type": ["string", "null"]})),
            count=_INT64,
            aggregations={"type": "object", "additionalProperties": {"type": ["number", "null"]}},
        )
    ),
    "NewMessage": {
        "type": "object",
        "properties": {"payload": {"description": "any JSON"}, "metaData": {"type": "object"}},
        "required": ["payload"],
    },
    "Message": _object(
        "header metaData content",
        header=_object(
            "subject contentType contentLength contentEncoding",
            subject=_TEXT,
            contentType=_TEXT,
            contentLength=_INT64,
            contentEncoding=_TEXT,
            messageId=_TEXT,
            userId=_TEXT,
            recipient=_TEXT,
            replyTo=_TEXT,
            correlationId=_TEXT,
        ),
        metaData={"type": "object"},
        content={"description": "the payload as it came"},
    ),
    "Ids": _array(_UUID),
    "DeletedMessage": _object("entityIds", entityIds=_array(_UUID)),
    "DeletedMessages": _array(_object("entityIds success", entityIds=_array(_UUID), success=_FLAG)),
    "LogLevel": _object("level", level=_LEVEL),
    "LogLevelChange": _object("level previous", level=_LEVEL, previous=_LEVEL),
    "Account": _object("userAccountInfo", userAccountInfo={"type": "object"}),
    "HelpTopic": _object(
        "topic path title synopsis body sections see_also stability actions",
        topic=_TEXT,
        path=_array(_TEXT),
        title=_TEXT,
        synopsis=_TEXT,
        body=_TEXT,
        sections=_array(_object("name body", name=_TEXT, body=_TEXT)),
        see_also=_array(_TEXT),
        stability={"type": "string", "enum": ["stable", "evolving", "experimental"]},
        actions=_array(_TEXT),
        children=_array(_TEXT),
    ),
    "Problem": _object(
        "type title status detail instance properties",
        type={"const": "about:blank"},
        title=_TEXT,
        status={"type": "integer"},
        detail=_TEXT,
        instance=_TEXT,
        ticket=_UUID,
        properties={
            "type": "object",
            "properties": {"errorCode": _TEXT, "retryable": _FLAG},
            "required": ["errorCode"],
        },
    ),
}

_ALWAYS = ("UNAUTHORIZED", "STORAGE_UNAVAILABLE", "SERVER_ERROR")
_PARAMETER_SCHEMAS = {
    "modelVersion": _INT32,
    "entityId": _UUID,
    "transactionId": _UUID,
    "messageId": _UUID,
    "jobId": _UUID,
    "format": {"type": "string", "enum": ["JSON", "XML"]},
    "dataFormat": {"type": "string", "enum": ["JSON", "XML"]},
    "changeLevel": {"type": "string", "enum": ["ARRAY_LENGTH", "ARRAY_ELEMENTS", "TYPE", "STRUCTURAL"]},
}

_OAUTH_ERROR = _object("error error_description", error=_TEXT, error_description=_TEXT)


def _json(schema: Document) -> Document:
    return {"application/json": {"schema": schema}}


def _public(operation_id: str, tag: str, summary: str, responses: Document, **more: object) -> Document:
    return {
        "operationId": operation_id,
        "tags": [tag],
        "summary": summary,
        "parameters": [],
        "security": [],
        "responses": {
            status: {"description": HTTPStatus(int(status)).phrase, **body} for status, body in responses.items()
        },
    } | more


PUBLIC: Final[dict[str, Document]] = {
    "/health": {
        "get": _public(
            "health",
            "Operations",
            "Whether the API serves",
            {"200": {"content": _json(_object("status", status=_TEXT))}},
        )
    },
    "/help": {
        "get": _public(
            "help",
            "Operations",
            "All pages of help",
            {
                "200": {
                    "content": _json(
                        _object(
                            "schema version topics",
                            schema={"const": 1},
                            version=_TEXT,
                            topics=_array(_ref("HelpTopic")),
                        )
                    )
                }
            },
        )
    },
    "/help/{topic}": {
        "get": _public(
            "helpTopic",
            "Operations",
            "A page of help by its dotted id, or raw output that it offers",
            {
                "200": {"content": _json(_ref("HelpTopic"))},
                "400": {"content": {PROBLEM: {"schema": _ref("Problem")}}},
                "404": {"content": {PROBLEM: {"schema": _ref("Problem")}}},
            },
            parameters=[{"name": "topic", "in": "path", "required": True, "schema": _TEXT}],
        )
    },
    "/help/workflows/schema-version/versions": {
        "get": _public(
            "workflowSchemaVersions",
            "Workflows",
            "Which import contracts for workflows are known",
            {"200": {"content": _json({"type": "object"})}},
        )
    },
    "/help/grpc/proto": {
        "get": _public(
            "grpcProtoSources",
            "Calculation members",
            "The protobuf sources of the gRPC service",
            {"200": {"content": {"text/plain": {"schema": _TEXT}}}},
        )
    },
    "/help/grpc/json": {
        "get": _public(
            "grpcDescriptors",
            "Calculation members",
            "The same as a FileDescriptorSet in protobuf JSON",
            {"200": {"content": _json(_object("file", file=_array({"type": "object"})))}},
        )
    },
    "/help/cloudevents/json": {
        "get": _public(
            "eventSchemas",
            "Calculation members",
            "JSON Schemas of all event payloads",
            {
                "200": {
                    "content": _json(
                        _object(
                            "schema version specVersion baseId schemas",
                            schema={"const": 1},
                            version=_TEXT,
                            specVersion=_TEXT,
                            baseId=_TEXT,
                            schemas={"type": "object"},
                        )
                    )
                }
            },
        )
    },
    "/.well-known/jwks.json": {
        "get": _public(
            "jwks",
            "Identity",
            "The public keys of tokens (jwt mode)",
            {"200": {"content": _json(_object("keys", keys=_array({"type": "object"})))}},
        )
    },
    "/oauth/token": {
        "post": _public(
            "getTechnicalUserToken",
            "Identity",
            "A token for a client's credentials (RFC 6749)",
            {
                "200": {
                    "content": _json(
                        _object(
                            "access_token token_type expires_in",
                            access_token=_TEXT,
                            token_type=_TEXT,
                            expires_in={"type": "integer"},
                            issued_token_type=_TEXT,
                        )
                    )
                },
                "400": {"content": _json(_OAUTH_ERROR)},
                "401": {"content": _json(_OAUTH_ERROR)},
                "403": {"content": _json(_OAUTH_ERROR)},
                "500": {"content": _json(_OAUTH_ERROR)},
            },
            security=[{"basicAuth": []}],
            requestBody={
                "required": True,
                "content": {
                    "application/x-www-form-urlencoded": {
                        "schema": {"type": "object", "properties": {"grant_type": _TEXT}, "required": ["grant_type"]}
                    }
                },
            },
        )
    },
}
"""What needs no bearer token below the context path; the rest is in ``routes``."""

DOCS_PAGE: Final = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Statewright API</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><script id="api-reference" data-url="/openapi.json"></script>
<script src="https://cdn.jsdelivr.net/npm/@scalar/api-reference"></script></body></html>
"""


def openapi_document() -> Document:
    """The whole document, without ``servers``, which depends on the request."""
    paths: dict[str, Document] = {
        path: {method: _with_examples(operation) for method, operation in operations.items()}
        for path, operations in PUBLIC.items()
    }
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _with_examples(_operation(route))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Statewright",
            "version": "1.0",
            "description": "Entities, versioned models and transactional workflows.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearerAuth": []}],
        "paths": paths | step_paths(),
        "components": {
            "schemas": SCHEMAS | STEP_SCHEMAS,
            "examples": _problem_examples(paths),
            "securitySchemes": {
                "bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "basicAuth": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _operation(route: Route) -> Document:
    operation: Document = {
        "operationId": route.id,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": [*_path_parameters(route.path), *map(_query_parameter, route.query), *_header_parameters(route)],
        "responses": {"200": {"description": "OK", "content": _replies(route)}} | _problems(route),
    }
    if route.body is not None:
        content = {media_type: {"schema": _ref(route.body)} for media_type in route.body_types}
        operation["requestBody"] = {"required": route.body_required, "content": content}
    return operation


def _replies(route: Route) -> Document:
    replies = {route.media_type: route.reply, **dict(route.other_replies)}
    return {media_type: {"schema": _ref(name)} for media_type, name in replies.items()}


def _with_examples(operation: Document) -> Document:
    """The operation with an example for each parameter, body and answer that has none; failures have one by code."""
    parameters = [_exemplified(parameter) for parameter in operation["parameters"]]
    answers = {status: _answer(answer) for status, answer in operation["responses"].items()}
    shown = operation | {"parameters": parameters, "responses": answers}
    if "requestBody" in operation:
        shown["requestBody"] = _answer(operation["requestBody"])
    return shown


def _exemplified(parameter: Document) -> Document:
    name, schema = parameter["name"], parameter["schema"]
    example = PARAMETERS[name] if name in PARAMETERS else example_of(schema, SCHEMAS)
    return {"example": str(example) if schema.get("type") == "string" else example} | parameter


def _answer(described: Document) -> Document:
    """A body, to be sent or received, with its examples."""
    content = {
        media_type: ({} if "examples" in shape else {"example": example_of(shape["schema"], SCHEMAS)}) | shape
        for media_type, shape in described.get("content", {}).items()
    }
    return described | ({"content": content} if content else {})


def _path_parameters(path: str) -> list[Document]:
    names = re.findall(r"\{(\w+)\}", path)
    return [
        {"name": name, "in": "path", "required": True, "schema": _PARAMETER_SCHEMAS.get(name, _TEXT)} for name in names
    ]


def _query_parameter(query: Query) -> Document:
    schema: Document = {"type": query.type} | ({"format": query.format} if query.format else {})
    return {
        "name": query.name,
        "in": "query",
        "description": query.description,
        "schema": _array(schema) if query.repeatable else schema,
    }


def _header_parameters(route: Route) -> list[Document]:
    named: list[Document] = [{"name": name, "in": "header", "schema": _TEXT} for name in route.headers]
    if not route.if_match:
        return named
    text = "the transactionId of the version that is to be replaced"
    return [*named, {"name": "If-Match", "in": "header", "description": text, "schema": _UUID}]


def _problem_examples(paths: dict[str, Document]) -> Document:
    """A problem document for each status and code that an operation may answer with."""
    operations = (operation for methods in paths.values() for operation in methods.values())
    answers = (answer for operation in operations for answer in operation["responses"].items())
    codes = {
        (code, status)
        for status, answer in answers
        for code in answer.get("content", {}).get(PROBLEM, {}).get("examples", {})
    }
    return {f"{code}-{status}": {"value": problem_example(code, int(status))} for code, status in sorted(codes)}


def _problems(route: Route) -> Document:
    """The failures of an operation by status, each with the codes it may carry."""
    statuses = {failure.code: failure.status for failure in reversed(_kinds(Failure))}  # the parent's counts
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys((*route.problems, *_ALWAYS)):
        by_status.setdefault(statuses[code], []).append(code)
    if route.body_limited:
        by_status[BodyTooLarge.status] = [BodyTooLarge.code]
    return {
        str(status): {
            "description": ", ".join(codes),
            "content": {
                PROBLEM: {
                    "schema": _ref("Problem"),
                    "examples": {code: {"$ref": f"#/components/examples/{code}-{status}"} for code in codes},
                }
            },
        }
        for status, codes in sorted(by_status.items())
    }


def _kinds(kind: type[Failure]) -> list[type[Failure]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in _kinds(child))]
