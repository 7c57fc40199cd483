"""Executions beyond the worked ones (docs/reference/executions.md)."""

from typing import Any

import pytest

from statewright.jsonval.values import JsonObject, JsonValue
from statewright.net import Moment
from statewright.net.effects import StartChild, TimerFired
from statewright.playbooks.context import CTX, RESULTS
from statewright.playbooks.dispatch import narrow
from statewright.playbooks.operations import build_payload, start_execution
from statewright.playbooks.pipeline import direct_children
from statewright.playbooks.policies import Outcome, fail, succeed
from statewright.playbooks.running import LocalExecution
from statewright.playbooks.source import PlaybookSource, compile_source
from statewright.playbooks.tasks import find_due
from statewright.processes.language import JobPlace, NewInstance
from tests.unit.playbooks.traces import compile_text, describe_log

US_PER_S = 1_000_000


def run(text: str, **members: Any) -> LocalExecution:
    """An execution as far as it comes without any task."""
    return LocalExecution(compile_text(text), **members)


def errors_of(execution: LocalExecution) -> list[JsonValue]:
    result = execution.result
    assert isinstance(result, dict)
    failures = result["failures"]
    assert isinstance(failures, list)
    return [failure["error"] for failure in failures if isinstance(failure, dict)]


def find_event(execution: LocalExecution, event_type: str) -> list[JsonObject]:
    return [event.payload for event in execution.log if event.type == event_type]


# What tokens carry, and what conditions see.


def test_args_of_a_token_stay_what_they_were_when_the_arc_fired():
    execution = run(
        """
        workload: {n: 1}
        workflow:
        - {step: s, next: {arcs: [{step: gate, args: {n: '{{ ctx.n }}'}}]}}
        - {step: gate, spec: {policy: {admit: {rules: [{when: ctx.open, then: {allow: true}}]}}}, tool: {kind: compute}}
        """,
        ctx={"n": 1},
    )
    execution.patch({"n": 2, "open": True})
    (open_run,) = execution.open
    assert open_run.input["args"] == {"n": 1}


def test_args_of_a_token_are_small():
    execution = run(
        """
        workload: {large: [0, 1, 2, 3]}
        executor: {spec: {policy: {limits: {max_args_bytes: 20}}}}
        workflow:
        - {step: s, next: {arcs: [{step: t, args: {all: '{{ workload.large * 2 }}'}, when: ctx.go}]}}
        - {step: t}
        """,
        ctx={"go": True},
    )
    assert execution.status == "failed"
    (error,) = errors_of(execution)
    assert isinstance(error, dict)
    assert error["kind"] == "args_limit"


def test_args_may_be_as_large_as_what_workers_answer():
    execution = run(
        """
        workflow:
        - {step: s, tool: {kind: compute}, next: {arcs: [{step: t, args: {all: '{{ results.s }}'}}]}}
        - {step: t, tool: {kind: compute}}
        """
    )
    rows = [{"n": n, "text": "x" * 90} for n in range(1_000)]
    execution.complete(execution.open[0].task, rows)
    (open_run,) = execution.open
    assert open_run.input["args"] == {"all": rows}


def test_a_condition_of_admission_sees_the_event_that_made_the_token():
    text = """
        workflow:
        - {step: s, tool: {kind: compute}, next: {arcs: [{step: t}]}}
        - {step: t, spec: {policy: {admit: {on_deny: discard, rules: [
            {when: "{{ event.name == 'step.done' and event.payload.result.n == 1 }}", then: {allow: true}}]}}}}
        """
    execution = run(text)
    execution.complete(execution.open[0].task, {"n": 1})
    assert "run t#1" in describe_log(execution.log)
    execution = run(text)
    execution.inject("t")  # no event made it
    assert "drop t" in describe_log(execution.log)


def test_tokens_of_a_step_are_admitted_each_by_what_it_carries():
    """The second is asked about with the same data as the first, and what the first was told is not said again."""
    execution = run(
        """
        workflow:
        - {step: s, next: {spec: {mode: inclusive}, arcs: [
            {step: gate, args: {n: 1}}, {step: gate, args: {n: 5}}, {step: gate, args: {n: 2}}]}}
        - step: gate
          spec: {policy: {admit: {rules: [{when: args.n > 3, then: {allow: true}}]}}}
          tool: {kind: compute}
        """
    )
    assert [each.input["args"] for each in execution.open] == [{"n": 5}]


