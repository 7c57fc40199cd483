"""Operations of the step dialect as OpenAPI describes them, made from its table of routes."""

import re
from http import HTTPStatus
from typing import Final

from statewright.api.http.openapi.shapes import INT32, TEXT, Document, ref
from statewright.api.http.openapi.step_examples import REASON_EXAMPLES, STEP_EXAMPLES, STEP_PARAMETER_EXAMPLES
from statewright.api.http.response import JSON
from statewright.api.http.steps.errors import INTERNAL, KINDS
from statewright.api.http.steps.routes import STEP_ROUTES, Parameter, StepRoute

_ALWAYS: Final = (401, 500, 503, 504)


def describe_step_paths() -> Document:
    """The paths of the dialect; they are at the root of the server, not below the context path."""
    paths: Document = {}
    for route in STEP_ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_operation(route)
    return paths


def _describe_operation(route: StepRoute) -> Document:
    names = re.findall(r"\{(\w+)\}", route.path)
    path = [_describe_path(name, route.path) for name in names]
    operation: Document = {
        "operationId": f"steps.{route.id}",
        "tags": [route.tag],
        "summary": route.summary,
        "servers": [{"url": "/"}],
        "security": [{"bearerAuth": []}, {}],
        "parameters": [*path, *map(_describe_query, route.query)],
        "responses": {str(route.status): _describe_success(route)} | _describe_errors(route),
    }
    if route.is_extension:
        operation["description"] = "Beyond the public engine."
    if route.body is not None:
        operation["requestBody"] = {"required": route.body_required, "content": _describe_content(JSON, route.body)}
    return operation


def _describe_path(name: str, path: str) -> Document:
    schema = INT32 if name == "version" else TEXT
    example = "HR::greeting" if name == "id" and path.startswith("/v1/definitions/") else STEP_PARAMETER_EXAMPLES[name]
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


def _describe_query(parameter: Parameter) -> Document:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "schema": {"type": parameter.type},
        "example": STEP_PARAMETER_EXAMPLES[parameter.name],
    }


def _describe_success(route: StepRoute) -> Document:
    described: Document = {"description": HTTPStatus(route.status).phrase}
    return (
        described if route.reply is None else {**described, "content": _describe_content(route.media_type, route.reply)}
    )


def _describe_errors(route: StepRoute) -> Document:
    return {str(status): _describe_error(status) for status in sorted({*route.errors, *_ALWAYS})}


def _describe_error(status: int) -> Document:
    kind = KINDS.get(status, INTERNAL)
    example = {"error": kind, "reason": REASON_EXAMPLES[status]}
    return {"description": kind, "content": {JSON: {"schema": ref("StepError"), "example": example}}}


def _describe_content(media_type: str, schema: str) -> Document:
    described: Document = {"schema": ref(schema)}
    return {media_type: described | {"example": STEP_EXAMPLES[schema]}}
