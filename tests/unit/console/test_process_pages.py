"""What pages of processes make of the answers of the API (docs/console.md#pages)."""

from typing import Any
from uuid import UUID

import pytest

from statewright.console.diagrams.petri import MAX_CHARS, read_playbook
from statewright.console.diagrams.process import NodeState, mark_process, read_compiled, read_playbook_net, read_steps
from statewright.console.pages import definition_acts, instances
from statewright.console.pages.definitions import compare_graphs, view_counts
from statewright.console.pages.instance import build_past, find_states, find_writers
from statewright.console.pages.instances import describe_withdrawn
from statewright.console.process_languages import FLOWS, STEPS, find_entity_id
from statewright.console.request import Action, Form, InvalidField
from statewright.console.views.page import MAX_COMPARED_LINES, compare_lines, number_lines
from statewright.console.views.records import HistoryEntry, StoredToken
from statewright.net import uuid_to_ulid
from statewright.operations.explanations import AwaitedThing, ExplainedInstance
from statewright.operations.listings import StepCounts
from statewright.operations.queues import QueueView
from tests.unit.console.recorded import a_document, a_list, a_problem, a_reply

ACTIONS = {
    action.name: action
    for action in (*definition_acts.ROUTES, *instances.ROUTES)
    if isinstance(action, Action)
}  # fmt: skip

STEP_DEFINITION: Any = {
    "steps": [
        {"id": "a", "name": "A", "type": "SERVICE_TASK", "jobType": "mail", "nextStep": "end"},
        {"id": "end", "name": "End", "type": "END"},
    ]
}

PLAYBOOK = """workflow:
- step: fetch
  tool: {kind: http}
  next:
    arcs:
    - {step: gate, when: "true"}

- step: gate
  spec: {policy: {admit: {rules: [{when: ctx.a}, {when: ctx.b}]}}}
  tool: [{kind: noop}, {kind: noop}, {kind: wait}]
"""


def a_form(**fields: str) -> Form:
    return Form(tuple({"instance": "I/1", "language": "steps", **fields}.items()))


@pytest.mark.parametrize(
    ("action", "fields", "expected"),
    [
        ("cancel_instance", {"reason": "r"}, ("POST", "/v1/instances/I%2F1/cancel", b'{"reason":"r"}')),
        ("cancel_instance", {"language": "flow"}, ("POST", "/v1/flows/instances/I%2F1/cancel", b"{}")),
        ("restart_instance", {"language": "playbook"}, ("POST", "/v1/executions/I%2F1/restart", b"{}")),
        (
            "retry_step",
            {"step": "a b", "variables": '{"n": 1.10}'},
            ("POST", "/v1/instances/I%2F1/steps/a%20b/retry", b'{"variables":{"n":1.10}}'),
        ),
        ("signal_instance", {"step": "s", "variables": ""}, ("POST", "/v1/instances/I%2F1/signals/s", b"{}")),
        (
            "change_node_input",
            {"node": "2", "input": "[1.0]"},
            ("POST", "/v1/flows/instances/I%2F1/change", b'{"input":[1.0],"node":2}'),
        ),
        ("inject_token", {"step": "s"}, ("POST", "/v1/executions/I%2F1/tokens", b'{"args":{},"step":"s"}')),
        (
            "suspend_instance",
            {"reason": "r"},
            ("POST", "/ops/v1/suspensions", b'{"id":"I/1","reason":"r","scope":"INSTANCE"}'),
        ),
        (
            "start_instance",
            {"definition": "d", "version": "2", "values": "{}", "business_key": "k"},
            (
                "POST",
                "/v1/instances",
                b'{"businessKey":"k","definitionId":"d","definitionVersion":2,"variables":{}}',
            ),
        ),
        (
            "start_instance",
            {"definition": "p", "language": "playbook", "values": '{"a": 1}'},
            ("POST", "/v1/executions", b'{"path":"p","workload":{"a":1}}'),
        ),
        ("upload_definition", {"source": '{"id":\r\n1}'}, ("POST", "/v1/definitions?warnings=true", b'{"id":\n1}')),
        (
            "check_definition",
            {"language": "flow", "id": "x", "source": "a → b"},
            ("POST", "/v1/flows/validate?id=x", "a → b".encode()),
        ),
        ("check_definition", {"language": "playbook", "source": "a: 1"}, ("POST", "/v1/playbooks/validate", b"a: 1")),
    ],
)
def test_an_action_is_one_call(action: str, fields: dict[str, str], expected: tuple[str, str, bytes | None]):
    call = ACTIONS[action].build(a_form(**fields))
    assert (call.method, call.get_target("/api"), call.body) == expected


