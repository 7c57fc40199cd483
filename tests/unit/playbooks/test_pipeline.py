"""Pipelines: what an outcome leads to, task by task, and what templates see on the way."""

# ruff: noqa: E501 - a case is a line

from decimal import Decimal

import pytest

from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.playbooks import compile_playbook
from statewright.playbooks.context import Patch, write_member
from statewright.playbooks.dispatch import (
    Dispatch,
    Element,
    MalformedDispatch,
    choose_job_type,
    dispatch_from_document,
    dispatch_to_document,
)
from statewright.playbooks.pipeline import PipelineEnd, PipelineState, ToolCall, begin, prepare, settle
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.tasks import list_worker_kinds
from statewright.playbooks.templates import EvaluationContext
from tests.unit.playbooks.pipelines import Played, play

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example}\n"
BROKEN = fail("http", "not today", status=503)


def a_dispatch(tool: str, step_input: str = "null", **known: object) -> Dispatch:
    step = compile_playbook(f"{HEADER}workflow: [{{step: s, input: {step_input}, tool: {tool}}}]").steps[0]
    return Dispatch(tasks=step.tasks, input=step.input, **known)  # type: ignore[arg-type]


def run(tool: str, *outcomes: Outcome, **known: object) -> Played:
    return play(a_dispatch(tool, **known), list(outcomes))


def rules(*then: str) -> str:
    return "spec: {policy: {rules: [" + ", ".join(then) + "]}}"


def test_the_tasks_run_in_order_and_the_last_result_is_that_of_the_step() -> None:
    played = run("[{a: {kind: x}}, {b: {kind: x, n: '{{ _prev }}', m: '{{ a + 1 }}'}}]", succeed(1), succeed(2))
    assert [(call.label, call.fields) for call in played.calls] == [("a", {}), ("b", {"n": 1, "m": 2})]
    assert played.end == PipelineEnd(result=2)
    assert played.state.results == {"a": 1, "b": 2}


def test_an_error_without_a_policy_ends_the_pipeline() -> None:
    played = run("[{a: {kind: x}}, {b: {kind: x}}]", BROKEN)
    assert played.end == PipelineEnd(error=BROKEN.error)


def test_a_noop_has_a_null_result_and_calls_nothing() -> None:
    played = run("[{a: {kind: x}}, {b: {kind: noop}}]", succeed(1))
    assert (len(played.calls), played.end) == (1, PipelineEnd(result=None))


def test_a_step_without_tasks_ends_at_once() -> None:
    assert begin(Dispatch(tasks=())) == PipelineEnd()


def test_continue_after_an_error_keeps_the_previous_result() -> None:
    policy = rules("{else: {then: {do: continue}}}")
    played = run(f"[{{a: {{kind: x}}}}, {{b: {{kind: x, {policy}}}}}, {{c: {{kind: x, n: '{{{{ _prev }}}}'}}}}]", succeed(1), BROKEN, succeed(3))  # fmt: skip
    assert played.calls[2].fields == {"n": 1}
    assert played.end == PipelineEnd(result=3)
    assert "b" not in played.state.results


def test_break_ends_well_and_skips_the_rest() -> None:
    played = run(f"[{{a: {{kind: x, {rules('{then: {do: break}}')}}}}}, {{b: {{kind: x}}}}]", succeed(1))
    assert (len(played.calls), played.end) == (1, PipelineEnd(result=1))


def test_fail_fails_also_what_is_ok() -> None:
    played = run(f"[{{a: {{kind: x, {rules('{then: {do: fail}}')}}}}}]", succeed(1))
    assert played.end.error is not None
    assert played.end.error["kind"] == "policy_fail"


@pytest.mark.parametrize(
    ("policy", "do"),
    [
        ("{rules: []}", "fail"),
        ("{rules: [], on_unmatched: continue}", "continue"),
        ("{rules: [{when: false, then: {do: retry}}]}", "fail"),
        ("{rules: [{when: false, then: {do: retry}}, {else: {then: {do: break}}}]}", "break"),
        ("{rules: [{then: {do: break}}, {then: {do: fail}}]}", "break"),
        ("{rules: [{when: \"outcome.error.status == 503\", then: {do: break}}]}", "break"),
        ("{rules: [{when: \"output.status == 'error'\", then: {do: break}}]}", "break"),
    ],
)  # fmt: skip
def test_the_first_rule_that_matches_decides(policy: str, do: str) -> None:
    played = run(f"[{{a: {{kind: x, spec: {{policy: {policy}}}}}}}, {{b: {{kind: x}}}}]", BROKEN, succeed(1))
    assert played.turns[0].do == do


def test_a_condition_that_fails_is_passed_over_and_told() -> None:
    policy = rules("{when: nothing + 1, then: {do: fail}}", "{else: {then: {do: break}}}")
    turn = run(f"[{{a: {{kind: x, {policy}}}}}]", succeed(1)).turns[0]
    assert (turn.do, turn.rule) == ("break", "else")
    assert turn.problems[0].source == "nothing + 1"


