"""Which workflow an entity follows: chosen by criterion at creation, stored with it from then on
(docs/reference/workflows.md#which-workflow-governs-an-entity).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from statewright.workflow.definition import CURRENT_VERSION, Contract, State, Transition, Workflow

Substitution = Literal["no_workflows_imported", "no_criterion_matched"]
"""Why the default workflow was taken, as the log names it (docs/reference/workflows.md#create)."""

SUBSTITUTION_WARNINGS: dict[Substitution, str] = {
    "no_workflows_imported": "no workflows imported for model — using default workflow",
    "no_criterion_matched": "no imported workflow matched entity — using default workflow",
}
"""The warning in the response to the client (docs/reference/workflows.md#warnings)."""


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
        """The name to store with the entity, for :func:`find_governing`.

        Empty when nothing had been imported: nothing was chosen then, so the first import that has the state takes
        over.
        """
        return "" if self.substitution == "no_workflows_imported" else self.workflow.name


def list_candidates(workflows: Iterable[Workflow]) -> tuple[Workflow, ...]:
    """The active workflows in order: candidates to govern a new entity. One without criterion ends the search."""
    return tuple(workflow for workflow in workflows if workflow.active)


def select(workflows: Sequence[Workflow], matches: Callable[[Workflow], bool]) -> Selection:
    """The first candidate without criterion or for which ``matches`` holds, else the default workflow.

    ``matches`` is called only for workflows with a criterion, and for no more of them than necessary. Where evaluating
    means waiting, use :func:`list_candidates` and :func:`substitute_default` instead.
    """
    skipped: list[Workflow] = []
    for workflow in list_candidates(workflows):
        if workflow.criterion is None or matches(workflow):
            return Selection(workflow=workflow, skipped=tuple(skipped))
        skipped.append(workflow)
    return substitute_default(workflows, skipped)


def substitute_default(workflows: Sequence[Workflow], skipped: Iterable[Workflow]) -> Selection:
    """The default workflow, taken because there is nothing to choose from or nothing matched."""
    why: Substitution = "no_criterion_matched" if workflows else "no_workflows_imported"
    return Selection(workflow=DEFAULT_WORKFLOW, skipped=tuple(skipped), substitution=why)


def find_governing(workflows: Sequence[Workflow], state: str, remembered_name: str) -> Workflow | None:
    """The workflow that an existing entity follows in ``state``; criteria are not evaluated (decision W12).

    The remembered one in its current definition, while it is active and has the state; else the first active one that
    has it. The default workflow can be remembered like any other, and stands in for an empty list. Scheduled fires
    have no default: they do not look when ``workflows`` is empty (docs/reference/workflows.md#afterwards).
    """
    by_name = {workflow.name: workflow for workflow in (DEFAULT_WORKFLOW, *workflows)}
    remembered = by_name.get(remembered_name)
    if remembered is not None and _governs(remembered, state):
        return remembered
    return next((workflow for workflow in workflows or (DEFAULT_WORKFLOW,) if _governs(workflow, state)), None)


def _governs(workflow: Workflow, state: str) -> bool:
    return workflow.active and state in workflow.states


DEFAULT_WORKFLOW: Final = Workflow(
    version=CURRENT_VERSION,
    contract=Contract.STRICT,
    name="default",
    desc="Default entity lifecycle workflow",
    initial_state="NONE",
    states={
        "CREATED": State(
            name="CREATED",
            transitions=(
                Transition(name="UPDATE", next="CREATED", manual=True),
                Transition(name="DELETE", next="DELETED", manual=True),
            ),
        ),
        "DELETED": State(name="DELETED"),
        "NONE": State(name="NONE", transitions=(Transition(name="NEW", next="CREATED"),)),
    },
)
"""The workflow of entities for which no imported one was chosen; never stored or exported
(docs/reference/workflows.md#the-default-workflow).

A new entity ends in ``CREATED``. ``DELETE`` changes the state only; it does not delete the entity.
"""
