"""What an import has to say about criteria (docs/reference/workflows.md#checks-of-criteria, decision W11).

Under the strict contract a criterion that can never be evaluated is refused; under the first-release one it is a
finding. What can be evaluated but matches nothing of the present model is a finding under both.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from msgspec import Struct

from statewright.conditions import KnownFields, find_criterion_defects, find_criterion_doubts
from statewright.jsonval.values import JsonObject
from statewright.workflow.contracts import Contract
from statewright.workflow.definition import Criterion, State, Transition, Workflow
from statewright.workflow.structure import locate_transition, locate_workflow
from statewright.workflow.violations import Violation, point_at_workflow, point_below

MAX_FINDINGS: Final = 100
"""Findings of one import that are logged and answered; further ones are not looked for."""

MAX_FINDING_CHARS: Final = 1000
"""Characters of a finding, which quotes what the client sent."""


class Finding(Struct, frozen=True, kw_only=True):
    """A criterion that deserves a second look. ``state`` and ``transition`` are None for that of a workflow."""

    workflow: str
    state: str | None = None
    transition: str | None = None
    message: str

    def describe(self) -> JsonObject:
        """As clients and the log are told."""
        return {
            "workflow": self.workflow,
            "state": self.state,
            "transition": self.transition,
            "message": self.message,
        }


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

    def build_finding(self, message: str) -> Finding:
        return Finding(
            workflow=self.workflow.name,
            state=self.state.name if self.state else None,
            transition=self.transition.name if self.transition else None,
            message=message if len(message) <= MAX_FINDING_CHARS else f"{message[:MAX_FINDING_CHARS]}…",
        )


def check_criteria(workflows: Iterable[Workflow], fields: KnownFields | None) -> tuple[Finding, ...]:
    """The findings, at most :data:`MAX_FINDINGS`; ``fields`` None: no model is compared with."""
    found = chain.from_iterable(_find_in_workflow(workflow, fields) for workflow in workflows)
    return tuple(islice(found, MAX_FINDINGS))


def find_criterion_violations(workflows: Iterable[Workflow]) -> Iterator[Violation]:
    """The criteria of strict workflows that can never be evaluated."""
    for index, workflow in enumerate(workflows):
        if workflow.contract is Contract.STRICT:
            for place, criterion in _list_criteria(workflow, index):
                for defect in _find_defects(criterion):
                    yield Violation("INVALID_CRITERION", place.pointer, f"{place.locate()}: {defect}")


def _find_in_workflow(workflow: Workflow, fields: KnownFields | None) -> Iterator[Finding]:
    for place, criterion in _list_criteria(workflow):
        defects = [] if workflow.contract is Contract.STRICT else list(_find_defects(criterion))
        doubts = defects or _find_doubts(criterion, fields)
        yield from map(place.build_finding, doubts)


def _find_defects(criterion: Criterion) -> Iterator[str]:
    if criterion.condition is None:
        yield f"criterion cannot be evaluated: {criterion.defect}"
    else:
        yield from find_criterion_defects(criterion.condition)


def _find_doubts(criterion: Criterion, fields: KnownFields | None) -> Iterator[str]:
    if criterion.condition is not None and fields is not None:
        yield from find_criterion_doubts(criterion.condition, fields)


def _list_criteria(workflow: Workflow, index: int = 0) -> Iterator[tuple[_Place, Criterion]]:
    at = point_at_workflow(index)
    if workflow.criterion is not None:
        yield _Place(f"{at}/criterion", workflow), workflow.criterion
    for state in workflow.states.values():
        for number, transition in enumerate(state.transitions):
            if transition.criterion is not None:
                pointer = point_below(at, "states", state.name, "transitions", number, "criterion")
                yield _Place(pointer, workflow, state, transition), transition.criterion
