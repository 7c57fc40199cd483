"""Operations of process languages as OpenAPI describes them, made from their tables of routes."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from statewright.api.http.flows import FLOW_ROUTES
from statewright.api.http.openapi.flow_schemas import (
    FLOW_EXAMPLES,
    FLOW_PARAMETER_EXAMPLES,
    FLOW_TEXT,
)
from statewright.api.http.openapi.operations import INT32, TEXT, Document, ref
from statewright.api.http.openapi.playbook_schemas import (
    PLAYBOOK_EXAMPLES,
    PLAYBOOK_PARAMETER_EXAMPLES,
    PLAYBOOK_TEXT,
)
from statewright.api.http.openapi.process_schemas import PARAMETER_EXAMPLES
from statewright.api.http.openapi.step_schemas import REASON_EXAMPLES, STEP_EXAMPLES, STEP_PARAMETER_EXAMPLES
from statewright.api.http.playbooks import PLAYBOOK_API
from statewright.api.http.processes.bodies import INTERNAL, KINDS, Parameter, ProcessRoute
from statewright.api.http.response import JSON
from statewright.api.http.steps.routes import STEP_ROUTES
from statewright.operations.process_nouns import FLOW_NOUNS, PLAYBOOK_NOUNS, STEP_NOUNS, Nouns

_ALWAYS: Final = (401, 500, 503, 504)


class _Interface(Struct, frozen=True, kw_only=True):
    """The interface of a language: its routes, and what is shown of it."""

    nouns: Nouns
    routes: Sequence[ProcessRoute]
    definition: str
    """The id of one, as an example."""
    parameters: Mapping[str, object]
    examples: Mapping[str, object]
    text: str = ""
    """An example of a body that is no JSON."""


_INTERFACES: Final = (
    _Interface(
        nouns=STEP_NOUNS,
        routes=STEP_ROUTES,
        definition="HR::greeting",
        parameters=STEP_PARAMETER_EXAMPLES,
        examples=STEP_EXAMPLES,
    ),
    _Interface(
        nouns=FLOW_NOUNS,
        routes=FLOW_ROUTES,
        definition="orders",
        parameters=FLOW_PARAMETER_EXAMPLES,
        examples=FLOW_EXAMPLES,
        text=FLOW_TEXT,
    ),
    _Interface(
        nouns=PLAYBOOK_NOUNS,
        routes=PLAYBOOK_API.routes,
        definition="examples/orders",
        parameters=PLAYBOOK_PARAMETER_EXAMPLES,
        examples=PLAYBOOK_EXAMPLES,
        text=PLAYBOOK_TEXT,
    ),
)


def describe_process_paths() -> Document:
    """The paths of all languages; they are at the root of the server, not below the context path."""
    paths: Document = {}
    for interface in _INTERFACES:
        for route in interface.routes:
            paths.setdefault(route.path, {})[route.method.lower()] = _describe_operation(interface, route)
    return paths


def _describe_operation(interface: _Interface, route: ProcessRoute) -> Document:
    names = re.findall(r"\{(\w+)\}", route.path)
    path = [_describe_path(interface, name, route.path) for name in names]
    query = [_describe_query(interface, parameter) for parameter in route.query]
    operation: Document = {
        "operationId": f"{interface.nouns.language}.{route.id}",
        "tags": [route.tag],
        "summary": route.summary,
        "servers": [{"url": "/"}],
        "security": [{"bearerAuth": []}, {}],
        "parameters": [*path, *query],
        "responses": {str(route.status): _describe_success(interface, route)} | _describe_errors(interface, route),
    }
    if route.is_extension:
        operation["description"] = "Beyond the public engine."
    if route.body is not None:
        operation["requestBody"] = {"required": route.body_required, "content": _describe_bodies(interface, route)}
    return operation


def _describe_path(interface: _Interface, name: str, path: str) -> Document:
    schema = INT32 if name == "version" else TEXT
    is_definition = name == "id" and path.startswith(f"{interface.nouns.definitions_path}/")
    example = interface.definition if is_definition else _get_example(interface, name)
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


def _describe_query(interface: _Interface, parameter: Parameter) -> Document:
    is_definition = parameter.name == "id"
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "schema": {"type": parameter.type},
        "example": interface.definition if is_definition else _get_example(interface, parameter.name),
    }


def _get_example(interface: _Interface, parameter: str) -> object:
    return {**PARAMETER_EXAMPLES, **interface.parameters}[parameter]


def _describe_bodies(interface: _Interface, route: ProcessRoute) -> Document:
    texts: Document = {kind: {"schema": TEXT, "example": interface.text} for kind in route.body_types if kind != JSON}
    return _describe_content(interface, JSON, route.body or "") | texts


def _describe_success(interface: _Interface, route: ProcessRoute) -> Document:
    described: Document = {"description": HTTPStatus(route.status).phrase}
    if route.reply is None:
        return described
    replies = {route.media_type: route.reply, **dict(route.other_replies)}
    content = [_describe_content(interface, media_type, schema) for media_type, schema in replies.items()]
    return {**described, "content": {name: one for described_one in content for name, one in described_one.items()}}


def _describe_errors(interface: _Interface, route: ProcessRoute) -> Document:
    refuses = {HTTPStatus.BAD_REQUEST} if route.is_ours or route.query else set[int]()  # parameters, by name or value
    return {str(status): _describe_error(interface, status) for status in sorted({*route.errors, *refuses, *_ALWAYS})}


def _describe_error(interface: _Interface, status: int) -> Document:
    kind = KINDS.get(status, INTERNAL)
    example = {"error": kind, "reason": REASON_EXAMPLES[status]}
    return {
        "description": kind,
        "content": {JSON: {"schema": ref(f"{interface.nouns.title}Error"), "example": example}},
    }


def _describe_content(interface: _Interface, media_type: str, schema: str) -> Document:
    described: Document = {"schema": ref(schema)}
    return {media_type: described | {"example": interface.examples[schema]}}
