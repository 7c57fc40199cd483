"""What is wrong with a playbook is found all at once, each with a JSON pointer and what was expected."""

# ruff: noqa: E501 - a case is a line

import textwrap

import pytest

from statewright.playbooks import InvalidPlaybook, Reading, compile_playbook, read_playbook
from statewright.playbooks.definition import Limits
from statewright.playbooks.tasks import pipeline_from_document, pipeline_to_document

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: example}\n"


def read(body: str) -> Reading:
    return read_playbook(HEADER + textwrap.dedent(body))


def list_errors(body: str) -> dict[str, str]:
    return {finding.path: finding.message for finding in read(body).errors}


def list_warnings(body: str) -> dict[str, str]:
    reading = read(body)
    assert reading.errors == ()
    return {finding.path: finding.message for finding in reading.warnings}


STEP = "workflow: [{step: a, tool: {kind: noop}}]"
RULES = "workflow: [{step: a, tool: [{name: x, kind: noop, spec: {policy: %s}}, {name: y, kind: noop}]}]"
POLICY = "/workflow/0/tool/0/spec/policy"


@pytest.mark.parametrize(
    ("body", "path", "told"),
    [
        (f"vars: {{}}\n{STEP}", "/vars", "expected workload"),
        (f"steps: []\n{STEP}", "/steps", "is not known here; expected apiVersion"),
        ("workflow: []", "/workflow", "expected a list of steps"),
        ("workload: {}", "/workflow", "expected a list of steps"),
        ("workflow: {a: 1}", "/workflow", "must be a list of steps, not a mapping"),
        ("workflow: [x]", "/workflow/0", "must be a mapping with step, not 'x'"),
        ("workflow: [{tool: {kind: noop}}]", "/workflow/0/step", "is missing; expected the name of the step"),
        ("workflow: [{step: ' a'}]", "/workflow/0/step", "without blanks around it"),
        ("workflow: [{step: a}, {step: a}]", "/workflow/1/step", "must be another name"),
        ("workflow: [{step: a, when: x}]", "/workflow/0/when", "expected conditions in spec.policy.admit.rules"),
        ("workflow: [{step: a, case: []}]", "/workflow/0/case", "next.arcs[].when"),
        ("workflow: [{step: a, retry: 3}]", "/workflow/0/retry", "do: retry"),
        ("workflow: [{step: a, sink: x}]", "/workflow/0/sink", "expected a task"),
        ("workflow: [{step: a, type: x}]", "/workflow/0/type", "expected kind in tool"),
        ("workflow: [{step: a, vars: {}}]", "/workflow/0/vars", "expected set"),
        ("workflow: [{step: a, args: {}}]", "/workflow/0/args", "expected input"),
        ("workflow: [{step: a, expr: x}]", "/workflow/0/expr", "is not known"),
        ("workflow: [{step: a, spec: {next_mode: x}}]", "/workflow/0/spec/next_mode", "next.spec.mode"),
        ("workflow: [{step: a, next: b}]", "/workflow/0/next", "must be a mapping with arcs, not 'b'"),
        ("workflow: [{step: a, next: [b]}]", "/workflow/0/next", "must be a mapping with arcs, not a list"),
        ("workflow: [{step: a, next: {}}]", "/workflow/0/next/arcs", "expected a list of arcs"),
        ("workflow: [{step: a, next: {arcs: [{step: b}]}}]", "/workflow/0/next/arcs/0/step", "not 'b'"),
        ("workflow: [{step: a, next: {arcs: [{}]}}]", "/workflow/0/next/arcs/0/step", "is missing"),
        ("workflow: [{step: a, next: {arcs: [{step: a, when: '{{ x'}]}}]", "/workflow/0/next/arcs/0/when", "is no condition"),
        ("workflow: [{step: a, next: {arcs: [{step: a, when: 3}]}}]", "/workflow/0/next/arcs/0/when", "an expression, not 3"),
        ("workflow: [{step: a, next: {spec: {mode: both}, arcs: [{step: a}]}}]", "/workflow/0/next/spec/mode", "exclusive, inclusive"),
        ("workflow: [{step: a, next: {arcs: [{step: a, args: [1]}]}}]", "/workflow/0/next/arcs/0/args", "must be a mapping"),
        ("workflow: [{step: a, next: {arcs: [{step: a, set: {iter.x: 1}}]}}]", "/workflow/0/next/arcs/0/set/iter.x", "key of ctx"),
        ("workflow: [{step: a, set: {workload.x: 1}}]", "/workflow/0/set/workload.x", "does not change"),
        ("workflow: [{step: a, set: {ctx..x: 1}}]", "/workflow/0/set/ctx..x", "empty part"),
        ("workflow: [{step: a, tool: 3}]", "/workflow/0/tool", "must be a task, or a list of tasks, not 3"),
        ("workflow: [{step: a, tool: []}]", "/workflow/0/tool", "has no task"),
        ("workflow: [{step: a, tool: {url: x}}]", "/workflow/0/tool/kind", "is missing"),
        ("workflow: [{step: a, tool: {kind: noop, eval: []}}]", "/workflow/0/tool/eval", "spec.policy.rules"),
        ("workflow: [{step: a, tool: [{name: x, kind: noop}, {x: {kind: noop}}]}]", "/workflow/0/tool/1/x", "unique in a step"),
        ("workflow: [{step: a, tool: {kind: http, url: '{{ x | no }}'}}]", "/workflow/0/tool/url", "unknown filter no"),
        ("workflow: [{step: a, tool: {kind: noop, args: {}, input: {}}}]", "/workflow/0/tool/args", "same as input"),
        ("workflow: [{step: a, tool: {kind: workbook, task: x}}]", "/workflow/0/tool/task", "name of a task of the workbook"),
        (RULES % "[]", POLICY, "must be a mapping with rules"),
        (RULES % "{}", f"{POLICY}/rules", "is missing"),
        (RULES % "{rules: [{when: true}]}", f"{POLICY}/rules/0/then", "is missing"),
        (RULES % "{rules: [{then: {}}]}", f"{POLICY}/rules/0/then/do", "is missing; expected one of continue, retry"),
        (RULES % "{rules: [{then: {do: stop}}]}", f"{POLICY}/rules/0/then/do", "not 'stop'"),
        (RULES % "{rules: [{then: {do: jump}}]}", f"{POLICY}/rules/0/then/to", "is missing"),
        (RULES % "{rules: [{then: {do: jump, to: z}}]}", f"{POLICY}/rules/0/then/to", "label of a task of this step (x, y)"),
        (RULES % "{rules: [{then: {do: jump, to: previous}}]}", f"{POLICY}/rules/0/then/to", "no task before"),
        (RULES % "{rules: [{then: {do: retry, attempts: 0}}]}", f"{POLICY}/rules/0/then/attempts", "from 1 to"),
        (RULES % "{rules: [{then: {do: retry, attempts: x}}]}", f"{POLICY}/rules/0/then/attempts", "not 'x'"),
        (RULES % "{rules: [{then: {do: retry, backoff: x}}]}", f"{POLICY}/rules/0/then/backoff", "exponential"),
        (RULES % "{rules: [{then: {do: retry, delay: x}}]}", f"{POLICY}/rules/0/then/delay", "number of seconds"),
        (RULES % "{rules: [{else: {then: {do: fail}}}, {then: {do: fail}}]}", f"{POLICY}/rules/0/else", "must be the last"),
        (RULES % "{on_unmatched: x, rules: []}", f"{POLICY}/on_unmatched", "fail, continue"),
        ("workflow: [{step: a, spec: {policy: {rules: []}}}]", "/workflow/0/spec/policy/rules", "belongs to a task"),
        ("workflow: [{step: a, spec: {policy: {admit: {}}}}]", "/workflow/0/spec/policy/admit/rules", "is missing"),
        ("workflow: [{step: a, spec: {policy: {admit: {rules: [{then: {}}]}}}}]", "/workflow/0/spec/policy/admit/rules/0/then/allow", "is missing"),
        ("workflow: [{step: a, spec: {policy: {admit: {on_deny: x, rules: []}}}}]", "/workflow/0/spec/policy/admit/on_deny", "pending, discard"),
        ("workflow: [{step: a, spec: {policy: {lifecycle: {timeout_s: 0}}}}]", "/workflow/0/spec/policy/lifecycle/timeout_s", "above 0"),
        ("workflow: [{step: a, spec: {join: {}}}]", "/workflow/0/spec/join", "nothing to join"),
        ("workflow: [{step: a, spec: {join: {steps: [b]}}}]", "/workflow/0/spec/join/steps/0", "not 'b'"),
        ("workflow: [{step: a, spec: {join: {mode: n}}, next: {arcs: [{step: a}]}}]", "/workflow/0/spec/join/n", "is missing"),
        ("workflow: [{step: a, spec: {join: {mode: n, n: 2}}, next: {arcs: [{step: a}]}}]", "/workflow/0/spec/join/n", "from 1 to 1"),
        ("workflow: [{step: a, loop: {iterator: x}}]", "/workflow/0/loop/in", "is missing"),
        ("workflow: [{step: a, loop: {in: []}}]", "/workflow/0/loop/iterator", "is missing"),
        ("workflow: [{step: a, loop: {in: [], iterator: index}}]", "/workflow/0/loop/iterator", "another name"),
        ("workflow: [{step: a, loop: {in: [], iterator: x, cursor: {}}}]", "/workflow/0/loop/cursor", "not supported"),
        ("workflow: [{step: a, loop: {in: [], iterator: x, spec: {mode: cursor}}}]", "/workflow/0/loop/spec/mode", "not supported"),
        ("workflow: [{step: a, loop: {in: [], iterator: x, spec: {mode: parallel, max_in_flight: 0}}}]", "/workflow/0/loop/spec/max_in_flight", "from 1 to"),
        (f"executor: {{spec: {{entry_step: b}}}}\n{STEP}", "/executor/spec/entry_step", "not 'b'"),
        (f"executor: {{spec: {{final_step: b}}}}\n{STEP}", "/executor/spec/final_step", "not 'b'"),
        (f"executor: {{spec: {{no_next_is_error: 1}}}}\n{STEP}", "/executor/spec/no_next_is_error", "true or false"),
        (f"executor: {{spec: {{policy: {{failure: {{mode: x}}}}}}}}\n{STEP}", "/executor/spec/policy/failure/mode", "best_effort"),
        (f"executor: {{spec: {{policy: {{limits: {{max_step_runs: 10001}}}}}}}}\n{STEP}", "/executor/spec/policy/limits/max_step_runs", "from 1 to 10000"),
        (f"keychain: [{{name: k}}]\n{STEP}", "/keychain/0/kind", "is missing"),
        (f"workbook: {{tasks: {{x: {{kind: workbook}}}}}}\n{STEP}", "/workbook/tasks/x/kind", "another kind"),
    ],
)  # fmt: skip
def test_an_error_names_the_field_and_what_was_expected(body: str, path: str, told: str) -> None:
    errors = list_errors(body)
    assert list(errors) == [path]
    assert told in errors[path]


