"""Operations with an example for everything that is sent and received."""

from statewright.api.http.openapi.examples import PARAMETERS, example_of
from statewright.api.http.openapi.schemas import SCHEMAS
from statewright.api.http.openapi.shapes import Document


def with_examples(operation: Document) -> Document:
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
