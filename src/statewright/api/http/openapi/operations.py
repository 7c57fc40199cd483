"""Operations as OpenAPI describes them, made from the table of routes."""

import re
from http import HTTPStatus
from typing import Final

from statewright.api.http.errors import PROBLEM
from statewright.api.http.openapi.shapes import INT32, TEXT, UUID, Document, define_array, ref
from statewright.api.http.router import Query, Route
from statewright.failures import BodyTooLarge, list_kinds

KEY_PROBLEMS: Final = (
    "BAD_REQUEST",
    "IDEMPOTENCY_CONFLICT",
    "IDEMPOTENCY_IN_PROGRESS",
    "IDEMPOTENCY_INTERRUPTED",
)
"""Of requests with a key."""
KEY_HELP: Final = "the same for each repetition of a request, which is carried out once"
KEY_SCHEMA: Final[Document] = {"type": "string", "minLength": 1, "maxLength": 255}

_ALWAYS: Final = ("UNAUTHORIZED", "STORAGE_UNAVAILABLE", "SERVER_ERROR")
_PARAMETER_SCHEMAS: Final = {
    "modelVersion": INT32,
    "entityId": UUID,
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


def _describe_success(route: Route) -> Document:
    return {str(route.status): {"description": HTTPStatus(route.status).phrase} | _describe_replies(route)}


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


def _describe_query(query: Query) -> Document:
    schema: Document = {"type": query.type} | ({"format": query.format} if query.format else {})
    return {
        "name": query.name,
        "in": "query",
        "description": query.description,
        "schema": define_array(schema) if query.repeatable else schema,
    }


def _describe_headers(route: Route) -> list[Document]:
    named: list[Document] = [{"name": name, "in": "header", "schema": TEXT} for name in route.headers]
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
    }