def test_the_header_may_be_absent_and_must_be_known_where_it_is_there() -> None:
    assert read_playbook(f"metadata: {{name: x}}\n{STEP}").errors == ()
    reading = read_playbook(f"apiVersion: noetl.io/v1\nkind: Playbok\nmetadata: {{name: x}}\n{STEP}")
    assert [error.path for error in reading.errors] == ["/apiVersion", "/kind"]
    assert [e.path for e in read_playbook(STEP).errors] == ["/metadata"]
    assert [e.path for e in read_playbook(f"metadata: {{}}\n{STEP}").errors] == ["/metadata/name"]


def test_everything_is_found_at_once() -> None:
    errors = list_errors("vars: {}\nworkflow: [{step: a, when: x, next: {arcs: [{step: z}]}}, {step: b, tool: {}}]")
    assert list(errors) == ["/vars", "/workflow/0/when", "/workflow/0/next/arcs/0/step", "/workflow/1/tool/kind"]


def test_no_more_is_told_than_helps() -> None:
    reading = read("workflow: [" + ",".join(f"{{step: a{n}, when: x}}" for n in range(500)) + "]")
    assert len(reading.errors) == 100


def test_a_text_that_is_no_document_is_an_error_with_its_line() -> None:
    reading = read_playbook("a: 1\na: 2")
    assert "line 2" in reading.errors[0].message
    with pytest.raises(InvalidPlaybook, match="line 2"):
        compile_playbook("a: 1\na: 2")