def test_a_retry_counts_executions() -> None:
    policy = rules("{when: outcome.status == 'error', then: {do: retry, attempts: 3}}")
    played = run(f"[{{a: {{kind: x, n: '{{{{ _attempt }}}}', {policy}}}}}]", BROKEN, BROKEN, BROKEN, succeed(1))
    assert [call.fields["n"] for call in played.calls] == [1, 2, 3]
    assert played.end == PipelineEnd(error=BROKEN.error)


def test_the_attempts_start_afresh_once_a_task_ends_otherwise() -> None:
    """Pages of a pagination have attempts of their own."""
    policy = rules(
        "{when: outcome.status == 'error', then: {do: retry, attempts: 2}}",
        "{when: outcome.result.more, then: {do: jump, to: a, set_iter: {page: '{{ iter.page|default(1) + 1 }}'}}}",
    )
    more, done = succeed({"more": True}), succeed({"more": False})
    played = run(f"[{{a: {{kind: x, page: '{{{{ iter.page }}}}', {policy}}}}}]", BROKEN, more, BROKEN, done)
    assert [call.fields["page"] for call in played.calls] == [None, None, 2, 2]
    assert played.end.is_ok


@pytest.mark.parametrize(
    ("then", "waits"),
    [
        ("", [0, 0, 0]),
        ("delay: 2", [2_000, 2_000, 2_000]),
        ("backoff: linear", [1_000, 2_000, 3_000]),
        ("backoff: exponential", [1_000, 2_000, 4_000]),
        ("backoff: exponential, delay: 0.5", [500, 1_000, 2_000]),
        ("backoff: exponential, delay: 200", [200_000, 300_000, 300_000]),
        ("delay: '{{ outcome.error.status - 500 }}'", [3_000, 3_000, 3_000]),
        ("delay: 1e400", [300_000, 300_000, 300_000]),
    ],
)
def test_the_pause_before_another_attempt(then: str, waits: list[int]) -> None:
    policy = rules(f"{{then: {{do: retry, attempts: 9{', ' if then else ''}{then}}}}}")
    played = play(a_dispatch(f"[{{a: {{kind: x, {policy}}}}}]"), [BROKEN] * 9)
    assert [turn.wait_ms for turn in played.turns][:3] == waits


@pytest.mark.parametrize("delay", ["'{{ [] }}'", "'{{ nothing }}'", "'{{ -1 }}'", "'{{ 1 / 0 }}'"])
def test_a_pause_that_is_no_number_fails_the_step(delay: str) -> None:
    policy = rules(f"{{then: {{do: retry, delay: {delay}}}}}")
    played = run(f"[{{a: {{kind: x, {policy}}}}}]", BROKEN)
    assert played.end.error is not None
    assert played.end.error["kind"] == "template"


def test_patches_are_made_in_order_and_seen_at_once() -> None:
    policy = rules(
        "{else: {then: {do: continue, set_iter: {i: 1}, set_ctx: {n: '{{ iter.i + 1 }}', a.b: '{{ ctx.n }}'}}}}"
    )
    played = run(
        f"[{{a: {{kind: x, {policy}}}}}, {{b: {{kind: x, n: '{{{{ ctx.a }}}}'}}}}]",
        succeed(1),
        succeed(2),
        ctx={"a": 1, "z": 0},
    )
    assert played.patches == [Patch(path=("n",), value=2), Patch(path=("a", "b"), value=2)]
    assert played.calls[1].fields == {"n": {"b": 2}}
    ctx: JsonObject = {"a": 1, "z": 0}
    for patch in played.patches:
        ctx = write_member(ctx, patch.path, patch.value)
    assert ctx == {"a": {"b": 2}, "z": 0, "n": 2} == played.state.ctx


def test_patches_of_a_pipeline_that_fails_later_stay() -> None:
    policy = rules("{else: {then: {do: continue, set_ctx: {n: 1}}}}")
    played = run(f"[{{a: {{kind: x, {policy}}}}}, {{b: {{kind: x}}}}]", succeed(1), BROKEN)
    assert not played.end.is_ok
    assert played.patches == [Patch(path=("n",), value=1)]


def test_an_assignment_that_fails_fails_the_step() -> None:
    policy = rules("{else: {then: {do: continue, set_ctx: {n: '{{ nothing + 1 }}'}}}}")
    played = run(f"[{{a: {{kind: x, {policy}}}}}]", succeed(1))
    assert played.end.error is not None
    assert played.end.error["kind"] == "template"


def test_a_field_that_cannot_be_rendered_is_an_error_that_rules_can_handle() -> None:
    policy = rules("{when: outcome.error.kind == 'template', then: {do: break}}")
    played = run(f"[{{a: {{kind: x, n: '{{{{ 1 / 0 }}}}', {policy}}}}}]")
    assert (played.calls, played.end) == ([], PipelineEnd(result=None))


