"""Models over REST (docs/reference/models.md#operations).

Workflows over REST (docs/reference/workflows.md#import, docs/reference/workflows.md#export).
"""

from collections.abc import Sequence
from typing import Final

from statewright.api.http.request import Request
from statewright.api.http.response import Response, build_warning_headers, encode_json, encode_json_in_order
from statewright.api.http.router import BUILTIN, MODEL, Route, bind_scope
from statewright.entity import ModelKey
from statewright.failures import BodyTooLarge
from statewright.ids import ModelId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import encode
from statewright.operations.records import QueryParameter
from statewright.services import models, workflows
from statewright.workflow import MAX_IMPORT_BYTES, describe_versions

MAX_UNIQUE_KEYS_BYTES: Final = 1024 * 1024
"""Of the body that sets unique keys (docs/reference/models.md#requests-and-answers)."""


async def list_models(request: Request) -> Response:
    """The models of the tenant."""
    found = await models.list_models(request.runtime.core, request.principal, bind_scope(request))
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
        request.runtime.core,
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
    return Response(await models.export(request.runtime.core, request.principal, key=key, converter=converter))


async def validate_document(request: Request) -> Response:
    """Check a document against the schema."""
    key = request.model_key()
    result = await models.validate(request.runtime.core, request.principal, key=key, body=await request.body())
    errors = "; ".join(str(violation) for violation in result.violations)
    message = f"Validation failed: {errors}" if errors else "Validation passed"
    return _build_action(key, result.model.id, message, success=not errors)


async def set_change_level(request: Request) -> Response:
    """Say how far documents may extend the model."""
    key, level = request.model_key(), request.path_params["changeLevel"]
    model = await models.set_change_level(request.runtime.core, request.principal, key, level)
    return _build_action(key, model, f"model {key.name}:{key.version} now at change level {level}")


async def set_unique_keys(request: Request) -> Response:
    """Replace the unique keys of an unlocked model."""
    key = request.model_key()
    body = await request.body(MAX_UNIQUE_KEYS_BYTES)
    model = await models.set_unique_keys(request.runtime.core, request.principal, key=key, body=body)
    return _build_action(key, model, f"unique keys set on model {key.name}:{key.version}")


async def lock_model(request: Request) -> Response:
    """Let entities be created."""
    key = request.model_key()
    model = await models.lock(request.runtime.core, request.principal, key)
    return _build_action(key, model, f"Model {key.name}:{key.version} locked")


async def unlock_model(request: Request) -> Response:
    """Let the model be changed."""
    key = request.model_key()
    model = await models.unlock(request.runtime.core, request.principal, key)
    return _build_action(key, model, f"Model {key.name}:{key.version} unlocked")


async def delete_model(request: Request) -> Response:
    """Delete an unlocked model without entities."""
    key = request.model_key()
    model = await models.delete(request.runtime.core, request.principal, key)
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
        query=(BUILTIN,),
        reply="Models",
        problems=("BAD_REQUEST",),
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
        query=(
            QueryParameter("warnings", "boolean", "ours: list in the answer which keywords the model does not keep"),
        ),
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


async def import_workflows(request: Request) -> Response:
    """Import workflows for a model."""
    key = request.model_key()
    try:
        body = await request.body(MAX_IMPORT_BYTES)
    except BodyTooLarge as oversized:
        raise BodyTooLarge(f"failed to read request body: {oversized.message}") from oversized
    dry_run, tells_findings = request.query_flag("dryRun"), request.query_flag("warnings")
    findings = await workflows.import_workflows(
        request.runtime.core, request.principal, key=key, body=body, dry_run=dry_run
    )
    answer: dict[str, object] = {"success": True}
    if dry_run:
        answer["dryRun"] = True
    if dry_run or tells_findings:
        answer["warnings"] = [finding.describe() for finding in findings]
    return Response(encode_json(answer))


async def export_workflows(request: Request) -> Response:
    """Export the workflows of a model; the order of members is part of the format
    (docs/reference/workflows.md#export).
    """
    document = await workflows.export_workflows(request.runtime.core, request.principal, key=request.model_key())
    return Response(encode_json_in_order(document))


def encode_schema_versions() -> bytes:
    """Which import contracts this server knows."""
    return encode(describe_versions()) + b"\n"


# Routes on the workflows of a model (docs/reference/workflows.md#workflows).

WORKFLOWS: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{MODEL}/workflow/import",
        endpoint=import_workflows,
        recording="transaction",
        id="importEntityModelWorkflow",
        tag="Workflows",
        summary="Import workflows for a model",
        body="WorkflowImport",
        query=(
            QueryParameter(
                "dryRun", "boolean", "ours: check everything and save nothing; the answer lists what is doubtful"
            ),
            QueryParameter("warnings", "boolean", "ours: list in the answer which criteria match nothing of the model"),
        ),
        reply="WorkflowImportResult",
        problems=("BAD_REQUEST", "VALIDATION_FAILED", "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="GET",
        path=f"{MODEL}/workflow/export",
        endpoint=export_workflows,
        id="exportEntityModelWorkflow",
        tag="Workflows",
        summary="Export the workflows of a model",
        reply="WorkflowExport",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "WORKFLOW_NOT_FOUND"),
    ),
)
