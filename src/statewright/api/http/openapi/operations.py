"""Operations as OpenAPI describes them, made from the table of routes.

The words that schemas are made of.

The groups of operations, in the order in which one meets them: a model, its workflow, then entities.

What needs no bearer token below the context path; the rest is described by the table of routes.
"""

import re
from http import HTTPStatus
from typing import Any, Final

from statewright.api.http.errors import PROBLEM
from statewright.api.http.router import Route
from statewright.failures import BodyTooLarge, list_kinds
from statewright.operations.records import QueryParameter

Document = dict[str, Any]  # Any: OpenAPI is a tree of whatever its own specification allows

UUID: Final = {"type": "string", "format": "uuid"}
_ULID: Final = "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$"
ENTITY_ID: Final = {"type": "string", "anyOf": [{"format": "uuid"}, {"pattern": _ULID}]}
INSTANT: Final = {"type": "string", "format": "date-time"}
TEXT: Final = {"type": "string"}
INT32: Final = {"type": "integer", "format": "int32"}
INT64: Final = {"type": "integer", "format": "int64"}
FLAG: Final = {"type": "boolean"}
ANY_OBJECT: Final = {"type": "object", "additionalProperties": True}
"""For some generators an object of which nothing else is said has no members."""
OBJECT_OR_ARRAY: Final = {"anyOf": [ANY_OBJECT, {"type": "array", "items": {}}]}
"""Not a list of types: generators of clients know one type and null."""
OBJECT_ARRAY_OR_NULL: Final = {"anyOf": [*OBJECT_OR_ARRAY["anyOf"], {"type": "null"}]}


def define_open_object(required: str = "", **properties: object) -> Document:
    """An object that may have other members."""
    return {"type": "object", "properties": properties} | ({"required": required.split()} if required else {})


def define_object(required: str = "", **properties: object) -> Document:
    """A closed object: existing clients reject members they do not know."""
    return {**define_open_object(required, **properties), "additionalProperties": False}


def define_array(items: object) -> Document:
    return {"type": "array", "items": items}


def define_page(items: str) -> Document:
    """A page of what the schema ``items`` describes."""
    return define_object(
        "items total page pageSize", items=define_array(ref(items)), total=INT32, page=INT32, pageSize=INT32
    )


def allow_null(schema: Document) -> Document:
    return {**schema, "type": [schema["type"], "null"]}


def ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


KEY_PROBLEMS: Final = (
    "BAD_REQUEST",
    "IDEMPOTENCY_CONFLICT",
    "IDEMPOTENCY_IN_PROGRESS",
    "IDEMPOTENCY_INTERRUPTED",
)
"""Of requests with a key."""
KEY_HELP: Final = "the same for each repetition of a request, which is carried out once"
KEY_SCHEMA: Final[Document] = {"type": "string", "minLength": 1, "maxLength": 255}

_ALWAYS: Final = ("UNAUTHORIZED", "FORBIDDEN", "STORAGE_UNAVAILABLE", "SERVER_ERROR")
_DEFAULT: Final[Document] = {"description": "Any other failure", "content": {PROBLEM: {"schema": ref("Problem")}}}
_HEADERS: Final[dict[str, Document]] = {
    "Content-Type": {"required": True, "schema": TEXT},
    "Content-Length": {"required": True, "schema": INT64 | {"minimum": 0}},
}
"""What is to be said of a header that is more than an optional text."""
_PARAMETER_SCHEMAS: Final = {
    "modelVersion": INT32,
    "entityId": ENTITY_ID,
    "transactionId": UUID,
    "messageId": UUID,
    "jobId": UUID,
    "format": {"type": "string", "enum": ["JSON", "XML"]},
    "dataFormat": {"type": "string", "enum": ["JSON", "XML"]},
    "changeLevel": {"type": "string", "enum": ["ARRAY_LENGTH", "ARRAY_ELEMENTS", "TYPE", "STRUCTURAL"]},
}


def describe_operation(route: Route) -> Document:
    """The operation of a route, without examples."""
    operation: Document = {
        "operationId": route.id,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": [*_describe_path(route.path), *map(_describe_query, route.query), *_describe_headers(route)],
        "responses": {str(route.status): {"description": HTTPStatus(route.status).phrase} | _describe_replies(route)}
        | _describe_problems(route),
        **dict(route.markers),
    }
    if route.body is not None:
        content = {media_type: {"schema": ref(route.body)} for media_type in route.body_types}
        operation["requestBody"] = {"required": route.body_required, "content": content}
    return operation


