"""What an execution comes to (docs/reference/executions.md#status)."""

from typing import Any

import pytest
from msgspec.structs import replace

from statewright.net import Tally
from statewright.playbooks.graph import find_status
from tests.unit.playbooks.traces import compile_text

PLAYBOOK = compile_text("workflow: [{step: s}]").playbook


@pytest.mark.parametrize(
    ("policy", "tally", "has_gaps", "status"),
    [
        ({}, {"verdict": "PENDING_TOKENS"}, False, "failed"),
        ({}, {"final": "FAILED"}, False, "failed"),
        ({"final_step_failure": "partial"}, {"final": "FAILED"}, False, "partial"),
        ({"final_step_failure": "partial"}, {"final": "FAILED", "failed": 1, "succeeded": 1}, False, "failed"),
        ({}, {"failed": 1, "succeeded": 1}, False, "failed"),
        ({"failure_mode": "fail_fast"}, {"failed": 1, "succeeded": 1}, False, "failed"),
        ({"failure_mode": "best_effort"}, {"failed": 1, "succeeded": 1}, False, "partial"),
        ({"failure_mode": "best_effort"}, {"failed": 1}, False, "failed"),
        ({}, {"succeeded": 1}, True, "partial"),
        ({}, {"succeeded": 1, "final": "DONE"}, False, "success"),
    ],
)
def test_the_first_condition_that_applies_decides(
    policy: dict[str, Any], tally: dict[str, Any], has_gaps: bool, status: str
):
    assert find_status(replace(PLAYBOOK, **policy), Tally(**tally), has_gaps=has_gaps) == status
