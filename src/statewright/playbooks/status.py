"""What an execution comes to (docs/reference/executions.md#status)."""

from typing import Literal, TypeAlias

from statewright.net import Tally
from statewright.playbooks.definition import Playbook

Status: TypeAlias = Literal["running", "waiting", "success", "partial", "failed", "cancelled"]


def find_status(playbook: Playbook, tally: Tally, *, has_gaps: bool) -> Status:
    """The status of an execution that has ended by itself; ``has_gaps``: a loop went on without elements that failed.

    The first condition that applies decides.
    """
    final_failed = tally.final == "FAILED"
    if tally.verdict is not None or (final_failed and playbook.final_step_failure == "fail"):
        return "failed"
    if tally.failed:
        return "partial" if playbook.failure_mode == "best_effort" and tally.succeeded else "failed"
    return "partial" if final_failed or has_gaps else "success"