def _describe_replies(route: Route) -> Document:
    if not route.reply:
        return {}
    replies = {route.media_type: route.reply, **dict(route.other_replies)}
    return {"content": {media_type: {"schema": ref(name)} for media_type, name in replies.items()}}


def _describe_path(path: str) -> list[Document]:
    names = re.findall(r"\{(\w+)\}", path)
    return [
        {"name": name, "in": "path", "required": True, "schema": _PARAMETER_SCHEMAS.get(name, TEXT)} for name in names
    ]


def _describe_query(query: QueryParameter) -> Document:
    schema: Document = {"type": query.type} | ({"format": query.format} if query.format else {})
    return {
        "name": query.name,
        "in": "query",
        "description": query.description,
        "schema": define_array(schema) if query.repeatable else schema,
    }


def _describe_headers(route: Route) -> list[Document]:
    named: list[Document] = [
        {"name": name, "in": "header", "schema": TEXT} | _HEADERS.get(name, {}) for name in route.headers
    ]
    if _takes_key(route):
        named.append({"name": "Idempotency-Key", "in": "header", "description": KEY_HELP, "schema": KEY_SCHEMA})
    if not route.if_match:
        return named
    text = "the transactionId of the version that is to be replaced"
    return [*named, {"name": "If-Match", "in": "header", "description": text, "schema": UUID}]


def _takes_key(route: Route) -> bool:
    return route.method != "GET" and route.recording != "nothing"


def _describe_problems(route: Route) -> Document:
    """The failures of an operation by status, each with the codes it may carry."""
    statuses = {failure.code: failure.status for failure in reversed(list_kinds())}  # the parent's counts
    by_status: dict[int, list[str]] = {}
    of_key = KEY_PROBLEMS if _takes_key(route) else ()
    for code in dict.fromkeys((*route.problems, *of_key, *_ALWAYS)):
        by_status.setdefault(statuses[code], []).append(code)
    if route.body_limited:
        by_status[BodyTooLarge.status] = [BodyTooLarge.code]
    return {
        str(status): {
            "description": ", ".join(codes),
            "content": {
                PROBLEM: {
                    "schema": ref("Problem"),
                    "examples": {code: {"$ref": f"#/components/examples/{code}-{status}"} for code in codes},
                }
            },
        }
        for status, codes in sorted(by_status.items())
    } | {"default": _DEFAULT}


_MEMBERS: Final = "Calculation members"

TAGS: Final = {
    "Models": "What documents look like: import from samples, lock, export",
    "Workflows": "States and transitions of the entities of a model: import and export",
    "Entities": "Create, read, update and delete; fire transitions",
    "Search": "Conditions over documents and metadata, direct or asynchronous, now or at an instant",
    "Statistics": "Counts by state and grouped aggregates",
    "Audit": "What runs have done to an entity",
    "Messages": "Edge messages: content with headers, kept as it came",
    _MEMBERS: "The gRPC protocol of nodes that answer callouts: sources and schemas",
    "Step definitions": "JSON step engine: upload and look at definitions",
    "Step instances": "JSON step engine: start, watch, signal and cancel instances",
    "Step jobs": "JSON step engine: poll, complete and fail jobs",
    "Step user tasks": "JSON step engine: the inbox of people",
    "Flow definitions": "Flows: check, store and look at texts",
    "Playbook definitions": "Playbooks: check, store and look at documents",
    "Playbook executions": "Playbooks: start, watch, change and stop executions; their runs are among the jobs above",
    "Flow instances": "Flows: start, watch, stop and restart instances; their tasks are among the jobs above",
    "Ops": "The operations API: what operators and automation need beyond moving entities",
    "Account": "How credentials are understood",
    "Identity": "Tokens and the keys that verify them",
    "Signing keys": "Key pairs of the service: issue, rotate and end them (jwt mode)",
    "Trusted keys": "Public keys of others whose signatures a tenant trusts (jwt mode)",
    "Identity providers": "OpenID Connect providers whose tokens are credentials of a tenant (jwt mode)",
    "Clients": "Machine clients of a tenant, and their secrets (jwt mode)",
    "Administration": "A running process: log level, history",
    "Operations": "Health, help and this document",
}


def order_tag(tag: str) -> int:
    """The place of a tag; one that is not listed comes last."""
    return list(TAGS).index(tag) if tag in TAGS else len(TAGS)


_OAUTH_ERROR: Final = define_object("error error_description", error=TEXT, error_description=TEXT)
_PROBLEM: Final = {PROBLEM: {"schema": ref("Problem")}}