def test_an_arc_sets_before_args_are_rendered_and_after_guards_are_evaluated():
    execution = run(
        """
        workflow:
        - {step: s, set: {ctx.n: 1}, next: {spec: {mode: inclusive}, arcs: [
            {step: t, set: {ctx.n: '{{ ctx.n + 1 }}'}, args: {n: '{{ ctx.n }}'}},
            {step: u, when: 'ctx.n == 1', set: {ctx.n: '{{ ctx.n + 1 }}'}, args: {n: '{{ ctx.n }}'}}]}}
        - {step: t}
        - {step: u}
        """
    )
    made = [event["args"] for event in find_event(execution, "token.created")]
    assert made == [{}, {"n": 3}, {"n": 3}]


def test_the_first_names_of_events_are_known_too():
    execution = run(
        """
        workflow:
        - {step: s, tool: {kind: compute}, next: {arcs: [{step: t, when: "event.name == 'call.error'"}]}}
        - {step: t}
        """
    )
    execution.fail(execution.open[0].task, {"kind": "boom"})
    assert execution.status == "success"


def test_no_name_of_a_step_is_special():
    execution = run("workflow: [{step: end, next: {arcs: [{step: start}]}}, {step: start}]")
    assert describe_log(execution.log)[-2:] == ["run start#1", "start done"]
    assert execution.status == "success"


def test_a_step_waits_for_its_timeout_and_no_longer():
    execution = run(
        """
        workflow:
        - {step: s, spec: {policy: {lifecycle: {timeout_s: 5}}}, tool: {kind: compute}, next: {arcs: [
            {step: late, when: "outcome.error.kind == 'timeout'"}]}}
        - {step: late}
        """
    )
    execution.fire_timers(4 * US_PER_S)
    assert execution.status == "running"
    execution.fire_timers(6 * US_PER_S)
    assert (execution.status, execution.open) == ("success", ())


def test_what_cannot_be_rendered_fails_the_step():
    execution = run(
        """
        workflow:
        - {step: s, set: {ctx.n: '{{ 1 // 0 }}'}, next: {arcs: [{step: t, when: "event.name == 'step.failed'"}]}}
        - {step: t}
        """
    )
    assert describe_log(execution.log)[1:4] == ["run s#1", "s failed", "next s→t"]
    assert find_event(execution, "step.failed")[0]["error"]["kind"] == "template"  # type: ignore[call-overload, index]


def test_results_are_seen_by_their_names():
    execution = run(
        """
        workflow:
        - {step: a, tool: {kind: compute}, next: {arcs: [{step: b, when: 'a.total == 3 and results.a.total == 3'}]}}
        - {step: b}
        """
    )
    execution.complete(execution.open[0].task, {"total": 3})
    assert execution.marking.attempts["b"] == 1  # type: ignore[index]


# Joins.


def test_a_join_merges_what_tokens_carry_in_the_order_of_its_steps():
    execution = run(
        """
        workflow:
        - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, next: {arcs: [{step: m, args: {x: {a: 1}, y: a}}]}}
        - {step: b, next: {arcs: [{step: m, args: {x: {b: 1}, y: b}}]}}
        - {step: m, spec: {join: {steps: [b, a]}}, tool: {kind: compute}}
        """
    )
    assert execution.open[0].input["args"] == {"x": {"a": 1, "b": 1}, "y": "a"}


# Loops.

LOOP = """
    workload: {{xs: [1, 2, 3]}}
    workflow:
    - {{step: s, loop: {{in: '{{{{ workload.xs }}}}', iterator: x, spec: {spec}}}, tool: {{kind: compute}}}}
    """


@pytest.mark.parametrize(("given", "running"), [("'{{ 1 + 1 }}'", 2), ("'{{ none }}'", None), ("'{{ 0 }}'", None)])
def test_how_many_elements_run_at_once_may_be_computed(given: str, running: int | None):
    execution = run(LOOP.format(spec=f"{{mode: parallel, max_in_flight: {given}}}"))
    if running is None:
        assert execution.status == "failed"
        assert errors_of(execution) == [
            {"kind": "template", "message": "max_in_flight must give a whole number of 1 or more"}
        ]
    else:
        assert len(execution.open) == running


