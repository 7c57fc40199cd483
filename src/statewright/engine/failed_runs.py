"""Noting with a failure where its run failed, for those who keep incidents (docs/reference/operations.md#incidents)."""

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from statewright.engine.run import EntityDraft, Run
from statewright.engine.unit import Unit
from statewright.failures import (
    ComputeMemberDisconnected,
    DispatchTimeout,
    FailedRun,
    Failure,
    NoComputeMember,
    WorkflowFailed,
)
from statewright.workflow import Transition

NOTED: Final = (WorkflowFailed, NoComputeMember, ComputeMemberDisconnected, DispatchTimeout)
"""What is not the fault of a client, where a callout or a limit is the reason."""

SwallowedFailureReport: TypeAlias = Callable[[Unit, Failure], None]
"""Told of the failure of a processor that its run survives."""

_F = TypeVar("_F", bound=Failure)


def note_failed_run(
    failure: _F, run: Run, draft: EntityDraft, transition: Transition | None, component: str = ""
) -> _F:
    """The failure with where its run failed; one that is another's fault stays as it is."""
    if failure.failed_run is None and isinstance(failure, NOTED):
        writer, is_half_done = run.writer, run.is_half_done
        failure.failed_run = FailedRun(
            entity_id=writer.id,
            model=run.model.key.name,
            version=run.model.key.version,
            workflow=run.workflow.name,
            state=draft.state,
            transition=transition.name if transition else "",
            component=component,
            base_transaction=writer.base_transaction,
            document=draft.text if is_half_done else writer.submitted,
            requested=transition.name if is_half_done and transition else writer.requested,
            attempts=failure.attempts,
        )
    return failure
