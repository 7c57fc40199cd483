"""The OpenAPI 3.1 document, made from the table of routes (docs/reference/service.md#openapi).

Litestar's own generator describes what its handlers declare; our parameters bind by the dialect's rules and our bodies
are documents of the client's models, so the table says it better (docs/adr/0002).
"""

from statewright.api.http.dialects import ROUTES
from statewright.api.http.errors import PROBLEM
from statewright.api.http.openapi.components import SCHEMAS
from statewright.api.http.openapi.examples import add_examples, build_problem_example
from statewright.api.http.openapi.flow_schemas import FLOW_SCHEMAS
from statewright.api.http.openapi.operations import PUBLIC_PATHS, TAGS, Document, describe_operation
from statewright.api.http.openapi.ops_schemas import OPS_SCHEMAS
from statewright.api.http.openapi.page import render_docs_page
from statewright.api.http.openapi.playbook_schemas import PLAYBOOK_SCHEMAS
from statewright.api.http.openapi.process_operations import describe_process_paths
from statewright.api.http.openapi.step_schemas import STEP_SCHEMAS
from statewright.api.http.ops.routes import OPS_ROUTES

__all__ = ["build_openapi_document", "render_docs_page"]


def build_openapi_document() -> Document:
    """The whole document, without ``servers``, which depends on the request."""
    paths: dict[str, Document] = {
        path: {method: add_examples(operation) for method, operation in operations.items()}
        for path, operations in PUBLIC_PATHS.items()
    }
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = add_examples(describe_operation(route))
    for route in OPS_ROUTES:
        operation = describe_operation(route) | {"servers": [{"url": "/"}]}
        paths.setdefault(route.path, {})[route.method.lower()] = add_examples(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Statewright",
            "version": "1.0",
            "description": "Entities, versioned models and transactional workflows.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"bearerAuth": []}],
        "tags": [{"name": name, "description": description} for name, description in TAGS.items()],
        "paths": paths | describe_process_paths(),
        "components": {
            "schemas": SCHEMAS | STEP_SCHEMAS | FLOW_SCHEMAS | PLAYBOOK_SCHEMAS | OPS_SCHEMAS,
            "examples": _collect_problem_examples(paths),
            "securitySchemes": {
                "bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "basicAuth": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _collect_problem_examples(paths: dict[str, Document]) -> Document:
    """A problem document for each status and code that an operation may answer with."""
    operations = (operation for methods in paths.values() for operation in methods.values())
    answers = (answer for operation in operations for answer in operation["responses"].items())
    codes = {
        (code, status)
        for status, answer in answers
        for code in answer.get("content", {}).get(PROBLEM, {}).get("examples", {})
    }
    return {f"{code}-{status}": {"value": build_problem_example(code, int(status))} for code, status in sorted(codes)}