def test_the_elements_of_a_loop_are_those_there_were_when_it_began():
    execution = run(
        """
        workflow:
        - {step: s, loop: {in: '{{ ctx.xs }}', iterator: x}, tool: {kind: compute}}
        """,
        ctx={"xs": [1, 2]},
    )
    execution.patch({"xs": []})
    execution.complete(execution.open[0].task)
    assert execution.open[0].input["item"] == 2
    execution.complete(execution.open[0].task)
    assert find_event(execution, "loop.done")[0]["output"]["total"] == 2  # type: ignore[call-overload, index]


def test_elements_that_contradict_each_other_fail():
    execution = run(LOOP.format(spec="{mode: parallel, max_in_flight: 3}"))
    first, second, third = execution.open
    execution.report(first.task, {"a.b": 1})
    execution.report(second.task, {"a.b": 2})
    assert execution.marking.data[CTX] == {}
    for each in (first, second, third):
        execution.complete(each.task)
    assert execution.marking.data[CTX] == {"a": {"b": 1}}
    (error,) = errors_of(execution)
    cause = "ctx_conflict: a.b was written by another element with a different value"
    assert error == {"kind": "loop", "message": f"1 of 3 elements failed; the first, element 1: {cause}"}
    assert str(execution.marking.reason) == f"LOOP: {error['message']}"
    output = find_event(execution, "step.failed")[0]["output"]
    assert isinstance(output, dict)
    message = "a.b was written by another element with a different value"
    assert output["errors"] == {"1": {"kind": "ctx_conflict", "message": message}}


# The end.


def test_the_final_step_is_told_what_happened():
    execution = run(
        """
        executor: {spec: {final_step: report}}
        workflow:
        - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, tool: {kind: compute}}
        - {step: b}
        - {step: report, tool: {kind: compute}}
        """,
        execution_id="e1",
    )
    execution.fail(execution.open[0].task, {"kind": "boom"})
    assert execution.open[0].input["args"] == {
        "execution_id": "e1",
        "succeeded": 1,
        "failed": 1,
        "steps": {"s": 1, "a": 1, "b": 1},
        "failures": [{"step": "a", "error": {"kind": "boom"}}],
        "results": {"s": "results.s", "b": "results.b"},
    }


@pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("partial", "partial")])
def test_a_final_step_that_fails_counts_as_the_policy_says(policy: str, status: str):
    execution = run(
        f"""
        executor: {{spec: {{final_step: report, policy: {{final_step_failure: {policy}}}}}}}
        workflow: [{{step: s}}, {{step: report, tool: {{kind: compute}}}}]
        """
    )
    execution.fail(execution.open[0].task, {"kind": "boom"})
    assert execution.status == status


@pytest.mark.parametrize(("policy", "status"), [("wait", "waiting"), ("discard", "success"), ("fail", "failed")])
def test_pending_tokens_count_as_the_policy_says(policy: str, status: str):
    execution = run(
        f"""
        executor: {{spec: {{policy: {{pending: {{on_quiescence: {policy}}}}}}}}}
        workflow:
        - {{step: s, next: {{arcs: [{{step: gate}}]}}}}
        - {{step: gate, spec: {{policy: {{admit: {{rules: [{{when: ctx.open, then: {{allow: true}}}}]}}}}}}}}
        """
    )
    assert execution.status == status


def test_a_cycle_ends_at_the_limits():
    execution = run(
        """
        executor: {spec: {policy: {limits: {max_runs_per_step: 5}}}}
        workflow: [{step: s, next: {arcs: [{step: s}]}}]
        """
    )
    assert execution.status == "failed"
    (error,) = errors_of(execution)
    assert isinstance(error, dict)
    assert error["kind"] == "visit_limit"


def test_a_failed_run_is_restarted_with_its_args_and_nothing_else_is():
    execution = run(
        """
        workflow:
        - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a, args: {n: 1}}, {step: b}]}}
        - {step: a, tool: {kind: compute}}
        - {step: b, tool: {kind: compute}}
        """
    )
    a, b = execution.open
    execution.complete(b.task)
    execution.fail(a.task, {"kind": "boom"})
    assert execution.status == "failed"
    assert execution.restart()
    assert [each.step for each in execution.open] == ["a"]
    assert execution.open[0].input["args"] == {"n": 1}
    execution.complete(execution.open[0].task)
    assert execution.status == "success"
    assert not execution.restart()


