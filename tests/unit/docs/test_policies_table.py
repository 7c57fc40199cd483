"""The table of defaults in docs/reference/steps.md says what the code does where nothing is said."""

import re
from pathlib import Path

from statewright.flows.definition import DELIVERIES, FlowSettings, TaskBackoff, TaskPolicy
from statewright.playbooks.definition import DEFAULT_ATTEMPTS, TaskAction
from statewright.playbooks.pipeline import MAX_WAIT_MS
from statewright.playbooks.process_language import PLAYBOOKS
from statewright.processes.changes import Backoff
from statewright.steps.definition import Step
from statewright.steps.process_language import STEPS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "steps.md"


def read_table() -> dict[str, list[str]]:
    """What each row says of steps, flows and playbooks: the text behind the last colon of a cell, without words."""
    section = PAGE.read_text().partition("### Policies in all languages\n")[2].partition("\n### ")[0]
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\|.*\|$", section, re.MULTILINE)
    ]
    return {name: [cell.rpartition(": ")[2] for cell in cells] for name, *cells in rows[3:]}


def test_the_defaults_are_those_of_the_code() -> None:
    steps, flows, action = Backoff(retries=0), TaskBackoff().to_backoff(0), TaskAction(do="retry")
    assert TaskPolicy() == TaskPolicy(time_limit=None, retries=None, backoff=None, deliveries=None)
    assert (action.delay, action.backoff) == (None, "none")
    assert STEPS.lease_losses is not None
    assert STEPS.lease_losses.limit is None
    assert PLAYBOOKS.lease_losses is not None
    handed_out = (PLAYBOOKS.lease_losses.limit or 0) + 1
    assert read_table() == {
        "longest time": ["none", "none", "none"],
        "tries after a failure": [str(Step().retry_count), str(FlowSettings().retries), str(DEFAULT_ATTEMPTS)],
        "first rest": [f"{steps.delay_s:g} s", f"{flows.delay_s:g} s", "0 s"],
        "each next one": [f"{steps.factor:g} times", f"exponential, {flows.factor:g} times", "none, as long"],
        "longest rest": [f"{steps.max_delay_s:g} s", f"{flows.max_delay_s:g} s", f"{MAX_WAIT_MS / 1000:g} s"],
        "spread of rests": [f"{steps.jitter:g}", f"{flows.jitter:g}", "–"],
        "deliveries to lost workers": ["any", str(DELIVERIES), str(handed_out)],
    }
