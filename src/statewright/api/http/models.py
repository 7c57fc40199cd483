"""Models over REST (docs/reference/models.md#operations).

Workflows over REST (docs/reference/workflows.md#import, docs/reference/workflows.md#export).
"""

from contextlib import suppress
from typing import Final

from statewright.api.http.declaration import Subject
from statewright.api.http.request import Request
from statewright.api.http.response import Response, build_warning_headers, encode_json, encode_json_in_order
from statewright.api.http.router import BUILTIN, MODEL, bind_scope
from statewright.entity import ModelKey
from statewright.failures import BodyTooLarge, InvalidParameter
from statewright.ids import ModelId
from statewright.instants import to_rfc3339
from statewright.jsonval.codec import encode
from statewright.operations.checks import WorkflowCheck
from statewright.operations.entity_answers import ImportedWorkflows, ImportReport, ModelChange, RegisteredModel
from statewright.operations.records import QueryParameter
from statewright.services import models, workflows
from statewright.services.ops.checks import check_workflows
from statewright.services.workflows import ImportOptions
from statewright.workflow import MAX_IMPORT_BYTES, describe_versions

_MODELS: Final = Subject(tag="Models", recording="transaction", problems=("BAD_REQUEST",))
_WORKFLOWS: Final = Subject(tag="Workflows", recording="transaction", problems=("BAD_REQUEST",))

MAX_NOTE_CHARS: Final = 200
"""Of what is kept with a revision of workflows."""


MAX_UNIQUE_KEYS_BYTES: Final = 1024 * 1024
"""Of the body that sets unique keys (docs/reference/models.md#requests-and-answers)."""


@_MODELS.declare("GET /model/", "getAvailableEntityModels", query=(BUILTIN,), reply="Models")
async def list_models(request: Request) -> Response:
    """List the models of the tenant."""
    found = await models.list_models(request.runtime.core, request.principal, bind_scope(request))
    rows = [
        RegisteredModel(
            id=model.id,
            model_name=model.key.name,
            model_version=model.key.version,
            current_state=model.state,
            model_update_date=to_rfc3339(model.imported_at),
        )
        for model in found
    ]
    return Response(encode_json(rows))


@_MODELS.declare(
    "POST /model/import/{dataFormat}/{converter}/{entityName}/{modelVersion}",
    "importEntityModel",
    body="Document",
    query=(QueryParameter("warnings", "boolean", "ours: list in the answer which keywords the model does not keep"),),
    reply="ModelImportResult",
    problems=("MODEL_ALREADY_LOCKED", "INVALID_UNIQUE_KEY_DEFINITION"),
)
async def import_model(request: Request) -> Response:
    """Infer a model from a sample document or take over an export; an unlocked model learns from it."""
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
    lost = imported.lost_keywords
    if tells_warnings:
        return Response(encode_json(ImportReport(model_id=imported.model, warnings=[*lost, *negative])))
    unkept = [f"keywords of the JSON Schema that the model does not keep: {', '.join(lost)}"] if lost else []
    return Response(encode_json(imported.model), headers=build_warning_headers([*unkept, *negative]))


@_MODELS.declare(
    "GET /model/export/{converter}/{entityName}/{modelVersion}",
    "exportMetadata",
    reply="ModelExport",
    problems=("MODEL_NOT_FOUND",),
)
async def export_model(request: Request) -> Response:
    """Export the schema of a model as SIMPLE_VIEW or JSON_SCHEMA.
    (docs/reference/models.md#requests-and-answers).
    """
    key, converter = request.model_key(), request.path_params["converter"]
    return Response(await models.export(request.runtime.core, request.principal, key=key, converter=converter))


@_MODELS.declare(
    "POST /model/validate/{entityName}/{modelVersion}",
    "validateEntityModel",
    recording="nothing",
    is_read=True,
    body="Document",
    reply="ModelAction",
    problems=("MODEL_NOT_FOUND",),
)
async def validate_document(request: Request) -> Response:
    """Check a document against a model."""
    key = request.model_key()
    result = await models.validate(request.runtime.core, request.principal, key=key, body=await request.body())
    errors = "; ".join(str(violation) for violation in result.violations)
    message = f"Validation failed: {errors}" if errors else "Validation passed"
    return _build_action(key, result.model.id, message, success=not errors)


@_MODELS.declare(
    f"POST {MODEL}/changeLevel/{{changeLevel}}",
    "setEntityModelChangeLevel",
    reply="ModelAction",
    problems=("MODEL_NOT_FOUND", "INVALID_CHANGE_LEVEL"),
)
async def set_change_level(request: Request) -> Response:
    """Say how far documents may extend a model."""
    key, level = request.model_key(), request.path_params["changeLevel"]
    model = await models.set_change_level(request.runtime.core, request.principal, key, level)
    return _build_action(key, model, f"model {key.name}:{key.version} now at change level {level}")


