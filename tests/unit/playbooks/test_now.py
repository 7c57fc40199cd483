"""``now()``: the instant of what is handled (docs/reference/playbooks.md#time)."""

import pytest

from statewright.instants import to_rfc3339
from statewright.jsonval.codec import decode, encode
from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Moment
from statewright.net.effects import OpenHumanTask
from statewright.playbooks.context import CTX, RESULTS, get_member
from statewright.playbooks.convert import convert_playbook
from statewright.playbooks.dispatch import Dispatch, dispatch_from_document, dispatch_to_document
from statewright.playbooks.execution import Execution, execution_from_document, execution_to_document
from statewright.playbooks.operations import (
    build_payload,
    complete_job,
    fail_job,
    fire_timer,
    restart_execution,
    start_execution,
)
from statewright.playbooks.pipeline import CHILD, ToolCall
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.reading import read_playbook
from statewright.playbooks.running import LocalExecution
from statewright.playbooks.source import PlaybookProcess, PlaybookSource, compile_source
from statewright.playbooks.templates import EvaluationContext, Problem, compile_template, render
from statewright.processes.language import Applied, JobPlace, NewInstance
from tests.unit.playbooks.pipelines import play
from tests.unit.playbooks.traces import compile_text

AT = 1_764_000_000_123_456
"""2025-11-24T16:00:00.123456Z."""
HEADER = "metadata: {name: case}\n"
NEW = NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables={})
SETS_NOW = "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {%s: '{{ now() }}'}}}}]}}"


def run(text: str, **members: object) -> LocalExecution:
    """An execution that starts at ``AT``; each event is a millisecond after the one before it."""
    return LocalExecution(compile_text(text), at=AT - 1_000, **members)  # type: ignore[arg-type]


def answer_fields(call: ToolCall, dispatch: Dispatch) -> Outcome:
    return succeed(call.fields)


def get_ctx(execution: LocalExecution) -> JsonObject:
    return get_member(execution.marking.data, CTX)


def get_results(execution: LocalExecution) -> JsonObject:
    return get_member(execution.marking.data, RESULTS)


def test_it_is_text_in_the_form_of_all_instants():
    context = EvaluationContext(at=AT)
    assert render(compile_template("{{ now() }}"), {}, context) == "2025-11-24T16:00:00.123456Z"
    assert render(compile_template("on {{ now()[:10] }}"), {}, context) == "on 2025-11-24"
    assert render(compile_template("{{ now() }}"), {}, EvaluationContext(at=0)) == "1970-01-01T00:00:00Z"


def test_it_is_a_function_and_no_name():
    scope: JsonObject = {"now": "a member of workload"}
    template = compile_template("{% set now = 1 %}{{ now }} {{ now() }}", statements=True)
    assert render(template, scope, EvaluationContext(at=0)) == "1 1970-01-01T00:00:00Z"
    assert render(compile_template("{{ now }}"), scope, EvaluationContext(at=0)) == "a member of workload"
    assert render(compile_template("{{ now }}"), {}, EvaluationContext(at=0)) is None


def test_where_the_instant_is_not_known_a_call_is_a_problem_and_nothing_else_is():
    problem = render(compile_template({"a": 1, "b": "{{ now() }}"}), {})
    assert isinstance(problem, Problem)
    assert (problem.kind, problem.path) == ("template", "/b")
    assert render(compile_template("{{ 1 if true else now() }}"), {}) == 1


# In what the service decides.


def test_in_arcs_it_is_the_timestamp_of_the_event():
    execution = run(
        """
        workflow:
        - step: s
          tool: {kind: python}
          set: {ctx.done: '{{ now() }}', ctx.same: '{{ now() == event.timestamp }}'}
          next:
            arcs:
            - {step: t, when: now() == event.timestamp, set: {ctx.fired: '{{ now() }}'}, args: {at: '{{ now() }}'}}
        - {step: t, tool: {kind: python}}
        """
    )
    execution.run(answer_fields, limit=1)
    ended = to_rfc3339(AT + 1_000)
    assert get_ctx(execution) == {"done": ended, "same": True, "fired": ended}
    assert execution.open[0].input["args"] == {"at": ended}


def test_admission_is_decided_by_the_instant_at_which_a_token_is_asked_about():
    text = """
        workflow:
        - step: gate
          spec: {policy: {admit: {rules: [{when: ctx.asked and now() >= workload.from, then: {allow: true}}]}}}
          tool: {kind: python}
        """
    soon = run(text, workload={"from": to_rfc3339(AT + 2_000)})
    soon.patch({"asked": 1})
    assert soon.status == "waiting", "a millisecond too early"
    soon.patch({"asked": 2})
    assert [each.step for each in soon.open] == ["gate"]


