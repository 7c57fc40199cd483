"""Requests to calculation members (docs/reference/executions.md#calculation-members)."""

from statewright.jsonval.values import JsonObject
from statewright.playbooks import compile_playbook
from statewright.playbooks.dispatch import Dispatch, Element, choose_job_type
from statewright.playbooks.pipeline import ToolCall
from statewright.playbooks.task_requests import DEFAULT_TIMEOUT_MS, MemberCall, build_member_call

DISPATCH = Dispatch(
    tasks=(),
    step="s",
    execution_id="E",
    step_run="R",
    workload={"w": 1},
    ctx={"c": 1},
    args={"a": 1},
    results={"r": 1},
    element=Element(iterator="i", value=1, index=4),
)
RUN: JsonObject = {"execution": "E", "step": "s", "stepRun": "R", "attempt": 2, "element": 4}


def build(kind: str, fields: JsonObject) -> MemberCall:
    call = ToolCall(label="label", kind=kind, fields=fields, spec={}, attempt=2)
    made = build_member_call(call, DISPATCH)
    assert isinstance(made, MemberCall)
    return made


def test_a_compute_task_says_whom_it_asks_for_what():
    known = {"tags": "a; b", "processor": "p", "timeout_ms": 5, "context": "text", "input": [1], "attach": True}
    made = build("compute", known)
    assert (made.name, made.tags, made.timeout_ms, made.context, made.data) == ("p", ("a", "b"), 5, "text", [1])
    seen = {"workload": {"w": 1}, "ctx": {"c": 1}, "args": {"a": 1}, "results": {"r": 1}}
    assert made.run == {**RUN, "task": "label", "kind": "compute", **seen}


def test_a_request_says_whether_its_fields_may_have_secrets():
    tool = "[{name: a, kind: python, k: '{{ keychain.db }}'}, {name: b, kind: compute, tags: t, auth: db}]"
    playbook = compile_playbook(
        f"metadata: {{name: x}}\nkeychain: [{{name: db, kind: k}}]\nworkflow: [{{step: s, tool: {tool}}}]"
    )
    dispatch = Dispatch(tasks=playbook.steps[0].tasks)
    told: list[bool] = []
    for task in dispatch.tasks:
        made = build_member_call(ToolCall(label=task.label, kind=task.kind, fields={}, spec={}, attempt=1), dispatch)
        assert isinstance(made, MemberCall)
        told.append(made.has_secrets)
    assert told == [True, False]


def test_what_a_compute_task_does_not_say_has_a_default():
    made = build("compute", {"tags": []})
    assert (made.name, made.tags, made.timeout_ms, made.context, made.data) == ("label", (), DEFAULT_TIMEOUT_MS, "", {})
    assert made.run == {**RUN, "task": "label", "kind": "compute"}


def test_of_other_kinds_all_fields_are_sent_and_none_is_read():
    made = build("python", {"code": "1", "tags": 3, "processor": 4})
    assert (made.name, made.tags, made.data) == ("python", ("python",), {"code": "1", "tags": 3, "processor": 4})


def test_a_pipeline_that_members_do_by_tags_is_run_by_the_service():
    def choose(tool: str) -> str | None:
        text = f"metadata: {{name: x}}\nworkflow: [{{step: s, tool: [{tool}]}}]"
        return choose_job_type(compile_playbook(text).steps[0].tasks)

    assert choose("{kind: compute, tags: a}, {kind: noop}, {kind: http, url: u}") is None
    assert choose("{kind: compute, tags: a}, {kind: python}") == "playbook:python"
    assert choose("{kind: compute}") == "playbook:compute"
