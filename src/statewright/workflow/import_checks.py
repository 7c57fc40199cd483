"""The checks of an import: of the incoming workflows before they are merged with the stored ones
(docs/reference/workflows.md#order-of-checks-of-an-import, steps 6-8), and of the list that an import would leave (step
10).

A cycle of transitions through which a run could go for ever is found on edges: one leads from a state to the target of
each of its unguarded transitions that fire by themselves: neither manual nor disabled, without criterion, scheduled
ones included (docs/reference/workflows.md#checks-of-the-result). States are visited in the order of their names and
edges in declaration order, so the same cycle is found every time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from statewright.conditions import KnownFields
from statewright.failures import ValidationFailed
from statewright.jsonval.quoting import quote_name
from statewright.workflow.criterion_findings import Finding, check_criteria
from statewright.workflow.definition import Processor, Transition, Workflow
from statewright.workflow.import_request import ImportRequest
from statewright.workflow.sizes import find_many_elements
from statewright.workflow.structure import (
    find_annotation_violations,
    find_structural_violations,
    locate_workflow,
)


def check_incoming(request: ImportRequest, fields: KnownFields | None = None) -> tuple[Finding, ...]:
    """Raises ValidationFailed for the first violation; returns what deserves a warning: criteria that match nothing of
    the model with these ``fields`` (None: no model is compared with), and under the first-release contract those that
    the strict one refuses.
    """
    if request.mode != "MERGE" and not request.workflows:
        raise ValidationFailed(
            "empty workflows array not allowed in REPLACE/ACTIVATE mode — use MERGE if you intended a no-op"
        )
    refuse_first(find_structural_violations(request.workflows))
    findings = check_criteria(request.workflows, fields)
    for workflow in request.workflows:
        refuse_first(find_annotation_violations(workflow))
    return findings


def check_merged(workflows: Sequence[Workflow], *, allow_cycles: bool) -> None:
    """Raises ValidationFailed for the first workflow, stored ones too, that could loop for ever, or has a processor
    with ``startNewTxOnDispatch`` in a mode that opens no segment (docs/reference/workflows.md#checks-of-the-result),
    and for more of them than a model may have.
    """
    refuse_first(find_many_elements(workflows))
    for workflow in workflows:
        if not allow_cycles:
            refuse_first(_find_endless_loop(workflow))
        refuse_first(_find_wrong_segments(workflow))


def _find_endless_loop(workflow: Workflow) -> Iterator[str]:
    cycle = find_cycle(workflow)
    if cycle is not None:
        route = " -> ".join(cycle)
        text = f"infinite loop detected: {route} via unguarded automated transitions"
        yield f"{locate_workflow(workflow)}: {text}; where that is meant, allowCycles imports it"


def _find_wrong_segments(workflow: Workflow) -> Iterator[str]:
    for state in workflow.states.values():
        for transition in state.transitions:
            for processor in filter(_opens_transaction_wrongly, transition.processors):
                yield (
                    f"{locate_workflow(workflow)} transition {quote_name(transition.name)} "
                    f"processor {quote_name(processor.name)}: "
                    "startNewTxOnDispatch=true is only valid with executionMode=COMMIT_BEFORE_DISPATCH "
                    f"(got {quote_name(processor.execution_mode)})"
                )


def _opens_transaction_wrongly(processor: Processor) -> bool:
    return processor.starts_new_tx and processor.mode != "COMMIT_BEFORE_DISPATCH"


def refuse_first(violations: Iterable[str]) -> None:
    """Raises ValidationFailed with the first violation, if there is one.

    Rules yield violations lazily, so the others are not looked for.
    """
    for violation in violations:
        raise ValidationFailed(violation)


Edges = Mapping[str, Sequence[str]]


def find_cycle(workflow: Workflow) -> tuple[str, ...] | None:
    """The states of the first cycle, its first state repeated at the end; ``None`` when there is none."""
    edges = {
        name: [transition.next for transition in state.transitions if _always_fires(transition)]
        for name, state in workflow.states.items()
    }
    finished: set[str] = set()
    for start in sorted(edges):
        cycle = _walk(start, edges, finished)
        if cycle is not None:
            return cycle
    return None


def _always_fires(transition: Transition) -> bool:
    return not transition.manual and not transition.disabled and transition.criterion is None


def _walk(start: str, edges: Edges, finished: set[str]) -> tuple[str, ...] | None:
    """Search depth first from ``start``, adding states that lead into no cycle to ``finished``.

    A loop and not recursion, because chains of states may be very long.
    """
    if start in finished:
        return None
    path = {start: iter(edges[start])}
    while path:
        here = next(reversed(path))
        target = next(path[here], None)
        if target is None:
            finished.add(here)
            path.popitem()
        elif target in path:
            states = list(path)
            return (*states[states.index(target) :], target)
        elif target not in finished:
            path[target] = iter(edges.get(target, ()))
    return None