@pytest.mark.parametrize(
    ("action", "fields", "field"),
    [
        ("cancel_instance", {}, "reason"),
        ("cancel_instance", {"language": "java"}, "language"),
        ("retry_step", {"step": "s", "variables": "[]"}, "variables"),
        ("signal_instance", {"step": "s", "variables": "{"}, "variables"),
        ("change_node_input", {"node": "²", "input": "1"}, "node"),
        ("start_instance", {"definition": "d", "version": "-1"}, "version"),
        ("check_definition", {"source": "{}"}, "language"),
        ("upload_definition", {"source": ""}, "source"),
    ],
)
def test_a_bad_field_is_named(action: str, fields: dict[str, str], field: str):
    with pytest.raises(InvalidField) as invalid:
        ACTIONS[action].build(a_form(**fields))
    assert invalid.value.field == field


@pytest.mark.parametrize(
    ("tokens", "timers", "said"),
    [
        (["JOB", "USER_TASK", "USER_TASK"], 1, "1 job, 2 tasks and 1 timer are withdrawn."),
        (["JOB", "JOIN"], 0, "1 job is withdrawn."),
        ([], 0, "Nothing of it is under way."),
    ],
)
def test_a_cancellation_says_what_it_withdraws(tokens: list[str], timers: int, said: str):
    waiting = [{"waitsFor": each} for each in tokens]
    explained = a_document(ExplainedInstance, tokens=waiting, timers=[{}] * timers)
    assert describe_withdrawn(a_reply(explained).read(ExplainedInstance)) == said


def test_what_ended_after_an_instant_was_running_then_and_what_began_after_it_was_not_there():
    entries: Any = [
        {"stepId": "a", "status": "COMPLETED", "startedAt": "2026-01-01T00:00:01Z", "endedAt": "2026-01-01T00:00:02Z"},
        {"stepId": "b", "status": "FAILED", "startedAt": "2026-01-01T00:00:02Z", "endedAt": "2026-01-01T00:00:04Z",
         "outputSnapshot": {"n": 1}, "failureReason": "late"},
        {"stepId": "c", "status": "COMPLETED", "startedAt": "2026-01-01T00:00:05Z"},
    ]  # fmt: skip
    stored: Any = {"meta": {"state": "ACTIVE"}, "data": {"tokens": [{"node": "b"}, {"node": "d", "stage": "PENDING"}]}}
    known = a_reply(a_document(ExplainedInstance, instanceId="I")).read(ExplainedInstance)
    history = a_reply({"items": entries, "total": 3})
    read = history.pick_items(HistoryEntry)
    past = build_past(known, a_reply(stored), history, read, "2026-01-01T00:00:03Z")
    assert (past.explained.instance_id, past.explained.status) == ("I", "ACTIVE")
    assert [token.step_id for token in past.explained.tokens] == ["b"]
    assert past.entries == (
        read[0],
        HistoryEntry(step_id="b", status="RUNNING", started_at="2026-01-01T00:00:02Z"),
    )


def test_an_instance_and_its_entity_have_the_same_bits():
    entity = UUID("01a2057a-861c-0000-a173-219900000000")
    assert find_entity_id(uuid_to_ulid(str(entity))) == str(entity)
    assert find_entity_id("8" * 26) is None
    assert find_entity_id("not one") is None


