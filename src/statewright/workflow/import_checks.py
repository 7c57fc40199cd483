"""The checks of an import: of the incoming workflows before they are merged with the stored ones
(docs/reference/workflows.md#order-of-checks-of-an-import, steps 6-8), and of the list that an import would leave (step
10).

*Cycles.* A cycle of transitions through which a run could go for ever is found on edges: one leads from a state to the
target of each of its unguarded transitions that fire by themselves: neither manual nor disabled, without criterion,
scheduled ones included (docs/reference/workflows.md#checks-of-the-result). States are visited in the order of their
names and edges in declaration order, so the same cycle is found every time.

*Criteria* (docs/reference/workflows.md#checks-of-criteria, decision W11). Under the strict contract a criterion that
can never be evaluated is refused; under the first-release one it is a finding. What can be evaluated but matches
nothing of the present model is a finding under both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from msgspec import Struct

from statewright.conditions import (
    CriterionDoubt,
    KnownFields,
    count_compilation,
    find_criterion_defects,
    find_criterion_doubts,
)
from statewright.jsonval.values import quote_name
from statewright.operations.entity_answers import CriterionFinding as CriterionFinding
from statewright.workflow.definition import Contract, Criterion, Processor, State, Transition, Workflow
from statewright.workflow.import_request import ImportRequest, find_version_violations
from statewright.workflow.structure import (
    Violation,
    find_annotation_violations,
    find_many_elements,
    find_structural_violations,
    locate_transition,
    locate_workflow,
    point_at_workflow,
    point_below,
    refuse_first,
)

MAX_FINDINGS: Final = 100
"""Findings of one import that are logged and answered; further ones are not looked for."""

MAX_FINDING_CHARS: Final = 1000
"""Characters of a finding, which quotes what the client sent."""


MAX_PATTERN_STEPS: Final = 2_000_000
"""What the patterns of all criteria of an import may take to compile, in steps (``statewright.evaluation.costs``)."""


class _Place(Struct, frozen=True):
    """``pointer`` is that of the criterion in the document of the import."""

    pointer: str
    workflow: Workflow
    state: State | None = None
    transition: Transition | None = None

    def locate(self) -> str:
        if self.state is None or self.transition is None:
            return locate_workflow(self.workflow)
        return locate_transition(self.workflow, self.state, self.transition)

    def build_finding(self, message: str) -> CriterionFinding:
        return CriterionFinding(
            workflow=self.workflow.name,
            state=self.state.name if self.state else None,
            transition=self.transition.name if self.transition else None,
            message=message if len(message) <= MAX_FINDING_CHARS else f"{message[:MAX_FINDING_CHARS]}…",
        )


def check_criteria(workflows: Iterable[Workflow], fields: KnownFields | None) -> tuple[CriterionFinding, ...]:
    """The findings, at most :data:`MAX_FINDINGS`; ``fields`` None: no model is compared with."""
    found = chain.from_iterable(_find_in_workflow(workflow, fields) for workflow in workflows)
    return tuple(islice(found, MAX_FINDINGS))


def count_pattern_steps(workflows: Iterable[Workflow]) -> int:
    """What compiling the patterns of all criteria takes, in steps (``statewright.evaluation.costs``)."""
    return sum(count_compilation(criterion.source) for flow in workflows for _, criterion in _list_criteria(flow))


def find_criterion_violations(workflows: Iterable[Workflow]) -> Iterator[Violation]:
    """Patterns that would take too long to compile, of any workflow, and the criteria of strict workflows that can
    never be evaluated.
    """
    workflows = list(workflows)
    if count_pattern_steps(workflows) > MAX_PATTERN_STEPS:
        yield Violation("INVALID_CRITERION", "/workflows", "the patterns of the criteria take too long to compile")
        return
    for index, workflow in enumerate(workflows):
        if workflow.contract is Contract.STRICT:
            for place, criterion in _list_criteria(workflow, index):
                for defect in _find_defects(criterion):
                    yield Violation("INVALID_CRITERION", place.pointer, f"{place.locate()}: {defect}")


def _find_in_workflow(workflow: Workflow, fields: KnownFields | None) -> Iterator[CriterionFinding]:
    for place, criterion in _list_criteria(workflow):
        for _, message in find_doubts(criterion, workflow.contract, fields):
            yield place.build_finding(message)


def find_doubts(
    criterion: Criterion, contract: Contract, fields: KnownFields | None
) -> Iterator[tuple[CriterionDoubt, str]]:
    """Why a criterion that may be imported matches nothing of the model as it is now, or can never be evaluated, with
    the code that a check has for it; ``fields`` None: no model is compared with.
    """
    defects = [] if contract is Contract.STRICT else list(_find_defects(criterion))  # or it is refused
    for each in defects:
        yield "INVALID_CRITERION", each
    if criterion.condition is not None and fields is not None and not defects:
        yield from find_criterion_doubts(criterion.condition, fields)


def _find_defects(criterion: Criterion) -> Iterator[str]:
    if criterion.condition is None:
        yield f"criterion cannot be evaluated: {criterion.defect}"
    else:
        yield from find_criterion_defects(criterion.condition)


def _list_criteria(workflow: Workflow, index: int = 0) -> Iterator[tuple[_Place, Criterion]]:
    at = point_at_workflow(index)
    if workflow.criterion is not None:
        yield _Place(f"{at}/criterion", workflow), workflow.criterion
    for state in workflow.states.values():
        for number, transition in enumerate(state.transitions):
            if transition.criterion is not None:
                pointer = point_below(at, "states", state.name, "transitions", number, "criterion")
                yield _Place(pointer, workflow, state, transition), transition.criterion


def check_incoming(request: ImportRequest, fields: KnownFields | None = None) -> tuple[CriterionFinding, ...]:
    """Raises ValidationFailed for the first violation; returns what deserves a warning: criteria that match nothing of
    the model with these ``fields`` (None: no model is compared with), and under the first-release contract those that
    the strict one refuses, and members that are ignored.
    """
    refuse_first(find_emptiness(request))
    refuse_first(find_structural_violations(request.workflows))
    refuse_first(find_criterion_violations(request.workflows))
    found = chain(check_criteria(request.workflows, fields), _list_ignored(request))
    findings = tuple(islice(found, MAX_FINDINGS))
    for index, workflow in enumerate(request.workflows):
        refuse_first(find_annotation_violations(workflow, index))
    return findings


def _list_ignored(request: ImportRequest) -> Iterator[CriterionFinding]:
    """Members that mean nothing: one that is misspelt would otherwise be missed only when nothing happens."""
    for pointer in request.ignored:
        _, head, *rest = pointer.split("/", 3)
        if head == "workflows" and rest:
            workflow = request.workflows[int(rest[0])]
            yield _Place(pointer, workflow).build_finding(f"{pointer} is not known and has no effect")


def find_emptiness(request: ImportRequest) -> Iterator[Violation]:
    """A request that would leave nothing by mistake."""
    if request.mode != "MERGE" and not request.workflows:
        yield Violation(
            "INVALID_STRUCTURE",
            "/workflows",
            "empty workflows array not allowed in REPLACE/ACTIVATE mode — use MERGE if you intended a no-op",
        )


def find_violations(request: ImportRequest) -> Iterator[Violation]:
    """Everything for which the request would be refused whatever is stored, not only the first."""
    yield from find_version_violations(request)
    yield from find_emptiness(request)
    yield from find_structural_violations(request.workflows)
    yield from find_criterion_violations(request.workflows)
    for index, workflow in enumerate(request.workflows):
        yield from find_annotation_violations(workflow, index)


def check_merged(workflows: Sequence[Workflow], *, allow_cycles: bool) -> None:
    """Raises ValidationFailed for the first workflow, stored ones too, that could loop for ever, or has a processor
    with ``startNewTxOnDispatch`` in a mode that opens no segment (docs/reference/workflows.md#checks-of-the-result),
    and for more of them than a model may have.
    """
    refuse_first(find_merged_violations(workflows, allow_cycles=allow_cycles))


def find_merged_violations(
    workflows: Sequence[Workflow], *, allow_cycles: bool, places: Mapping[str, int] | None = None
) -> Iterator[Violation]:
    """Everything for which :func:`check_merged` would refuse the list. ``places``: where in the request the workflows
    are, by name; what is stored already is at the root of it.
    """
    yield from find_many_elements(workflows)
    for workflow in workflows:
        at = point_at_workflow(places[workflow.name]) if places and workflow.name in places else ""
        if not allow_cycles:
            yield from _find_endless_loop(workflow, at)
        yield from _find_wrong_segments(workflow, at)


def _find_endless_loop(workflow: Workflow, at: str) -> Iterator[Violation]:
    cycle = find_cycle(workflow)
    if cycle is not None:
        route = " -> ".join(cycle)
        text = f"infinite loop detected: {route} via unguarded automated transitions"
        message = f"{locate_workflow(workflow)}: {text}; where that is meant, allowCycles imports it"
        yield Violation("UNGUARDED_CYCLE", point_below(at, "states", cycle[0]) if at else at, message)


def _find_wrong_segments(workflow: Workflow, at: str) -> Iterator[Violation]:
    for state in workflow.states.values():
        for number, transition in enumerate(state.transitions):
            for index, processor in enumerate(transition.processors):
                if not _opens_transaction_wrongly(processor):
                    continue
                message = (
                    f"{locate_workflow(workflow)} transition {quote_name(transition.name)} "
                    f"processor {quote_name(processor.name)}: "
                    "startNewTxOnDispatch=true is only valid with executionMode=COMMIT_BEFORE_DISPATCH "
                    f"(got {quote_name(processor.execution_mode)})"
                )
                place = point_below(at, "states", state.name, "transitions", number, "processors", index)
                yield Violation("INVALID_MODE", f"{place}/executionMode" if at else at, message)


def _opens_transaction_wrongly(processor: Processor) -> bool:
    return processor.starts_new_tx and processor.mode != "COMMIT_BEFORE_DISPATCH"


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
