"""The worked executions, event by event (tests/conformance/playbooks/traces.yaml)."""

import pytest

from tests.unit.playbooks.replay import replay, sort_tokens
from tests.unit.playbooks.traces import Case, describe_log, play_case, read_traces


def name(case: Case) -> str:
    return f"{case.number}-{case.title}"


@pytest.mark.parametrize("case", read_traces(), ids=name)
def test_an_execution_goes_as_the_table_says(case: Case):
    execution = play_case(case)
    assert describe_log(execution.log) == case.trace
    assert execution.status == case.status


def test_there_are_as_many_as_the_routing_rules_have():
    assert [case.number for case in read_traces()] == list(range(1, 39))


@pytest.mark.parametrize("case", read_traces(), ids=name)
def test_replaying_the_log_gives_the_state(case: Case):
    execution = play_case(case)
    assert sort_tokens(replay(execution.compiled, execution.log)) == sort_tokens(execution.marking)
