"""``statewright playbooks …``: playbooks checked, run and simulated from files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from statewright.cli import main

TEXT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: example}
workload: {n: 1}
workflow:
- step: double
  tool:
  - name: compute
    kind: python
    input: {n: "{{ workload.n }}"}
    spec: {policy: {rules: [{when: outcome.error.status == 503, then: {do: retry, attempts: 2}}]}}
  next:
    arcs:
    - {step: show, when: event.name == 'step.done', args: {n: "{{ results.double }}"}}
    - {step: broken, when: event.name == 'step.failed'}
- step: show
  tool: {name: show, kind: my-printer, n: "{{ args.n }}"}
- step: broken
  tool: {kind: noop}
"""
TASKS = """
def python(fields):
    return fields["input"]["n"] * 2

async def my_printer(fields):
    return f"it is {fields['n']}"
"""


def playbooks(*arguments: str, text: str = TEXT) -> Result:
    return CliRunner().invoke(main.program, ["playbooks", *arguments], input=text)


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    file = tmp_path / "tasks.py"
    file.write_text(TASKS)
    return str(file)


def test_lint_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(TEXT)
    bad.write_text(TEXT.replace("step: broken, when", "step: brocken, when"))
    told = playbooks("lint", str(good), str(bad))
    assert told.exit_code == 1
    assert f"{good}: fine" in told.stdout
    assert f"{bad}:16:8: error /workflow/0/next/arcs/1/step: must be the name of a step" in told.stdout


def test_warnings_fail_only_when_asked_to() -> None:
    text = TEXT + "- step: nowhere\n  tool: {kind: noop}\n"
    assert playbooks("lint", "-", text=text).exit_code == 0
    assert playbooks("lint", "--strict", "-", text=text).exit_code == 1
    [report] = json.loads(playbooks("lint", "--json", "-", text=text).stdout)
    assert report["warnings"] == [{"line": 21, "column": 3, "path": "/workflow/3", "message": "is reached by no arc"}]


def test_lint_names_the_line_of_what_is_no_yaml() -> None:
    assert "line 2, column 1" in playbooks("lint", "-", text="a: 1\na: 2\n").stdout


def test_run_calls_the_functions_of_a_file(tasks: str) -> None:
    ran = playbooks("run", "-", "--tasks", tasks, "--workload", '{"n": 21}')
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["status"] == "success"
    log = playbooks("run", "-", "--tasks", tasks, "--workload", '{"n": 21}', "--log").stdout.splitlines()
    done = [event for event in map(json.loads, log) if event["event_type"] == "step.done"]
    assert [event["payload"]["result"] for event in done] == [42, "it is 42"]


def test_an_exception_is_an_error_of_its_task(tmp_path: Path) -> None:
    file = tmp_path / "tasks.py"
    file.write_text(TASKS.replace("return fields", "raise ValueError(1)\n    return fields"))
    ran = playbooks("run", "-", "--tasks", str(file), "--log")
    assert '"code":"ValueError"' in ran.stdout
    assert ran.exit_code == 0, "the failure is handled by a guarded arc"


def test_a_kind_without_a_function_is_told_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "tasks.py"
    file.write_text("")
    told = playbooks("run", "-", "--tasks", str(file))
    assert (told.exit_code, "no function for my-printer, python" in told.output) == (1, True)


def test_simulate_plays_stubs_and_shows_what_tasks_are_asked() -> None:
    stubs = {"compute": {"$each": [{"$fail": {"kind": "http", "status": 503}}, 7]}, "my-printer": "shown"}
    played = playbooks("simulate", "-", "--stubs", json.dumps(stubs))
    assert played.exit_code == 0, played.output
    asked = [line for line in played.stderr.splitlines() if "<-" in line]
    assert asked == ['double.compute <- {"input": {"n": 1}}'] * 2 + ['show.show <- {"n": 7}']


def test_simulate_fails_where_the_execution_does() -> None:
    text = TEXT.replace("- {step: broken, when: event.name == 'step.failed'}", "")
    played = playbooks("simulate", "-", "--stubs", '{"python": {"$fail": "no luck"}}', text=text)
    assert played.exit_code == 1
    assert json.loads(played.stdout)["status"] == "failed"
    assert "no luck" in played.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--stubs", '{"nobody": 1}'], "names no task and no kind of the playbook: nobody"),
        (["--workload", "[]"], "--workload is no JSON object"),
        (["--ctx", "{"], "--ctx is no JSON"),
    ],
)
def test_what_cannot_be_played_is_told(arguments: list[str], told: str) -> None:
    played = playbooks("simulate", "-", *arguments)
    assert (played.exit_code, told in played.output) == (1, True)
