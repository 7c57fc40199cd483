"""What is checked of the list that an import would leave (spec/workflows.md §5.4)."""

from collections.abc import Iterable, Iterator

from statewright.workflow.cycles import find_cycle
from statewright.workflow.definition import Processor, Workflow
from statewright.workflow.locations import of_workflow, quoted
from statewright.workflow.violations import refuse_first


def check_merged(workflows: Iterable[Workflow], *, allow_cycles: bool) -> None:
    """Raises ValidationFailed for the first workflow, stored ones too, that could loop for ever or segment badly."""
    for workflow in workflows:
        if not allow_cycles:
            refuse_first(_endless(workflow))
        refuse_first(_wrongly_segmented(workflow))


def _endless(workflow: Workflow) -> Iterator[str]:
    cycle = find_cycle(workflow)
    if cycle is not None:
        route = " -> ".join(cycle)
        yield f"{of_workflow(workflow)}: infinite loop detected: {route} via unguarded automated transitions"


def _wrongly_segmented(workflow: Workflow) -> Iterator[str]:
    for state in workflow.states.values():
        for transition in state.transitions:
            for processor in filter(_opens_transaction_wrongly, transition.processors):
                yield (
                    f"{of_workflow(workflow)} transition {quoted(transition.name)} processor {quoted(processor.name)}: "
                    "startNewTxOnDispatch=true is only valid with executionMode=COMMIT_BEFORE_DISPATCH "
                    f"(got {quoted(processor.execution_mode)})"
                )


def _opens_transaction_wrongly(processor: Processor) -> bool:
    return processor.starts_new_tx and processor.mode != "COMMIT_BEFORE_DISPATCH"
