"""The shared data of an execution: how it changes, how it is stored and told, and what conditions look at in it
(docs/reference/executions.md#scopes).
"""

import pytest

from statewright.jsonval.values import JsonObject
from statewright.net.marking import marking_from_document, marking_to_document
from statewright.playbooks.context import (
    CTX,
    build_data,
    change_context,
    describe_patch,
    find_changed_parts,
    find_watched,
)
from statewright.playbooks.events import event_to_document
from statewright.playbooks.templates import compile_condition
from tests.unit.playbooks.test_executions import LOOP, errors_of, run
from tests.unit.playbooks.traces import compile_text


def test_ctx_has_a_limit():
    execution = run(
        """
        executor: {spec: {policy: {limits: {max_ctx_bytes: 100}}}}
        workflow: [{step: s, tool: {kind: compute}}]
        """
    )
    for _ in range(20):
        execution.report(execution.open[0].task, {"a": "x" * 40})  # written again and again, it stays short
    assert execution.status == "running"
    execution.patch({"b": "x" * 90})  # refused: nothing happens
    assert execution.marking.data[CTX] == {"a": "x" * 40}
    execution.report(execution.open[0].task, {"b": "x" * 90})
    assert execution.status == "failed"
    (error,) = errors_of(execution)
    assert isinstance(error, dict)
    assert error["kind"] == "ctx_limit"


def test_null_from_outside_removes_a_member():
    data: JsonObject = {CTX: {"a": {"b": 1, "c": 2}, "d": 3}}
    changed = change_context(data, describe_patch({"a.b": None, "d": None, "e.f": None, "g.h": 4}), 1_000)
    assert isinstance(changed, dict)
    assert changed[CTX] == {"a": {"c": 2}, "g": {"h": 4}}
    assert data[CTX] == {"a": {"b": 1, "c": 2}, "d": 3}


def test_an_execution_is_stored_and_goes_on():
    execution = run(LOOP.format(spec="{mode: parallel, max_in_flight: 2}"))
    execution.report(execution.open[0].task, {"k": 1})
    while execution.open:
        marking = execution.marking
        execution.marking = marking_from_document(marking_to_document(marking), marking.data)
        execution.complete(execution.open[0].task, 1)
    assert execution.marking.data[CTX] == {"k": 1}
    assert execution.status == "success"


def test_an_entry_of_the_log_says_which_and_when():
    execution = run("workflow: [{step: s}]", execution_id="e1")
    documents = [event_to_document(event, "e1", seq, 0) for seq, event in enumerate(execution.log, 1)]
    assert len({document["event_id"] for document in documents}) == len(documents)
    assert documents[0]["event_type"] == "playbook.execution.requested"
    assert [document["event_type"] for document in documents][-3:] == [
        "workflow.finished",
        "playbook.finished",
        "playbook.processed",
    ]


# What a condition looks at.


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("ctx.open", {"ctx.open"}),
        ("{{ ctx['open'] and not ctx.shut.deep }}", {"ctx.open", "ctx.shut"}),
        ("ctx[args.name]", {"ctx"}),
        ("ctx.items() | length > 0", {"ctx"}),
        ("results.a.total > fetch.n", {"results.a", "results.fetch"}),
        ("workload.a == 1", set()),
    ],
)
def test_what_a_condition_looks_at_is_known(condition: str, parts: set[str]):
    assert find_watched([compile_condition(condition)]).parts == parts


def test_whether_a_condition_differs_between_tokens_is_known():
    assert find_watched([compile_condition("args.n")]).sees_token
    assert find_watched([compile_condition("event.name")]).sees_event
    assert not find_watched([compile_condition("ctx.n")]).sees_token


def test_what_has_changed_is_known():
    compiled = compile_text("workflow: [{step: s}]")
    before = build_data(compiled.playbook, "e", {}, {"a": 1, "b": {"c": 1}})
    after = change_context(before, describe_patch({"b.c": 2, "a": None, "d": 1}), 1_000)
    assert isinstance(after, dict)
    assert find_changed_parts(before, after) == {"ctx", "ctx.a", "ctx.b", "ctx.d"}
    assert find_changed_parts(before, before) == frozenset()
