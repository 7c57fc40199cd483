"""What the log says of an import (spec/workflows.md §4.5)."""

from collections.abc import Sequence

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.workflow.definition import Workflow
from statewright.workflow.import_request import ImportRequest

MAX_LOGGED_DESC = 200
"""Characters of a description that are logged."""


def import_summary(request: ImportRequest, stored: Sequence[Workflow]) -> JsonObject:
    """Mode, counts and incoming workflows; the caller adds tenant and model. ``stored``: the list after the import."""
    described: list[JsonValue] = [
        {"name": workflow.name, "desc": _shortened(workflow.desc)} for workflow in request.workflows
    ]
    return {
        "importMode": request.mode,
        "workflowCount": len(request.workflows),
        "storedWorkflowCount": len(stored),
        "workflows": described,
    }


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_LOGGED_DESC else f"{text[:MAX_LOGGED_DESC]}..."