@_MODELS.declare(
    f"PUT {MODEL}/unique-keys",
    "setEntityModelUniqueKeys",
    body="UniqueKeys",
    reply="ModelAction",
    problems=("MODEL_NOT_FOUND", "MODEL_ALREADY_LOCKED", "INVALID_UNIQUE_KEY_DEFINITION"),
)
async def set_unique_keys(request: Request) -> Response:
    """Replace the unique keys of an unlocked model."""
    key = request.model_key()
    body = await request.body(MAX_UNIQUE_KEYS_BYTES)
    model = await models.set_unique_keys(request.runtime.core, request.principal, key=key, body=body)
    return _build_action(key, model, f"unique keys set on model {key.name}:{key.version}")


@_MODELS.declare(
    f"PUT {MODEL}/lock", "lockEntityModel", reply="ModelAction", problems=("MODEL_NOT_FOUND", "MODEL_ALREADY_LOCKED")
)
async def lock_model(request: Request) -> Response:
    """Lock a model, so that entities can be created."""
    key = request.model_key()
    model = await models.lock(request.runtime.core, request.principal, key)
    return _build_action(key, model, f"Model {key.name}:{key.version} locked")


@_MODELS.declare(
    f"PUT {MODEL}/unlock",
    "unlockEntityModel",
    reply="ModelAction",
    problems=("MODEL_NOT_FOUND", "MODEL_ALREADY_UNLOCKED", "MODEL_HAS_ENTITIES"),
)
async def unlock_model(request: Request) -> Response:
    """Unlock a model without entities, so that it can be changed."""
    key = request.model_key()
    model = await models.unlock(request.runtime.core, request.principal, key)
    return _build_action(key, model, f"Model {key.name}:{key.version} unlocked")


@_MODELS.declare(
    f"DELETE {MODEL}",
    "deleteEntityModel",
    reply="ModelAction",
    problems=("MODEL_NOT_FOUND", "MODEL_ALREADY_LOCKED", "MODEL_HAS_ENTITIES"),
)
async def delete_model(request: Request) -> Response:
    """Delete an unlocked model without entities."""
    key = request.model_key()
    model = await models.delete(request.runtime.core, request.principal, key)
    return _build_action(key, model, f"model {key.name}:{key.version} deleted")


def _build_action(key: ModelKey, model: ModelId, message: str, *, success: bool = True) -> Response:
    change = ModelChange(success=success, message=message, model_id=model, model_key=key)
    return Response(encode_json(change))


@_WORKFLOWS.declare(
    f"POST {MODEL}/workflow/import",
    "importEntityModelWorkflow",
    body="WorkflowImport",
    query=(
        QueryParameter(
            "dryRun", "boolean", "ours: save nothing, and answer what a check does: also 200 for what would be refused"
        ),
        QueryParameter("warnings", "boolean", "ours: list in the answer which criteria match nothing of the model"),
    ),
    reply="WorkflowImportResult",
    headers=("If-Match", "X-Import-Note"),
    problems=("VALIDATION_FAILED", "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED", "MODEL_NOT_FOUND", "REVISION_MISMATCH"),
)
async def import_workflows(request: Request) -> Response:
    """Import workflows for a model."""
    key = request.model_key()
    try:
        body = await request.body(MAX_IMPORT_BYTES)
    except BodyTooLarge as oversized:
        raise BodyTooLarge(f"failed to read request body: {oversized.message}") from oversized
    dry_run, tells_findings = request.query_flag("dryRun"), request.query_flag("warnings")
    options = ImportOptions(if_match=request.read_if_match(), note=_read_note(request))
    if dry_run:
        checked = await check_workflows(
            request.runtime.operations, request.caller, key, body, if_match=options.if_match
        )
        return _answer_import(checked.check, checked.revision)
    result = await workflows.import_workflows(
        request.runtime.core, request.principal, key=key, body=body, options=options
    )
    told = result.findings if tells_findings else None
    return _answer_import(ImportedWorkflows(success=True, warnings=told), result.revision)


def _answer_import(answer: ImportedWorkflows | WorkflowCheck, revision: int) -> Response:
    return Response(encode_json(answer), headers=((b"X-Workflow-Revision", b"%d" % revision),))


def _read_note(request: Request) -> str | None:
    """What is kept with the revision; in UTF-8, where it is that. Raises ``InvalidParameter``."""
    text = request.header(b"x-import-note")
    if not text:
        return None
    with suppress(UnicodeDecodeError):
        text = text.encode("latin-1").decode()
    if len(text) > MAX_NOTE_CHARS:
        raise InvalidParameter("X-Import-Note", f"longer than {MAX_NOTE_CHARS} characters")
    return text


@_WORKFLOWS.declare(
    f"GET {MODEL}/workflow/export",
    "exportEntityModelWorkflow",
    reply="WorkflowExport",
    problems=("MODEL_NOT_FOUND", "WORKFLOW_NOT_FOUND"),
)
async def export_workflows(request: Request) -> Response:
    """Export the workflows of a model.
    (docs/reference/workflows.md#export).
    """
    document = await workflows.export_workflows(request.runtime.core, request.principal, key=request.model_key())
    return Response(encode_json_in_order(document))


def encode_schema_versions() -> bytes:
    """Which import contracts this server knows."""
    return encode(describe_versions()) + b"\n"