def test_a_playbook_is_read_with_the_lines_of_its_steps():
    source = read_playbook(PLAYBOOK)
    assert source is not None
    assert source.lines == ((2, 6), (8, 10))
    graph = read_playbook_net(source)
    assert [(row.key, row.kind, row.detail) for row in graph.rows] == [
        ("fetch", "http", ""),
        ("gate", "noop, wait", "admits tokens when ctx.a or ctx.b"),
    ]
    assert [(way.label, way.target, way.ref) for way in graph.rows[0].ways] == [("true", "gate", "step-1")]


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "- a",
        "a" * (MAX_CHARS + 1),
        "workflow: " + "[" * 100 + "]" * 100,
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
        )
        + "workflow: *g\n",
    ],
    ids=["no YAML", "a list", "long", "deep", "aliases"],
)
def test_a_text_that_cannot_be_drawn_gives_no_picture(text: str):
    assert read_playbook(text) is None


def test_tokens_and_ends_are_put_on_the_graph():
    graph = read_steps(STEP_DEFINITION)
    entries = [HistoryEntry(step_id="a", status=status) for status in ("FAILED", "COMPLETED")]
    tokens = [AwaitedThing(step_id=step, waits_for="JOB") for step in ("end", "gone")]
    states = find_states(tokens, entries, [])
    assert states["a"] == NodeState(ended="done")
    marks = mark_process(graph, states)
    assert {number: mark.note for number, mark in marks.nodes.items()} == {1: "✓", 2: "▶ 1"}


def test_pending_tokens_of_a_playbook_stand_before_their_step():
    source = read_playbook(PLAYBOOK)
    assert source is not None
    pending = [StoredToken(node="gate", was_denied=denied) for denied in (True, False)]
    states = find_states([], [], pending)
    assert states["gate"] == NodeState(waiting=1, denied=1)
    assert mark_process(read_playbook_net(source), states).nodes[2].note == "●○"


def test_only_what_a_step_changed_was_written_by_it():
    entries: Any = [
        {"stepId": "a", "inputSnapshot": {"x": 1}, "outputSnapshot": {"x": 1, "y": 2}},
        {"stepId": "b", "inputSnapshot": {"x": 1, "y": 2}, "outputSnapshot": {"y": 3}},
        {"stepId": "c", "inputSnapshot": {"x": 1, "y": 3}, "outputSnapshot": None},
    ]
    assert find_writers(a_reply(entries).pick_items(HistoryEntry)) == {"y": "b"}


def test_counts_that_cannot_be_read_fail_alone():
    graph = read_steps(STEP_DEFINITION)
    counted = [{"stepId": "a", "count": 2}, {"stepId": "gone", "count": 3}]
    steps = a_reply(a_document(StepCounts, items=counted))
    queues = a_list(QueueView, {"name": "mail", "depth": 7}, {"name": "other", "depth": 1})
    counts = view_counts(STEPS, "d", graph, (a_problem(503, "SEARCH_SHARD_TIMEOUT"), steps, queues))
    assert [what for what, _ in counts.problems] == ["instances by status"]
    assert (counts.steps, counts.elsewhere, counts.unserved) == ((("a", "step-0", "2"),), "3", (("mail", "7"),))


def test_nodes_of_a_flow_are_compared_by_name():
    def read(*names: str) -> Any:
        nodes: list[Any] = [{"kind": "start"}, *({"kind": "task", "name": name} for name in names)]
        return read_compiled({"nodes": nodes, "edges": [[n, n + 1] for n in range(len(names))]})

    changes = [change.text for change in compare_graphs(FLOWS, read("load", "store"), read("load", "check", "store"))]
    assert changes == ["Node load: goes on to check.", "Node check is new: task."]
    assert FLOWS.build_path("a/b") == "/console/flows/a%2Fb"


def test_lines_that_differ_stand_with_a_few_around_them():
    old = "\n".join(str(number) for number in range(20))
    lines = compare_lines(old, old.replace("\n9\n", "\nnine\n"))
    assert lines is not None
    assert [f"{line.sign}{line.text}" for line in lines] == [
        "…",
        *(" 6", " 7", " 8", "−9", "+nine", " 10", " 11", " 12"),
    ]
    assert compare_lines(old, old) == ()
    assert compare_lines(old, "\n" * MAX_COMPARED_LINES) is None


def test_lines_know_the_rows_they_belong_to():
    assert [line.refs for line in number_lines("a\nb", {2: ["step-0", "step-1"]})] == ["", " step-0 step-1 "]