def test_a_playbook_has_a_thousand_steps_at_most() -> None:
    body = "workflow: [" + ",".join(f"{{step: a{n}}}" for n in range(1_001)) + "]"
    assert "has 1001 steps" in list_errors(body)["/workflow"]


def test_the_templates_of_a_playbook_come_to_so_much_at_most() -> None:
    """They would take long to compile in a document as large as one may be."""
    body = "workflow: [{step: a, tool: {kind: x, list: [" + ", ".join(["'{{ a + b + c + d }}'"] * 15_000) + "]}}]"
    assert "characters of templates" in list_errors(body)[""]


@pytest.mark.parametrize(
    ("tool", "places"),
    [
        ("{kind: http, url: x}", ["/workflow/0/tool/kind"]),
        ("[{kind: noop}, {get: {kind: http, url: x}}]", ["/workflow/0/tool/1/get/kind"]),
        ("[{kind: compute, tags: t}, {kind: workbook, task: ask}]", ["/workflow/0/tool/1/kind"]),
        ("[{kind: http}, {kind: python}]", []),
    ],
)
def test_a_kind_can_be_disabled_where_the_service_runs_the_pipeline(tool: str, places: list[str]) -> None:
    body = f"workbook: {{tasks: {{ask: {{kind: http, url: x}}}}}}\nworkflow: [{{step: a, tool: {tool}}}]"
    reading = read_playbook(HEADER + body, disabled_kinds=frozenset({"http"}))
    assert [error.path for error in reading.errors] == places
    assert all("http is disabled here" in error.message for error in reading.errors)
    assert read_playbook(HEADER + body).errors == ()