def test_an_input_that_cannot_be_rendered_fails_the_step() -> None:
    ended = begin(a_dispatch("{kind: x}", "{n: '{{ 1 / 0 }}'}"))
    assert isinstance(ended, PipelineEnd)
    assert ended.error is not None
    assert ended.error["path"] == "/n"


def test_the_input_of_the_step_is_rendered_once() -> None:
    dispatch = a_dispatch("{kind: x, n: '{{ input.n }}'}", "{n: '{{ args.n + item }}'}", args={"n": 1}, element=Element(iterator="item", value=2, index=5))  # fmt: skip
    assert play(dispatch, [succeed()]).calls[0].fields == {"n": 3}


def test_a_pipeline_that_never_ends_is_ended() -> None:
    dispatch = a_dispatch(f"[{{a: {{kind: noop, {rules('{then: {do: jump, to: a}}')}}}}}]", max_task_executions=50)
    played = play(dispatch, [])
    assert len(played.turns) == 50
    assert played.end.error == {"kind": "limit", "message": "the pipeline has executed 50 tasks"}


def test_what_an_element_sees() -> None:
    element = Element(iterator="item", value={"id": 7}, index=2, is_last=True, parent={"index": 1})
    text = "{{ item.id }} {{ iter.item.id }} {{ iter.index }} {{ iter._index }} {{ iter._first }} {{ iter._last }} {{ iter.parent.index }}"
    played = play(a_dispatch(f"{{kind: x, t: '{text}'}}", element=element), [succeed()])
    assert played.calls[0].fields == {"t": "7 7 2 2 False True 1"}


def test_names_of_scopes_win_over_names_of_results() -> None:
    known = {"results": {"args": 1, "other": 2}, "args": {"n": 3}}
    played = run("{kind: x, a: '{{ args.n }}', b: '{{ other }}', c: '{{ results.args }}'}", succeed(), **known)
    assert played.calls[0].fields == {"a": 3, "b": 2, "c": 1}


def test_secrets_are_seen_by_fields_of_tools_alone() -> None:
    policy = rules("{else: {then: {do: continue, set_ctx: {k: '{{ keychain.k }}'}}}}")
    played = run(f"[{{a: {{kind: x, k: '{{{{ keychain.k }}}}', {policy}}}}}]", succeed(), keychain={"k": "secret"})
    assert played.calls[0].fields == {"k": "secret"}
    assert played.patches == [Patch(path=("k",), value=None)]


@pytest.mark.parametrize(
    "named", ["keychain.other", "keychain['other']", "keychain[args.name]", "keychain.other.token"]
)
def test_a_name_that_the_keychain_does_not_have_is_an_error(named: str) -> None:
    played = run(f'[{{kind: x, k: "{{{{ {named} }}}}"}}]', keychain={"k": "secret"}, args={"name": "other"})
    assert (played.calls, played.end and played.end.error and played.end.error["kind"]) == ([], "template")
    assert "secret" not in str(played.end)


def test_a_run_can_be_gone_on_from_any_of_its_states() -> None:
    dispatch = a_dispatch("[{a: {kind: x}}, {b: {kind: x}}]")
    state = begin(dispatch)
    assert isinstance(state, PipelineState)
    first = settle(dispatch, state, succeed(1))
    assert settle(dispatch, first.state, succeed(2)) == settle(dispatch, first.state, succeed(2))
    assert isinstance(prepare(dispatch, state), ToolCall)


def test_a_dispatch_is_the_same_after_its_way_to_a_worker() -> None:
    dispatch = a_dispatch(
        "[{a: {kind: x, n: '{{ args.n }}'}}]", "{i: 1}",
        execution_id="E", step="s", step_run="R", workload={"w": Decimal("1.50")}, ctx={"c": 1}, args={"n": 1},
        results={"r": 1}, keychain={"k": {}}, element=Element(iterator="i", value=1, index=0, parent={"index": 3}),
        context=EvaluationContext(at=1_764_000_000_000_001),
    )  # fmt: skip
    sent = decode(encode(dispatch_to_document(dispatch)))
    assert isinstance(sent, dict)
    assert dispatch_from_document(sent) == dispatch


@pytest.mark.parametrize("document", [{}, {"tasks": 1}, {"tasks": [{"name": "x"}]}, {"tasks": [], "input": "{{ x"}])
def test_a_payload_that_is_no_dispatch_is_refused(document: JsonObject) -> None:
    with pytest.raises(MalformedDispatch):
        dispatch_from_document(document)


@pytest.mark.parametrize(
    ("kinds", "job_type", "tags"),
    [
        (["noop", "http"], None, ()),
        (["noop", "python", "http", "postgres", "python"], "playbook:python", ("python", "postgres")),
    ],
)
def test_code_goes_to_workers(kinds: list[str], job_type: JsonValue, tags: tuple[str, ...]) -> None:
    tasks = a_dispatch("[" + ", ".join(f"{{kind: {kind}}}" for kind in kinds) + "]").tasks
    assert (choose_job_type(tasks), list_worker_kinds(tasks)) == (job_type, tags)
