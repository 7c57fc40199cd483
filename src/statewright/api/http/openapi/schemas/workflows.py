"""Bodies and answers about workflows (spec/workflows.md)."""

from typing import Final

from statewright.api.http.openapi.shapes import FLAG, INT32, TEXT, Document, array, closed

WORKFLOWS: Final[Document] = {
    "WorkflowImport": {
        "type": "object",
        "properties": {
            "importMode": {"type": "string", "enum": ["MERGE", "REPLACE", "ACTIVATE"], "default": "MERGE"},
            "allowCycles": FLAG,
            "workflows": array({"type": "object"}),
        },
    },
    "WorkflowExport": closed(
        "entityName modelVersion workflows", entityName=TEXT, modelVersion=INT32, workflows=array({"type": "object"})
    ),
}