def test_what_had_come_to_a_join_waits_there_again_after_a_restart():
    execution = run(
        """
        workflow:
        - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
        - {step: a, tool: {kind: compute}, next: {arcs: [{step: m, when: event.name == 'step.done', args: {a: 1}}]}}
        - {step: b, tool: {kind: compute}, next: {arcs: [{step: m, args: {b: 2}}]}}
        - {step: m, spec: {join: {}}, tool: {kind: compute}}
        """
    )
    a, b = execution.open
    execution.complete(b.task)
    for again in (False, True):
        assert execution.restart() is again
        execution.fail(execution.open[0].task, {"kind": "boom"})
        assert (execution.status, execution.marking.tally.failed) == ("failed", 2)
    assert execution.restart()
    assert [each.step for each in execution.open] == [a.step]
    execution.complete(execution.open[0].task)
    [joined] = execution.open
    assert (joined.step, joined.input["args"]) == ("m", {"a": 1, "b": 2})
    execution.complete(joined.task)
    assert (execution.status, execution.marking.tally.failed) == ("success", 0)


def test_an_execution_that_was_cancelled_takes_no_more_events():
    execution = run("workflow: [{step: s, tool: {kind: compute}}]")
    (open_run,) = execution.open
    execution.cancel("enough")
    log = len(execution.log)
    execution.complete(open_run.task)
    execution.patch({"a": 1})
    assert (execution.status, len(execution.log), execution.open) == ("cancelled", log, ())


def test_what_a_cancellation_withdraws_has_no_error():
    execution = run("workflow: [{step: s, loop: {in: [1], iterator: x}, tool: {kind: compute}}]")
    execution.cancel("enough")
    withdrawn = {each.type: each.payload for each in execution.log if each.type.endswith(".cancelled")}
    assert withdrawn["step.cancelled"] == withdrawn["loop.iteration.cancelled"] == {"output": None, "reason": None}


@pytest.mark.parametrize("until", ["soon", "2026-06-01", "2026-06-01T09:30:00", "99999-01-01T00:00:00Z"])
def test_a_wait_lasts_until_an_instant_with_an_offset(until: str):
    assert find_due({"until": until}, 0) == "until must be an instant, as 2026-06-01T09:30:00Z"
    assert find_due({"until": "1970-01-01T01:00:01+01:00"}, 0) == 1_000_000


# Other playbooks that are awaited.

PARENT = """
    workflow:
    - {step: s, tool: {kind: playbook, path: other, args: {n: '{{ ctx.n }}'}}, next: {arcs: [
        {step: ko, when: "event.name == 'step.failed'"}]}}
    - {step: ko}
    """


def test_another_playbook_is_awaited():
    execution = run(PARENT, ctx={"n": 3})
    ((run_id, given),) = execution.children.items()
    assert isinstance(given, dict)
    assert given["child"]["path"] == "other"  # type: ignore[call-overload, index]
    assert given["depth"] == 1
    execution.end_child(run_id, {"total": 1})
    assert execution.marking.data[RESULTS] == {"s": {"total": 1}}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ("path: '{{ workload.missing }}'", "path must be a text"),
        ("path: child, version: '{{ workload.version }}'", "version must be a whole number: that of the definition"),
        ("path: child, version: '{{ 2 ** 31 }}'", "version must be a whole number: that of the definition"),
        ("path: child, args: '{{ [1] }}'", "input must be an object"),
    ],
)
def test_a_playbook_that_cannot_be_started_is_a_failure_of_the_step(fields: str, told: str):
    text = f"workload: {{version: '2'}}\nworkflow: [{{step: s, tool: {{kind: playbook, {fields}}}}}]"
    execution = run(text)
    failed = next(each.payload["error"] for each in execution.log if each.type == "step.failed")
    assert (failed["kind"], failed["message"]) == ("playbook", told)
    assert execution.status == "failed"


def test_an_awaited_playbook_that_fails_is_a_failure_of_the_step():
    execution = run(PARENT)
    (run_id,) = execution.children
    execution.end_child(run_id, error={"kind": "child", "message": "failed"})
    assert execution.status == "success"
    assert execution.marking.attempts["ko"] == 1  # type: ignore[index]


