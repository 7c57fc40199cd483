"""The worked executions (docs/reference/executions.md), hosted: stored, started, and their runs done by a worker that
speaks ``/v1/jobs``, on PostgreSQL; event by event.
"""

import json
from collections import Counter

import pytest

from statewright.jsonval.codec import decode, encode
from statewright.playbooks.dispatch import Dispatch
from statewright.playbooks.documents import read_document
from statewright.playbooks.events import LogEvent
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.policies import Outcome
from tests.builders import Json
from tests.integration.playbooks.conftest import Playbooks
from tests.service import eventually
from tests.unit.playbooks.traces import Case, describe_log, read_traces, to_outcome

ATTEMPTS = {"task.attempt.done": "task.done", "task.attempt.failed": "task.failed"}


def name(case: Case) -> str:
    return f"{case.number}-{case.title}"


def a_document(case: Case) -> str:
    """The playbook of a case, with one run at a time; requests are made by the worker of the test."""
    document = read_document(case.playbook.replace("kind: http", "kind: compute"))
    document |= {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": f"case-{case.number}"}}
    spec = document.setdefault("executor", {}).setdefault("spec", {})  # type: ignore[union-attr]
    spec.setdefault("policy", {})["limits"] = {"max_in_flight": 1}  # type: ignore[union-attr]
    return encode(document).decode()


def to_log_event(event: Json) -> LogEvent | None:
    """An event as the notation of the table knows it: the end of an attempt stands for that of its task."""
    if event["source"] == "worker" and event["event_type"] not in (*ATTEMPTS, "policy.task.evaluated"):
        return None
    return LogEvent(
        type=ATTEMPTS.get(event["event_type"], event["event_type"]),
        entity_type=event["entity_type"],
        step=event.get("step"),
        iteration=event.get("iteration"),
        payload=decode(encode(event["payload"])),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("case", read_traces(), ids=name)
def test_a_hosted_execution_goes_as_the_table_says(playbooks: Playbooks, case: Case):
    calls: Counter[str] = Counter()

    def answer(call: ToolCall, dispatch: Dispatch) -> Outcome:
        count = calls[call.label]
        calls[call.label] += 1
        if dispatch.element is not None and call.label in case.elements:
            return to_outcome(case.elements[call.label][dispatch.element.index])
        answers = case.answers.get(call.label, [None])
        return to_outcome(answers[min(count, len(answers) - 1)])

    def is_at_rest() -> bool:
        """Whether, after the worker has done its work, the service has nothing to do either."""
        playbooks.work(answer)
        return playbooks.read(execution)["status"] != "running"

    path = playbooks.upload(a_document(case))
    execution = playbooks.start(path, workload=case.workload)
    eventually(is_at_rest)
    if case.patch and playbooks.read(execution)["status"] == "waiting":
        playbooks.do(execution, "patch", ctx=case.patch)
        eventually(is_at_rest)
    events = playbooks.events(execution)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    told = describe_log(event for event in map(to_log_event, events) if event is not None)
    assert told == case.trace, json.dumps(events, indent=1)
    assert playbooks.read(execution)["status"] == case.status
