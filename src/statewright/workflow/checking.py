"""Everything that can be said of an import before it is done (docs/reference/operations.md#checking-workflows).

The rules are those of the import (``import_checks``), so what is called importable here is imported there.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from msgspec import Struct

from statewright.entity import ModelKey
from statewright.failures import BadRequest
from statewright.jsonval.values import JsonValue
from statewright.workflow.changes import WorkflowChanges, compare_workflows
from statewright.workflow.definition import Workflow
from statewright.workflow.import_checks import find_merged_violations, find_violations
from statewright.workflow.import_modes import IMPORT_MODES
from statewright.workflow.import_request import ImportRequest, read_import
from statewright.workflow.members import UnreadableMember
from statewright.workflow.review import CheckFinding, Surroundings, list_findings
from statewright.workflow.structure import find_long_names
from statewright.workflow.violations import Violation

MAX_VIOLATIONS: Final = 1_000


class CheckResult(Struct, frozen=True, kw_only=True):
    """``merged`` and ``changes`` are what the import would leave and change; None where it is refused."""

    findings: tuple[CheckFinding, ...]
    merged: tuple[Workflow, ...] | None
    changes: WorkflowChanges | None

    @property
    def is_importable(self) -> bool:
        """Whether the import would be done."""
        return self.merged is not None


def check_import(document: JsonValue, key: ModelKey, stored: Sequence[Workflow], around: Surroundings) -> CheckResult:
    """Check the document of an import for a model with these stored workflows."""
    try:
        request = read_import(document)
    except BadRequest as unreadable:
        violations = [_to_violation(unreadable)]
        return CheckResult(findings=list_findings(violations, None, None, around), merged=None, changes=None)
    if violations := list(islice(find_long_names(request.workflows), MAX_VIOLATIONS)):
        return CheckResult(findings=list_findings(violations, None, None, around), merged=None, changes=None)
    violations = list(islice(chain(_find_other_model(request, key), find_violations(request)), MAX_VIOLATIONS))
    merged: tuple[Workflow, ...] | None = None
    if not violations:
        merged = IMPORT_MODES[request.mode](stored, request.workflows)
        places = {workflow.name: index for index, workflow in enumerate(request.workflows)}
        found = find_merged_violations(merged, allow_cycles=request.allow_cycles, places=places)
        violations = list(islice(found, MAX_VIOLATIONS))
    findings = list_findings(violations, request, None if violations else merged, around)
    if violations or merged is None:
        return CheckResult(findings=findings, merged=None, changes=None)
    return CheckResult(findings=findings, merged=merged, changes=compare_workflows(stored, merged))


def _find_other_model(request: ImportRequest, key: ModelKey) -> Iterator[Violation]:
    try:
        request.require_model(key)
    except BadRequest as other:
        yield _to_violation(other)


def _to_violation(refusal: BadRequest) -> Violation:
    at = refusal.pointer if isinstance(refusal, UnreadableMember) else ""
    return Violation("INVALID_STRUCTURE", at, refusal.message)