def test_a_loop_sees_the_instant_at_which_it_begins():
    execution = run(
        """
        workflow:
        - step: s
          loop: {in: '{{ [now()] * 2 }}', iterator: x, spec: {mode: parallel, max_in_flight: '{{ now()[3] | int }}'}}
          tool: {kind: python, x: '{{ x }}'}
        """
    )
    assert len(execution.open) == 2, "five at once, as the year says"
    execution.run(answer_fields)
    assert get_results(execution)["s"] == [{"x": to_rfc3339(AT)}] * 2


def test_a_playbook_that_is_awaited_is_started_with_it():
    execution = run("workflow: [{step: s, tool: {kind: playbook, path: other, args: {at: '{{ now() }}'}}}]")
    [given] = execution.children.values()
    assert isinstance(given, dict)
    assert get_member(get_member(given, CHILD), "input") == {"at": to_rfc3339(AT)}


def test_a_loop_of_playbooks_starts_each_with_the_instant_at_which_its_element_begins():
    execution = run(
        """
        workflow:
        - {step: s, loop: {in: [1, 2], iterator: x}, tool: {kind: playbook, path: other, args: {at: '{{ now() }}'}}}
        """
    )
    execution.end_child(next(iter(execution.children)))
    begun = [get_member(get_member(given, CHILD), "input")["at"] for given in execution.children.values()]  # type: ignore[arg-type]
    assert begun == [to_rfc3339(AT), to_rfc3339(AT + 1_000)]


def test_a_pipeline_of_noop_tasks_happens_at_the_instant_of_its_step():
    execution = run(f"workflow: [{{step: s, tool: {{kind: noop, {SETS_NOW % 'at'}}}}}]")
    assert get_ctx(execution) == {"at": to_rfc3339(AT)}


def test_a_person_is_asked_at_the_instant_at_which_the_task_is_opened():
    text = f"{HEADER}workflow: [{{step: s, tool: {{kind: ask, title: 'Since {{{{ now() }}}}'}}}}]"
    process = compile_source(PlaybookSource(text=text, asks_people=True), 1)
    started = start_execution(process, NEW, Moment(at=AT, first_id=1 << 80))
    [task] = [effect for effect in started.effects if isinstance(effect, OpenHumanTask)]
    assert task.about["title"] == f"Since {to_rfc3339(AT)}"


# In tasks.


def test_all_tasks_and_attempts_of_a_run_have_the_instant_at_which_it_began():
    execution = run(
        """
        workflow:
        - step: s
          input: {at: '{{ now() }}'}
          tool:
          - name: a
            kind: python
            at: '{{ now() }}'
            spec: {policy: {rules: [{when: "outcome.status == 'error'", then: {do: retry}}]}}
          - {name: b, kind: python, at: '{{ now() }}', given: '{{ input.at }}'}
        """
    )
    asked: list[JsonValue] = []

    def fail_first(call: ToolCall, dispatch: Dispatch) -> Outcome:
        asked.append(call.fields["at"])
        return fail("tool", "not yet") if len(asked) == 1 else succeed(call.fields)

    execution.patch({"later": 1})
    execution.run(fail_first)
    assert asked == [to_rfc3339(AT)] * 3
    assert get_results(execution)["s"] == {"at": to_rfc3339(AT), "given": to_rfc3339(AT)}


def test_each_element_has_the_instant_at_which_it_began():
    execution = run("workflow: [{step: s, loop: {in: [1, 2], iterator: x}, tool: {kind: python, at: '{{ now() }}'}}]")
    execution.run(answer_fields)
    assert get_results(execution)["s"] == [{"at": to_rfc3339(AT)}, {"at": to_rfc3339(AT + 1_000)}]


def test_a_local_execution_goes_with_the_clock_that_it_is_given():
    instants = iter([AT, AT + 60_000_000])
    execution = LocalExecution(
        compile_text(
            """
            workflow:
            - {step: s, tool: {kind: python, at: '{{ now() }}'}, next: {arcs: [{step: t}]}}
            - {step: t, tool: {kind: python, at: '{{ now() }}'}}
            """
        ),
        clock=lambda: next(instants, 0),
    )
    execution.run(answer_fields)
    assert get_results(execution) == {"s": {"at": to_rfc3339(AT)}, "t": {"at": to_rfc3339(AT + 60_000_000)}}


# In what is stored and sent.


TASK = "workflow: [{step: s, tool: [{kind: a, at: '{{ now() }}'}, {name: rest, kind: wait, seconds: 9}, {kind: noop}]}]"


