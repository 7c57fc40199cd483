"""Models over REST (docs/reference/models.md#operations)."""

from collections.abc import Sequence
from typing import Final

from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.api.http.router import MODEL, Query, Route
from statewright.api.http.warnings import build_warning_headers
from statewright.entity import ModelKey
from statewright.ids import ModelId
from statewright.instants import to_rfc3339
from statewright.services import models

MAX_UNIQUE_KEYS_BYTES: Final = 1024 * 1024
"""Of the body that sets unique keys (docs/reference/models.md#requests-and-answers)."""


async def list_models(request: Request) -> Response:
    """All models of the tenant."""
    found = await models.list_models(request.runtime, request.principal)
    rows = [
        {
            "id": model.id,
            "modelName": model.key.name,
            "modelVersion": model.key.version,
            "currentState": model.state,
            "modelUpdateDate": to_rfc3339(model.imported_at),
        }
        for model in found
    ]
    return Response(encode_json(rows))


async def import_model(request: Request) -> Response:
    """Infer a model from a sample document, or take over an exported one."""
    key, tells_warnings = request.model_key(), request.query_flag("warnings")
    imported = await models.import_model(
        request.runtime,
        request.principal,
        key=key,
        converter=request.path_params["converter"],
        media=request.path_params["dataFormat"],
        body=await request.body(),
    )
    negative = [f"the model has the negative version {key.version}"] if key.version < 0 else []
    if tells_warnings:
        return Response(encode_json({"modelId": imported.model, "warnings": [*imported.lost_keywords, *negative]}))
    warnings = [*_describe_lost(imported.lost_keywords), *negative]
    return Response(encode_json(imported.model), headers=build_warning_headers(warnings))


def _describe_lost(keywords: Sequence[str]) -> list[str]:
    """A warning of keywords that the model does not keep (decision S15); none when it keeps them all."""
    return [f"keywords of the JSON Schema that the model does not keep: {', '.join(keywords)}"] if keywords else []


async def export_model(request: Request) -> Response:
    """The schema in an export format; the one response without a trailing newline
    (docs/reference/models.md#requests-and-answers).
    """
    key, converter = request.model_key(), request.path_params["converter"]
    return Response(await models.export(request.runtime, request.principal, key=key, converter=converter))


async def validate_document(request: Request) -> Response:
    """Check a document against the schema."""
    key = request.model_key()
    result = await models.validate(request.runtime, request.principal, key=key, body=await request.body())
    errors = "; ".join(str(violation) for violation in result.violations)
    message = f"Validation failed: {errors}" if errors else "Validation passed"
    return _build_action(key, result.model.id, message, success=not errors)


async def set_change_level(request: Request) -> Response:
    """Say how far documents may extend the model."""
    key, level = request.model_key(), request.path_params["changeLevel"]
    model = await models.set_change_level(request.runtime, request.principal, key, level)
    return _build_action(key, model, f"model {key.name}:{key.version} now at change level {level}")


async def set_unique_keys(request: Request) -> Response:
    """Replace the unique keys of an unlocked model."""
    key = request.model_key()
    body = await request.body(MAX_UNIQUE_KEYS_BYTES)
    model = await models.set_unique_keys(request.runtime, request.principal, key=key, body=body)
    return _build_action(key, model, f"unique keys set on model {key.name}:{key.version}")


async def lock_model(request: Request) -> Response:
    """Let entities be created."""
    key = request.model_key()
    model = await models.lock(request.runtime, request.principal, key)
    return _build_action(key, model, f"Model {key.name}:{key.version} locked")


async def unlock_model(request: Request) -> Response:
    """Let the model be changed."""
    key = request.model_key()
    model = await models.unlock(request.runtime, request.principal, key)
    return _build_action(key, model, f"Model {key.name}:{key.version} unlocked")


async def delete_model(request: Request) -> Response:
    """Delete an unlocked model without entities."""
    key = request.model_key()
    model = await models.delete(request.runtime, request.principal, key)
    return _build_action(key, model, f"model {key.name}:{key.version} deleted")


def _build_action(key: ModelKey, model: ModelId, message: str, *, success: bool = True) -> Response:
    identity = {"name": key.name, "version": key.version}
    return Response(encode_json({"success": success, "message": message, "modelId": model, "modelKey": identity}))


# Routes on models (docs/reference/models.md#models).

MODELS: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/model/",
        endpoint=list_models,
        id="getAvailableEntityModels",
        tag="Models",
        summary="List the models of the tenant",
        reply="Models",
    ),
    Route(
        method="POST",
        path="/model/import/{dataFormat}/{converter}/{entityName}/{modelVersion}",
        endpoint=import_model,
        recording="transaction",
        id="importEntityModel",
        tag="Models",
        summary="Infer a model from a sample document or take over an export; an unlocked model learns from it",
        body="Document",
        query=(Query("warnings", "boolean", "ours: list in the answer which keywords the model does not keep"),),
        reply="ModelImportResult",
        problems=("BAD_REQUEST", "MODEL_ALREADY_LOCKED", "INVALID_UNIQUE_KEY_DEFINITION"),
    ),
    Route(
        method="GET",
        path="/model/export/{converter}/{entityName}/{modelVersion}",
        endpoint=export_model,
        id="exportMetadata",
        tag="Models",
        summary="Export the schema of a model as SIMPLE_VIEW or JSON_SCHEMA",
        reply="ModelExport",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="POST",
        path="/model/validate/{entityName}/{modelVersion}",
        endpoint=validate_document,
        recording="nothing",
        is_read=True,
        id="validateEntityModel",
        tag="Models",
        summary="Check a document against a model",
        body="Document",
        reply="ModelAction",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="POST",
        path=f"{MODEL}/changeLevel/{{changeLevel}}",
        endpoint=set_change_level,
        recording="transaction",
        id="setEntityModelChangeLevel",
        tag="Models",
        summary="Say how far documents may extend a model",
        reply="ModelAction",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "INVALID_CHANGE_LEVEL"),
    ),
    Route(
        method="PUT",
        path=f"{MODEL}/unique-keys",
        endpoint=set_unique_keys,
        recording="transaction",
        id="setEntityModelUniqueKeys",
        tag="Models",
        summary="Replace the unique keys of an unlocked model",
        body="UniqueKeys",
        reply="ModelAction",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "MODEL_ALREADY_LOCKED", "INVALID_UNIQUE_KEY_DEFINITION"),
    ),
    Route(
        method="PUT",
        path=f"{MODEL}/lock",
        endpoint=lock_model,
        recording="transaction",
        id="lockEntityModel",
        tag="Models",
        summary="Lock a model, so that entities can be created",
        reply="ModelAction",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "MODEL_ALREADY_LOCKED"),
    ),
    Route(
        method="PUT",
        path=f"{MODEL}/unlock",
        endpoint=unlock_model,
        recording="transaction",
        id="unlockEntityModel",
        tag="Models",
        summary="Unlock a model without entities, so that it can be changed",
        reply="ModelAction",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "MODEL_ALREADY_UNLOCKED", "MODEL_HAS_ENTITIES"),
    ),
    Route(
        method="DELETE",
        path=MODEL,
        endpoint=delete_model,
        recording="transaction",
        id="deleteEntityModel",
        tag="Models",
        summary="Delete an unlocked model without entities",
        reply="ModelAction",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "MODEL_ALREADY_LOCKED", "MODEL_HAS_ENTITIES"),
    ),
)