def _define_public(
    operation_id: str, tag: str, summary: str, answer: Document, media_type: str = "application/json"
) -> Document:
    """What needs no token and has no parameters."""
    return {
        "operationId": operation_id,
        "tags": [tag],
        "summary": summary,
        "parameters": [],
        "security": [],
        "responses": _define_responses({"200": {media_type: {"schema": answer}}}),
    }


def _define_responses(contents: Document) -> Document:
    return {
        status: {"description": HTTPStatus(int(status)).phrase, "content": content}
        for status, content in contents.items()
    }


_HELP: Final = define_object(
    "schema version topics", schema={"const": 1}, version=TEXT, topics=define_array(ref("HelpTopic"))
)
_TOPIC: Final = _define_public(
    "helpTopic", "Operations", "A page of help by its dotted id, or raw output that it offers", ref("HelpTopic")
)
_EVENT_SCHEMAS: Final = define_object(
    "schema version specVersion baseId schemas",
    schema={"const": 1},
    version=TEXT,
    specVersion=TEXT,
    baseId=TEXT,
    schemas=ANY_OBJECT,
)
_DESCRIPTORS: Final = define_object("file", file=define_array(ANY_OBJECT))
_KEYS: Final = define_object("keys", keys=define_array(ANY_OBJECT))
_TOKEN: Final = define_object(
    "access_token token_type expires_in",
    access_token=TEXT,
    token_type=TEXT,
    expires_in={"type": "integer"},
    issued_token_type=TEXT,
)
_TOKEN_FORM: Final = define_open_object(
    "grant_type",
    grant_type=TEXT,
    client_id=TEXT,
    client_secret=TEXT,
    client_assertion_type=TEXT,
    client_assertion=TEXT,
    subject_token_type=TEXT,
    subject_token=TEXT,
)

_PUBLIC_READS: Final = {
    "/health": _define_public("health", "Operations", "Whether the API serves", define_object("status", status=TEXT)),
    "/help": _define_public("help", "Operations", "All pages of help", _HELP),
    "/help/{topic}": _TOPIC
    | {
        "parameters": [{"name": "topic", "in": "path", "required": True, "schema": TEXT}],
        "responses": _TOPIC["responses"] | _define_responses({"400": _PROBLEM, "404": _PROBLEM}),
    },
    "/help/workflows/schema-version/versions": _define_public(
        "workflowSchemaVersions", "Workflows", "Which import contracts for workflows are known", ANY_OBJECT
    ),
    "/help/grpc/proto": _define_public(
        "grpcProtoSources", _MEMBERS, "The protobuf sources of the gRPC services", TEXT, "text/plain"
    ),
    "/help/grpc/json": _define_public(
        "grpcDescriptors", _MEMBERS, "The same as a FileDescriptorSet in protobuf JSON", _DESCRIPTORS
    ),
    "/help/workflows/schema": _define_public(
        "workflowSchema",
        "Workflows",
        "The JSON Schema of workflow definitions, for editors",
        ANY_OBJECT,
        "application/schema+json",
    ),
    "/help/cloudevents/json": _define_public(
        "eventSchemas", _MEMBERS, "JSON Schemas of all event payloads", _EVENT_SCHEMAS
    ),
    "/.well-known/jwks.json": _define_public("jwks", "Identity", "The public keys of tokens (jwt mode)", _KEYS),
}
_ISSUE_TOKEN: Final = _define_public(
    "getTechnicalUserToken", "Identity", "A token for a client's credentials (RFC 6749)", _TOKEN
)
_REFUSED: Final = ("400", "401", "403", "429", "500", "503")

PUBLIC_PATHS: Final[dict[str, Document]] = {path: {"get": operation} for path, operation in _PUBLIC_READS.items()} | {
    "/oauth/token": {
        "post": _ISSUE_TOKEN
        | {
            "responses": _ISSUE_TOKEN["responses"]
            | _define_responses({status: {"application/json": {"schema": _OAUTH_ERROR}} for status in _REFUSED}),
            "security": [{"basicAuth": []}, {}],  # or in the form
            "parameters": [
                {
                    "name": "Authorization",
                    "in": "header",
                    "description": "`Basic` and id and secret of the client, if they are not in the form",
                    "schema": TEXT,
                }
            ],
            "requestBody": {
                "required": True,
                "content": {"application/x-www-form-urlencoded": {"schema": _TOKEN_FORM}},
            },
        }
    },
}
