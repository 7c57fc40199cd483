"""Checks of workflows as clients read them (docs/reference/operations.md#checking-workflows)."""

from typing import Final

from statewright.api.http.ops.route import OpsRoute
from statewright.api.http.request import Request
from statewright.api.http.response import Response, encode_json
from statewright.services.ops import checking
from statewright.services.ops.checking import WorkflowCheck
from statewright.workflow import MAX_IMPORT_BYTES
from statewright.workflow.changes import NameChanges, WorkflowChanges
from statewright.workflow.review import CheckFinding


async def check_workflows(request: Request) -> Response:
    """What an import would come to; nothing is saved."""
    body = await request.body(MAX_IMPORT_BYTES)
    found = await checking.check_workflows(request.runtime, request.caller, request.model_key(), body)
    return Response(encode_json(_describe(found)))


def _describe(found: WorkflowCheck) -> dict[str, object]:
    result = found.result
    affected: dict[str, object] | None = None
    if found.affected is not None:
        by_state = [
            {"workflow": each.workflow, "state": each.state, "count": each.count, "issue": each.issue}
            for each in found.affected
        ]
        total = sum(each.count for each in found.affected)
        affected = {"total": total, "byState": by_state, "armedTimers": found.armed_timers}
    return {
        "importable": result.is_importable,
        "findings": [describe_finding(each) for each in result.findings],
        "diff": None if result.changes is None else describe_changes(result.changes),
        "affected": affected,
    }


def describe_finding(finding: CheckFinding) -> dict[str, object]:
    """A finding; ``witness`` is there when a document shows it."""
    shown: dict[str, object] = {
        "code": finding.code,
        "severity": finding.severity,
        "path": finding.path,
        "message": finding.message,
        "hint": finding.hint,
    }
    return shown if finding.witness is None else shown | {"witness": finding.witness}


def describe_changes(changes: WorkflowChanges) -> dict[str, object]:
    """What an import would change."""
    return {
        "workflows": [{"name": each.name, "change": each.change, "patch": each.patch} for each in changes.workflows],
        "states": _describe_names(changes.states),
        "timers": [
            {
                "workflow": each.workflow,
                "state": each.state,
                "transition": each.transition,
                "change": each.change,
            }
            for each in changes.timers
        ],
        "tags": _describe_names(changes.tags),
    }


def _describe_names(names: NameChanges) -> dict[str, object]:
    return {"added": names.added, "removed": names.removed}


WORKFLOW_CHECKS: Final = (
    OpsRoute(
        method="POST",
        path="/ops/v1/models/{entityName}/{modelVersion}/workflow/check",
        endpoint=check_workflows,
        is_read=True,
        id="checkWorkflows",
        summary="What an import of workflows would come to; nothing is saved",
        body="WorkflowImport",
        reply="OpsWorkflowCheck",
        problems=("BAD_REQUEST", "MODEL_NOT_FOUND", "FORBIDDEN"),
    ),
)