@pytest.mark.parametrize(
    ("body", "path", "told"),
    [
        ("workflow: [{step: a, tool: {kind: noop}}, {step: b, tool: {kind: noop}}]", "/workflow/1", "reached by no arc"),
        ("workflow: [{step: a}]", "/workflow/0", "neither tool nor next"),
        ("workflow: [{step: a, tool: {kind: noop}, spec: {policy: {admit: {rules: [{when: ctx.x, then: {allow: true}}]}}}}]", "/workflow/0/spec/policy/admit/rules", "has no else"),
        ("workflow: [{step: a, tool: [{kind: compute, tags: t}, {kind: python}]}]", "/workflow/0/tool", "beside compute"),
        ("workflow: [{step: a, tool: {kind: x}, next: {arcs: [{step: a}]}}]", "/workflow/0/next/arcs/0", "has no when"),
        ("executor: {spec: {final_step: a}}\nworkflow: [{step: a, next: {arcs: [{step: a}]}}]", "/workflow/0/next", "no effect"),
    ],
)  # fmt: skip
def test_a_warning_tells_what_is_seldom_meant(body: str, path: str, told: str) -> None:
    assert told in list_warnings(body)[path]


def test_branches_that_never_meet_are_a_warning() -> None:
    split = "workflow: [{step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}, %s]"
    apart = "{step: a, tool: {kind: noop}}, {step: b, tool: {kind: noop}}"
    meeting = (
        "{step: a, next: {arcs: [{step: c}]}}, {step: b, next: {arcs: [{step: c}]}}, {step: c, tool: {kind: noop}}"
    )
    assert "never meet" in list_warnings(split % apart)["/workflow/0/next"]
    assert list(list_warnings(split % meeting)) == ["/workflow/3"]
    assert "is reached from 2 steps" in list_warnings(split % meeting)["/workflow/3"]
    either = split.replace("inclusive", "exclusive").replace("{step: a}", "{step: a, when: ctx.x}")
    assert list_warnings(either % meeting) == {}  # there is one token
    joined = meeting.replace("{step: c, tool: {kind: noop}}", "{step: c, spec: {join: {}}, next: {arcs: [%s]}}, %s")
    again = (
        "{step: d, when: ctx.x}, {step: e, when: ctx.y}",
        "{step: d, next: {arcs: [{step: e}]}}, {step: e, tool: {kind: noop}}",
    )
    assert list_warnings(split % (joined % again)) == {}


def test_both_generations_of_names_are_one() -> None:
    older = "workflow: [{step: a, tool: {kind: x, args: {n: 1}, spec: {policy: {rules: [{then: {do: continue, set_ctx: {k: 1}, set_iter: {i: 2}}}]}}}}]"
    newer = "workflow: [{step: a, tool: {kind: x, input: {n: 1}, spec: {policy: {rules: [{then: {do: continue, set: {ctx.k: 1, iter.i: 2}}}]}}}}]"
    first, second = (compile_playbook(HEADER + text).steps[0].tasks[0] for text in (older, newer))
    assert first.fields == second.fields
    assert first.policy == second.policy
    assert [(a.scope, a.path) for a in first.policy.rules[0].then.set] == [("iter", ("i",)), ("ctx", ("k",))]  # type: ignore[union-attr]


