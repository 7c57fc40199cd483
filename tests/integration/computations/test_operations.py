"""An operation computed by another process comes to the same as one computed here, in every language."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from statewright.computations.fork_server import ChildLimits
from statewright.computations.process import ComputingProcess, ForkServer
from statewright.failures import ComputationTooLarge
from statewright.flows.definition import FlowSource
from statewright.flows.process_language import FLOWS
from statewright.jsonval.codec import encode
from statewright.jsonval.values import JsonObject
from statewright.net import IDS_PER_MOMENT, Moment
from statewright.playbooks.process_language import PLAYBOOKS
from statewright.playbooks.source import PlaybookSource
from statewright.processes.computing import DefinitionSource
from statewright.processes.language import NewInstance, Rejection, source_to_text
from statewright.steps.process_language import STEPS
from tests.unit.flows.cases import Case, read_cases
from tests.unit.playbooks import traces
from tests.unit.steps.strategies import documents

MEMORY = 512 * 2**20
ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
MAX_OPERATIONS = 25


@pytest.fixture(scope="module")
def process() -> Iterator[ComputingProcess]:
    limits = ChildLimits(timeout_s=60, memory_bytes=MEMORY, niceness=0)
    server = ForkServer(limits, ["statewright.processes.computing"])
    computing = ComputingProcess(server, timeout=timedelta(seconds=60), memory_bytes=MEMORY, max_tasks=1_000_000)
    yield computing
    computing.close()
    server.close()


def play(process: ComputingProcess, definition: DefinitionSource[Any, Any], variables: JsonObject) -> int:
    """Start an instance and do its jobs, here and there; how many operations that were."""
    language = definition.language
    moments = (Moment(at=1_000_000 * n, first_id=n * IDS_PER_MOMENT) for n in range(1, MAX_OPERATIONS + 1))
    instance, done = None, 0
    for moment in moments:
        if instance is None:
            computation = partial(definition.start, NewInstance(id=ID, variables=variables), moment)
        else:
            works = [str(token.work) for token in instance.marking.tokens if token.work is not None]
            if not works:
                break
            operation = partial(language.complete_job, job=works[-1], result={"n": done, "items": [done, None]})
            computation = partial(definition.apply, operation, instance, moment)
        here, there = computation(), process.compute(computation, lambda: True)
        assert there == here
        done += 1
        if isinstance(here, Rejection) or not here.effects:
            break
        process_here = definition.compile()
        documents_of = language.instance_to_document
        assert documents_of(there.instance) == documents_of(here.instance)  # type: ignore[attr-defined]
        entries = [language.list_audit_entries(process_here, instance, applied) for applied in (here, there)]  # type: ignore[arg-type]
        assert entries[0] == entries[1]
        instance = there.instance if done % 2 else here.instance  # type: ignore[attr-defined]
    return done


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(definition=documents())
def test_operations_of_steps(process: ComputingProcess, definition: JsonObject):
    stored = DefinitionSource(STEPS, encode(definition).decode(), 1)
    try:
        stored.compile()
    except ValueError:
        return  # it could not have been stored
    with suppress(ComputationTooLarge):  # of branches that make branches, which the budget of steps ends late
        assert play(process, stored, {"n": 1, "flag": True}) > 0


@pytest.mark.parametrize("case", read_cases("runs.txt"), ids=lambda case: case.title)
def test_operations_of_flows(process: ComputingProcess, case: Case):
    source = FlowSource(id="case", text=case.text)
    assert play(process, DefinitionSource(FLOWS, source_to_text(source), 1), {"input": {"a": [1, 2]}}) > 0


@pytest.mark.parametrize("case", traces.read_traces(), ids=lambda case: f"{case.number}")
def test_operations_of_playbooks(process: ComputingProcess, case: traces.Case):
    text = case.playbook if "metadata:" in case.playbook else f"metadata: {{name: case}}\n{case.playbook}"
    stored = DefinitionSource(PLAYBOOKS, source_to_text(PlaybookSource(text=text)), 1)
    assert play(process, stored, {}) > 0
