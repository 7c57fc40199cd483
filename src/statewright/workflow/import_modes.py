"""How incoming workflows meet the stored ones (docs/reference/workflows.md#import-modes). Both are ordered, with
unique names.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace as changed

from statewright.workflow.definition import Workflow
from statewright.workflow.import_request import ImportMode

Workflows = Sequence[Workflow]


def merge(stored: Workflows, incoming: Workflows) -> tuple[Workflow, ...]:
    """A stored workflow of the same name is replaced in its place; new names follow in request order."""
    return tuple((_index_by_name(stored) | _index_by_name(incoming)).values())


def replace(stored: Workflows, incoming: Workflows) -> tuple[Workflow, ...]:
    """The incoming workflows take the place of all stored ones."""
    return tuple(incoming)


def activate(stored: Workflows, incoming: Workflows) -> tuple[Workflow, ...]:
    """The stored workflows that are not named in the request stay, inactive; all incoming ones follow."""
    names = {workflow.name for workflow in incoming}
    kept = (changed(workflow, active=False) for workflow in stored if workflow.name not in names)
    return (*kept, *incoming)


IMPORT_MODES: Mapping[ImportMode, Callable[[Workflows, Workflows], tuple[Workflow, ...]]] = {
    "MERGE": merge,
    "REPLACE": replace,
    "ACTIVATE": activate,
}


def _index_by_name(workflows: Workflows) -> dict[str, Workflow]:
    return {workflow.name: workflow for workflow in workflows}
