"""Workflows over REST (docs/reference/workflows.md#import, docs/reference/workflows.md#export)."""

from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json, encode_json_in_order
from statewright.api.http.router import MODEL, Query, Route
from statewright.failures import BodyTooLarge
from statewright.jsonval.codec import encode
from statewright.services import workflows
from statewright.workflow import MAX_IMPORT_BYTES, describe_versions


async def import_workflows(request: Request) -> Response:
    """Import workflows for a model."""
    key = request.model_key()
    try:
        body = await request.body(MAX_IMPORT_BYTES)
    except BodyTooLarge as oversized:
        raise BodyTooLarge(f"failed to read request body: {oversized.message}") from oversized
    dry_run, tells_findings = request.query_flag("dryRun"), request.query_flag("warnings")
    findings = await workflows.import_workflows(request.runtime, request.principal, key=key, body=body, dry_run=dry_run)
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
    document = await workflows.export_workflows(request.runtime, request.principal, key=request.model_key())
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
            Query("dryRun", "boolean", "ours: check everything and save nothing; the answer lists what is doubtful"),
            Query("warnings", "boolean", "ours: list in the answer which criteria match nothing of the model"),
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