def a_moment(at: int) -> Moment:
    return Moment(at=at, first_id=at // 1_000 << 80)


def start(text: str) -> tuple[PlaybookProcess, Execution]:
    process = compile_source(PlaybookSource(text=HEADER + text), 1)
    return process, start_execution(process, NEW, a_moment(AT)).instance


def store(execution: Execution) -> Execution:
    """As another process reads it."""
    document = decode(encode(execution_to_document(execution)))
    assert isinstance(document, dict)
    return execution_from_document(document)


def claim(process: PlaybookProcess, execution: Execution) -> JsonObject:
    """What the worker of the only job is sent."""
    [token] = [token for token in execution.marking.tokens if token.work is not None]
    payload = build_payload(process, execution, JobPlace(execution.id, token.node, token.element, token.id), {})
    sent = decode(encode(payload))
    assert isinstance(sent, dict)
    return sent


def get_work(execution: Execution) -> str:
    [work] = [token.work for token in execution.marking.tokens if token.work is not None]
    return work


def test_whoever_claims_the_job_is_told_when_the_run_began():
    process, execution = start(TASK)
    assert claim(process, execution)["at"] == to_rfc3339(AT)
    assert claim(process, store(execution))["at"] == to_rfc3339(AT)


def test_behind_a_pause_a_run_has_the_instant_that_it_had_before():
    process, execution = start(TASK)
    pause: JsonObject = {"state": {"counter": 1}, "fields": {"seconds": 9}}
    completion: JsonObject = {"status": "paused", "pause": pause}
    paused = complete_job(process, execution, get_work(execution), completion, a_moment(AT + 1))
    assert isinstance(paused, Applied)
    [timer] = [timer.id for token in paused.instance.marking.tokens for timer in token.timers]
    resumed = fire_timer(process, store(paused.instance), timer, a_moment(AT + 9_000_000))
    payload = claim(process, resumed.instance)
    assert "resume" in payload
    assert payload["at"] == to_rfc3339(AT)


def test_a_run_that_a_restart_begins_again_is_a_new_one():
    process, execution = start(TASK)
    failed = fail_job(process, execution, get_work(execution), "no", a_moment(AT + 1))
    again = restart_execution(process, store(failed.instance), a_moment(AT + 5_000_000))
    assert isinstance(again, Applied)
    assert claim(process, again.instance)["at"] == to_rfc3339(AT + 5_000_000)


def test_a_job_of_an_older_service_fails_where_it_is_called_and_only_there():
    process, execution = start(TASK)
    payload = claim(process, execution)
    del payload["at"]
    dispatch = dispatch_from_document(payload)
    assert dispatch_from_document(dispatch_to_document(dispatch)) == dispatch
    played = play(dispatch, [])
    assert (played.calls, played.end.error and played.end.error["kind"]) == ([], "template")
    process, execution = start("workflow: [{step: s, tool: {kind: a, of: 1}}]")
    payload = claim(process, execution)
    del payload["at"]
    assert play(dispatch_from_document(payload), [succeed(7)]).end.result == 7


@pytest.mark.parametrize("at", [None, 7, "", "yesterday"])
def test_an_instant_that_is_none_is_as_if_it_were_not_there(at: JsonValue):
    process, execution = start(TASK)
    assert dispatch_from_document({**claim(process, execution), "at": at}).context.at is None


# In what authors are told.


def a_gate(when: str, on_deny: str = "pending") -> str:
    rules = f"[{{when: '{when}', then: {{allow: true}}}}, {{else: {{then: {{allow: false}}}}}}]"
    admission = f"{{on_deny: {on_deny}, rules: {rules}}}"
    return f"{HEADER}workload: {{f: 1}}\nworkflow: [{{step: s, spec: {{policy: {{admit: {admission}}}}}}}]"


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (a_gate("now() > workload.f"), True),
        (a_gate("now() > args.f"), True),
        (a_gate("now() > workload.f", "discard"), False),
        (a_gate("now() > ctx.f"), False),
        (a_gate("workload.f > 2"), False),
    ],
)
def test_lint_warns_of_a_token_that_would_wait_for_time_to_pass(text: str, is_told: bool):
    reading = read_playbook(text)
    assert reading.errors == ()
    paths = [warning.path for warning in reading.warnings if "now()" in warning.message]
    assert paths == (["/workflow/0/spec/policy/admit/rules/0/when"] if is_told else [])


def test_an_older_playbook_that_uses_it_is_converted_and_runs():
    older = "name: x\nvars: {a: 1}\nworkflow: [{step: s, tool: python, code: '{{ now() }}'}]"
    conversion = convert_playbook(older)
    assert conversion.errors == ()
    reading = read_playbook(conversion.document)
    assert reading.errors == ()
