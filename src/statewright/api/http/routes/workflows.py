"""Routes on the workflows of a model (spec/workflows.md)."""

from statewright.api.http.endpoints import workflows
from statewright.api.http.routes.parameters import MODEL
from statewright.api.http.routes.route import Route

WORKFLOWS: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{MODEL}/workflow/import",
        endpoint=workflows.import_workflows,
        id="importEntityModelWorkflow",
        tag="Workflows",
        summary="Import workflows for a model",
        body="WorkflowImport",
        reply="Success",
        problems=("BAD_REQUEST", "VALIDATION_FAILED", "WORKFLOW_SCHEMA_VERSION_UNSUPPORTED", "MODEL_NOT_FOUND"),
    ),
    Route(
        method="GET",
        path=f"{MODEL}/workflow/export",
        endpoint=workflows.export_workflows,
        id="exportEntityModelWorkflow",
        tag="Workflows",
        summary="Export the workflows of a model",
        reply="WorkflowExport",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "WORKFLOW_NOT_FOUND"),
    ),
)