def test_playbooks_run_within_each_other_only_so_deep():
    assert run(PARENT, depth=7).children
    execution = run(PARENT, depth=8)
    assert not execution.children
    assert find_event(execution, "step.failed")[0]["error"]["kind"] == "depth_limit"  # type: ignore[call-overload, index]


CHILDREN = """
    workload: {pages: [4, 5, 6]}
    workflow:
    - step: s
      spec: {policy: {failure: {mode: MODE}}}
      input: {by: '{{ ctx.by }}'}
      loop: {in: '{{ workload.pages }}', iterator: page, spec: {mode: parallel, max_in_flight: 2}}
      tool: {kind: playbook, path: other, args: {page: '{{ page }}', last: '{{ iter._last }}', by: '{{ input.by }}'}}
    """


def list_args(execution: LocalExecution) -> list[JsonValue]:
    """What the playbooks are given that are awaited now."""
    return [given["child"]["input"] for given in execution.children.values()]  # type: ignore[call-overload, index]


def test_elements_of_a_loop_are_other_playbooks_a_few_at_once():
    execution = run(CHILDREN.replace("MODE", "fail_fast"), ctx={"by": "Ada"})
    assert list_args(execution) == [{"page": 4, "last": False, "by": "Ada"}, {"page": 5, "last": False, "by": "Ada"}]
    first, second = execution.children
    del execution.children[second]
    execution.end_child(second, "five")
    assert list_args(execution) == [{"page": 4, "last": False, "by": "Ada"}, {"page": 6, "last": True, "by": "Ada"}]
    for run_id, result in zip(execution.children, ("four", "six"), strict=True):
        execution.end_child(run_id, result)
    assert first in execution.children  # the host forgets it, not the kernel
    assert execution.marking.data[RESULTS] == {"s": ["four", "five", "six"]}
    assert execution.status == "success"


@pytest.mark.parametrize(("mode", "begun", "status"), [("fail_fast", 2, "failed"), ("best_effort", 3, "partial")])
def test_an_element_whose_playbook_fails_ends_the_loop_or_is_left_out(mode: str, begun: int, status: str):
    execution = run(CHILDREN.replace("MODE", mode))
    first, second = execution.children
    execution.end_child(first, error={"kind": "child", "message": "failed"})
    assert len(execution.children) == begun
    for run_id in list(execution.children)[1:]:
        execution.end_child(run_id, "ok")
    assert execution.status == status
    assert second in execution.children
    if mode == "best_effort":
        assert execution.marking.data[RESULTS] == {"s": [None, "ok", "ok"]}


def test_an_element_whose_fields_cannot_be_rendered_fails():
    execution = run(CHILDREN.replace("MODE", "best_effort").replace("{{ page }}", "{{ 1 // (page - 5) }}"))
    for run_id in execution.children:
        execution.end_child(run_id, "ok")
    assert execution.marking.data[RESULTS] == {"s": ["ok", None, "ok"]}
    (failed,) = find_event(execution, "loop.iteration.failed")
    assert failed["error"]["kind"] == "template"  # type: ignore[call-overload, index]


def test_a_playbook_within_an_element_sees_the_loop_it_runs_in():
    execution = run(CHILDREN.replace("MODE", "fail_fast"))
    started = direct_children(execution.effects)
    (first, _) = [effect for effect in started if isinstance(effect, StartChild)]
    assert isinstance(first.input, dict)
    given = first.input
    process = compile_source(
        PlaybookSource(
            text="{metadata: {name: other}, workflow: [{step: s, loop: {in: [7], iterator: x}, "
            "tool: {kind: a, of: '{{ workload }}'}}]}"
        ),
        1,
    )
    moment = Moment(at=0, first_id=1 << 80)
    inner = start_execution(process, NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables=given), moment).instance
    place = JobPlace(inner.id, "s", 0)
    payload = build_payload(process, inner, place, {"args": {}, "item": 7, "index": 0, "isLast": True})
    assert payload["workload"] == {"page": 4, "last": False, "by": None}
    parent = payload["loop"]["parent"]  # type: ignore[call-overload, index]
    assert (parent["page"], parent["index"], parent["_first"]) == (4, 0, True)  # type: ignore[call-overload, index]


