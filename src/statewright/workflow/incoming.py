"""What is checked of incoming workflows before they meet the stored ones (spec/workflows.md §4.2, steps 6-8)."""

from collections.abc import Iterator

from statewright.conditions import criterion_findings
from statewright.failures import ValidationFailed
from statewright.workflow.annotations import annotation_violations
from statewright.workflow.contracts import Contract
from statewright.workflow.criterion import Criterion
from statewright.workflow.definition import Workflow
from statewright.workflow.import_request import ImportRequest
from statewright.workflow.locations import of_transition, of_workflow
from statewright.workflow.structure import structural_violations
from statewright.workflow.violations import refuse_first


def check_incoming(request: ImportRequest) -> tuple[str, ...]:
    """Raises ValidationFailed for the first violation; returns what deserves a warning in the log.

    Warned of are criteria that will fail when evaluated but do not fail the import: those that are no condition at all
    (spec/workflows.md §5.2) and, in the seed contract, those that the strict one refuses (decision W11).
    """
    if request.mode != "MERGE" and not request.workflows:
        raise ValidationFailed(
            "empty workflows array not allowed in REPLACE/ACTIVATE mode — use MERGE if you intended a no-op"
        )
    refuse_first(structural_violations(request.workflows))
    warnings = tuple(warning for workflow in request.workflows for warning in _check_criteria(workflow))
    for workflow in request.workflows:
        refuse_first(annotation_violations(workflow))
    return warnings


def _check_criteria(workflow: Workflow) -> Iterator[str]:
    for place, criterion in _criteria(workflow):
        if criterion.condition is None:
            yield f"{place}: criterion cannot be evaluated: {criterion.defect}"
            continue
        findings = criterion_findings(criterion.condition, place)
        if workflow.contract is Contract.STRICT:
            refuse_first(findings)
        yield from findings


def _criteria(workflow: Workflow) -> Iterator[tuple[str, Criterion]]:
    if workflow.criterion is not None:
        yield of_workflow(workflow), workflow.criterion
    for state in workflow.states.values():
        for transition in state.transitions:
            if transition.criterion is not None:
                yield of_transition(workflow, state, transition), transition.criterion
