"""Which workflow an entity follows: chosen by criterion at creation, remembered afterwards (spec/workflows.md §7)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from statewright.workflow.default import DEFAULT_WORKFLOW
from statewright.workflow.definition import Workflow

Substitution = Literal["no_workflows_imported", "no_criterion_matched"]
"""Why the default workflow was taken, as the log names it (spec/workflows.md §7.1)."""

SUBSTITUTION_WARNINGS: dict[Substitution, str] = {
    "no_workflows_imported": "no workflows imported for model — using default workflow",
    "no_criterion_matched": "no imported workflow matched entity — using default workflow",
}
"""What the client is told of it (spec/workflows.md §11.5)."""


class Selection(Struct, frozen=True, kw_only=True):
    """The outcome of choosing a workflow for a new entity.

    ``skipped`` are the candidates before it whose criterion did not match, in order. ``substitution`` is ``None`` for
    an imported workflow.
    """

    workflow: Workflow
    skipped: tuple[Workflow, ...] = ()
    substitution: Substitution | None = None

    @property
    def remembered_name(self) -> str:
        """What to keep with the entity for :func:`governing`.

        Empty when nothing had been imported: nothing was chosen then, so the first import that knows the state takes
        over.
        """
        return "" if self.substitution == "no_workflows_imported" else self.workflow.name


def candidates(workflows: Iterable[Workflow]) -> tuple[Workflow, ...]:
    """The workflows whose criteria are asked, in order; one without criterion ends the search."""
    return tuple(workflow for workflow in workflows if workflow.active)


def select(workflows: Sequence[Workflow], matches: Callable[[Workflow], bool]) -> Selection:
    """The first candidate without criterion or for which ``matches`` says yes, else the default workflow.

    ``matches`` is asked only about workflows with a criterion, and no more of them than necessary. Who must wait for an
    answer goes through :func:`candidates` itself and ends with :func:`substituted`.
    """
    skipped: list[Workflow] = []
    for workflow in candidates(workflows):
        if workflow.criterion is None or matches(workflow):
            return Selection(workflow=workflow, skipped=tuple(skipped))
        skipped.append(workflow)
    return substituted(workflows, skipped)


def substituted(workflows: Sequence[Workflow], skipped: Iterable[Workflow]) -> Selection:
    """The default workflow, taken because there is nothing to choose from or nothing matched."""
    why: Substitution = "no_criterion_matched" if workflows else "no_workflows_imported"
    return Selection(workflow=DEFAULT_WORKFLOW, skipped=tuple(skipped), substitution=why)


def governing(workflows: Sequence[Workflow], state: str, remembered_name: str) -> Workflow | None:
    """The workflow that an existing entity follows in ``state``; criteria are not asked (decision W12).

    The remembered one in its current definition, while it is active and has the state; else the first active one that
    has it. The default workflow can be remembered like any other, and stands in for an empty list. Scheduled fires
    know no default: they do not ask when ``workflows`` is empty (spec/workflows.md §7.2).
    """
    by_name = {workflow.name: workflow for workflow in (DEFAULT_WORKFLOW, *workflows)}
    remembered = by_name.get(remembered_name)
    if remembered is not None and _governs(remembered, state):
        return remembered
    return next((workflow for workflow in workflows or (DEFAULT_WORKFLOW,) if _governs(workflow, state)), None)


def _governs(workflow: Workflow, state: str) -> bool:
    return workflow.active and state in workflow.states
