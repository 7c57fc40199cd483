"""The document as a whole."""

from statewright.api.http.openapi.examples import problem_example
from statewright.api.http.openapi.exemplified import with_examples
from statewright.api.http.openapi.operations import operation_of
from statewright.api.http.openapi.public import PUBLIC
from statewright.api.http.openapi.schemas import SCHEMAS
from statewright.api.http.openapi.shapes import Document
from statewright.api.http.openapi.steps.operations import step_paths
from statewright.api.http.openapi.steps.schemas import STEP_SCHEMAS
from statewright.api.http.problems import PROBLEM
from statewright.api.http.routes import ROUTES


def openapi_document() -> Document:
    """The whole document, without ``servers``, which depends on the request."""
    paths: dict[str, Document] = {
        path: {method: with_examples(operation) for method, operation in operations.items()}
        for path, operations in PUBLIC.items()
    }
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = with_examples(operation_of(route))
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