def test_tools_are_called_with_what_a_pipeline_makes_of_their_fields():
    asked: list[JsonObject] = []

    def tool(call: Any, dispatch: Any) -> Outcome:
        asked.append(call.fields)
        return succeed(2) if call.attempt > 1 else fail("busy", "try again")

    execution = run(
        """
        workflow:
        - step: s
          loop: {in: '{{ [5] }}', iterator: x}
          tool: {kind: compute, n: '{{ iter.x }}', spec: {policy: {rules: [
            {when: "outcome.status == 'error'", then: {do: retry, attempts: 2, set_ctx: {busy: true}}}]}}}
        """
    )
    execution.run(tool)
    assert asked == [{"n": 5}, {"n": 5}]
    assert execution.marking.data[CTX] == {"busy": True}
    assert execution.status == "success"


UNDEFINED = """
workload: {customer: workload, page: workload}
workflow:
- step: load
  tool: {name: page, kind: noop}
  set: {ctx.seen: "{{ customer }} {{ load }} {{ nobody }} {{ other }}"}
  next: {arcs: [{step: store, args: {customer: args}}]}
- step: store
  tool:
    kind: noop
    spec:
      policy:
        rules: [else: {then: {do: break, set_ctx: {who: "{{ customer }}", page: "{{ page }}", x: "{{ nobody }}"}}}]
  next: {arcs: [{step: store, when: "{{ ctx.store_runs is undefined }}", set: {ctx.store_runs: 1}}]}
"""


def test_bare_names_are_those_of_args_then_of_results_then_of_the_workload():
    execution = run(UNDEFINED)
    assert execution.marking.data["ctx"] == {
        "seen": "workload None  ",
        "who": "workload",
        "page": "workload",
        "x": None,
        "store_runs": 1,
    }
    (first, *_) = [
        event for event in execution.log if event.type == "ctx.patched" and "who" in event.payload["changes"]
    ]
    assert first.payload["changes"]["who"] == "args"


def test_a_name_that_nothing_has_is_told_once_for_each_place():
    execution = run(UNDEFINED, workload={"other": 1})
    found = [event for event in execution.log if event.type == "template.undefined_name"]
    assert [(event.step, event.payload["code"], event.payload["name"], event.payload["path"]) for event in found] == [
        ("load", "UNDEFINED_NAME", "nobody", "/workflow/0/set/ctx.seen"),
        ("store", "UNDEFINED_NAME", "nobody", "/workflow/1/tool/spec/policy/rules/0/else/then/set_ctx/x"),
    ]


# The time of the whole.

LIMITED = """
executor: {spec: {timeout_s: 60, final_step: report}}
workflow:
- {step: s, next: {spec: {mode: inclusive}, arcs: [{step: work}, {step: gate}, {step: each}, {step: m}]}}
- {step: work, tool: {kind: python}, next: {arcs: [{step: after, when: event.name == 'step.failed'}]}}
- {step: gate, spec: {policy: {admit: {rules: [{when: ctx.open, then: {allow: true}}]}}}, tool: {kind: noop}}
- {step: each, loop: {in: [1, 2], iterator: n}, tool: {kind: python}, next: {arcs: [{step: m}]}}
- {step: m, spec: {join: {steps: [s, each]}}, tool: {kind: noop}}
- {step: after, tool: {kind: python}}
- {step: report, tool: {kind: python}}
"""


def expire(execution: LocalExecution) -> None:
    deadline = execution.marking.deadline
    assert deadline is not None
    execution.play(TimerFired(deadline))


def test_an_execution_that_takes_too_long_fails_and_runs_the_final_step():
    execution = run(LIMITED)
    (limited,) = find_event(execution, "workflow.limited")
    assert list(execution.timers.items()) == [(limited["timer"], limited["at"])]
    assert {each.step for each in execution.open} == {"work", "each"}
    expire(execution)
    assert [each.step for each in execution.open] == ["report"]
    assert execution.timers == {}
    execution.complete(execution.open[0].task)
    assert (execution.status, execution.marking.reason) == ("failed", "EXECUTION_TIMEOUT")
    assert {failure.reason for failure in execution.marking.tally.failures} == {"EXECUTION_TIMEOUT"}
    assert find_event(execution, "step.scheduled")[-1]["token"], "the final step alone has begun since"
    assert "after" not in {event.step for event in execution.log if event.type == "step.scheduled"}