def test_keys_without_a_scope_and_those_of_the_step_go_to_ctx() -> None:
    step = compile_playbook(
        HEADER + "workflow: [{step: a, tool: {kind: noop}, set: {k: 1, step.s: 2, ctx.a.b: 3}}]"
    ).steps[0]
    assert [(a.scope, a.path) for a in step.set] == [("ctx", ("k",)), ("ctx", ("s",)), ("ctx", ("a", "b"))]


@pytest.mark.parametrize(
    ("tool", "labels"),
    [
        ("{kind: noop}", ["a_task"]),
        ("{name: x, kind: noop}", ["x"]),
        (
            "[{kind: noop}, {name: x, kind: noop}, {y: {kind: noop, n: 1}}, {kind: noop}]",
            ["task_0", "x", "y", "task_3"],
        ),
    ],
)
def test_tasks_are_written_in_three_forms(tool: str, labels: list[str]) -> None:
    playbook = compile_playbook(HEADER + f"workflow: [{{step: a, tool: {tool}}}]")
    assert [task.label for task in playbook.steps[0].tasks] == labels


@pytest.mark.parametrize(
    "workbook",
    [
        "{tasks: {get: {kind: http, url: x, method: GET, spec: {retries: 1, deep: {a: 1}}}}}",
        "[{name: get, tool: {kind: http, url: x, method: GET, spec: {retries: 1, deep: {a: 1}}}}]",
    ],
)
def test_a_task_of_the_workbook_is_filled_in_and_its_use_wins(workbook: str) -> None:
    use = "{kind: workbook, task: get, method: POST, spec: {deep: {b: 2}}}"
    task = compile_playbook(HEADER + f"workbook: {workbook}\nworkflow: [{{step: a, tool: {use}}}]").steps[0].tasks[0]
    assert (task.label, task.kind) == ("a_task", "http")
    assert task.fields.source == {"url": "x", "method": "POST"}
    assert task.spec == {"retries": 1, "deep": {"a": 1, "b": 2}}


def test_the_configuration_of_tasks_is_merged_from_the_outside_in() -> None:
    body = """
    executor: {spec: {entry_step: a, tls: {verify: true, level: 1}, list: [1, 2]}}
    workflow:
    - step: a
      spec: {policy: {lifecycle: {timeout_s: 1.5}}, tls: {level: 2}}
      loop: {in: [1], iterator: x, spec: {mode: parallel, list: [3]}}
      tool: {kind: http, spec: {tls: {level: 3}, policy: {rules: []}}}
    """
    step = compile_playbook(HEADER + textwrap.dedent(body)).steps[0]
    assert step.tasks[0].spec == {"tls": {"verify": True, "level": 3}, "list": [3]}
    assert step.timeout_ms == 1_500


def test_defaults() -> None:
    playbook = compile_playbook(HEADER + STEP)
    assert (playbook.name, playbook.path, playbook.entry, playbook.final) == ("example", "example", "a", None)
    assert (playbook.failure_mode, playbook.on_quiescence, playbook.limits) == ("fail_on_any_error", "wait", Limits())


def test_a_join_waits_for_all_that_lead_to_it() -> None:
    body = "workflow: [{step: s, next: {arcs: [{step: a}, {step: m}]}}, {step: a, next: {arcs: [{step: m}]}}, {step: m, spec: {join: %s}}]"
    join = compile_playbook(HEADER + body % "{on_incomplete: fire}").by_name["m"].join
    assert join is not None
    assert (join.mode, join.steps, join.count, join.on_incomplete) == ("all", ("s", "a"), 2, "fire")
    some = compile_playbook(HEADER + body % "{mode: n, n: 1, steps: [a, s]}").by_name["m"].join
    assert some is not None
    assert (some.steps, some.count) == (("a", "s"), 1)


def test_a_pipeline_is_the_same_after_its_way_to_a_worker() -> None:
    policy = "{rules: [{when: outcome.status == 'error', then: {do: jump, to: previous}}, {else: {then: {do: break}}}]}"
    tool = f"[{{get: {{kind: http, args: {{u: '{{{{ args.u }}}}'}}}}}}, {{kind: py, spec: {{t: 1, policy: {policy}}}}}]"
    tasks = compile_playbook(HEADER + f"workflow: [{{step: a, tool: {tool}}}]").steps[0].tasks
    assert pipeline_from_document(pipeline_to_document(tasks)) == tasks