def test_the_time_of_an_execution_is_counted_no_more_when_it_has_ended():
    execution = run("executor: {spec: {timeout_s: 0.5}}\nworkflow: [{step: s, tool: {kind: python}}]")
    execution.complete(execution.open[0].task)
    assert (execution.status, execution.timers, execution.marking.deadline) == ("success", {}, None)


def test_a_restart_has_the_whole_time_again():
    execution = run("executor: {spec: {timeout_s: 5}}\nworkflow: [{step: s, tool: {kind: python}}]")
    expire(execution)
    assert execution.status == "failed"
    assert execution.restart()
    assert len(execution.timers) == 1
    execution.complete(execution.open[0].task)
    assert execution.status == "success"


def test_an_execution_without_a_limit_has_no_timer():
    assert run("workflow: [{step: s, tool: {kind: python}}]").timers == {}


# What a worker is given.


RULE = "{kind: a, spec: {policy: {rules: [{%s}]}}}"
ALL: JsonObject = {"a": 1, "b": 2, "c": {"d": 3, "e": 4}}


def build_job(text: str) -> JsonObject:
    text = f"metadata: {{name: x}}\nworkload: {{a: 1, b: 2, c: {{d: 3, e: 4}}}}\n{text}"
    process = compile_source(PlaybookSource(text=text), 1)
    given = {"ctx": {"x": 5, "y": 6}}
    moment = Moment(at=0, first_id=1 << 80)
    execution = start_execution(process, NewInstance(id="01JABC3V9E6K8M2Q4S6T8W0Y2Z", variables=given), moment).instance
    return build_payload(process, execution, JobPlace(execution.id, "s", None), {"args": {"p": 7, "q": 8}})


@pytest.mark.parametrize(
    ("task", "seen"),
    [
        ("{kind: a}", [{}, {}, {}]),
        ("{kind: a, v: '{{ workload.a }}{{ ctx.x }}{{ args.p }}'}", [{"a": 1}, {"x": 5}, {"p": 7}]),
        ("{kind: a, v: '{{ b }}{{ q | default(1) }}'}", [{"b": 2}, {}, {"q": 8}]),
        ("{kind: a, v: '{{ workload.c.d }}{{ ctx }}'}", [{"c": {"d": 3, "e": 4}}, {"x": 5, "y": 6}, {}]),
        ("{kind: a, v: '{{ workload[ctx.y] }}'}", [ALL, {"y": 6}, {}]),
        ("{kind: a, v: '{% for n in args %}{{ n }}{% endfor %}'}", [{}, {}, {"p": 7, "q": 8}]),
        (RULE % "when: ctx.x, then: {do: retry, delay: '{{ b }}'}", [{"b": 2}, {"x": 5}, {}]),
        (RULE % "else: {then: {do: break, set: {z: '{{ args.q }}'}}}", [{}, {}, {"q": 8}]),
        ("{kind: a, v: '{% set ctx = ctx.x %}{{ ctx }}'}", [{}, {"x": 5, "y": 6}, {}]),
        ("{kind: compute, tags: t, attach: true}", [ALL, {"x": 5, "y": 6}, {"p": 7, "q": 8}]),
    ],
)  # fmt: skip
def test_a_job_has_what_its_templates_name(task: str, seen: list[JsonObject]):
    job = build_job(f"workflow: [{{step: s, tool: {task}}}]")
    assert [job["workload"], job["ctx"], job["args"]] == seen


def test_a_job_has_the_results_that_its_templates_name():
    execution = run(
        """
        workflow:
        - {step: one, tool: {kind: noop}, next: {arcs: [{step: two}]}}
        - {step: two, tool: {kind: noop}, next: {arcs: [{step: three}]}}
        - {step: three, input: {first: '{{ one }}'}, tool: {kind: a}}
        """
    )
    assert execution.marking.data[RESULTS] == {"one": None, "two": None}
    rules = execution.compiled.rules["three"]
    narrowed = narrow(execution.build_dispatch(execution.open[0]), rules.needs)
    assert narrowed.results == {"one": None}
