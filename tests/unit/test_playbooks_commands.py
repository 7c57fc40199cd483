"""``statewright playbooks …``: playbooks checked, run and simulated from files."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import Result

from statewright.cli import main
from statewright.ids import system_clock
from statewright.instants import parse_instant, to_rfc3339
from tests.commands import CommandRunner

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


ROOT = Path(__file__).parents[2]
PUBLIC = ROOT / "tests" / "conformance" / "playbooks" / "public"
GUIDE = ROOT / "docs" / "guides" / "public-playbooks.md"


def playbooks(*arguments: str, text: str = TEXT) -> Result:
    return CommandRunner().invoke(main.program, ["playbooks", *arguments], input=text)


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


def test_lint_names_the_kinds_that_need_a_worker(tmp_path: Path) -> None:
    kinds = tmp_path / "kinds.yaml"
    kinds.write_text("metadata: {name: x}\nworkflow: [{step: s, tool: [{kind: noop}, {kind: python}, {kind: own}]}]")
    told = playbooks("lint", str(kinds)).stdout
    assert f"{kinds}: needs a worker for python, own; `statewright tools --kinds python` is one\n" in told
    [report] = json.loads(playbooks("lint", "--json", str(kinds)).stdout)
    assert report["workerKinds"] == ["python", "own"]
    kinds.write_text("metadata: {name: x}\nworkflow: [{step: s, tool: {kind: noop}}]")
    assert "worker" not in playbooks("lint", str(kinds)).stdout


def test_lint_names_the_line_of_what_is_no_yaml() -> None:
    assert "line 2, column 1" in playbooks("lint", "-", text="a: 1\na: 2\n").stdout


def test_run_needs_no_file_where_no_task_needs_a_function() -> None:
    playbook = "metadata: {name: x}\nworkflow: [{step: s, tool: {kind: noop}}]"
    assert json.loads(playbooks("run", "-", text=playbook).stdout)["status"] == "success"
    refused = playbooks("run", "-", text=playbook.replace("noop", "python"))
    assert (refused.exit_code, "--tasks must name a Python file with functions for python" in refused.output) == (
        1,
        True,
    )


def test_run_passes_over_waits_and_does_no_other_playbooks() -> None:
    waits = "{step: a, tool: {kind: wait, seconds: 9000}, next: {arcs: [{step: b}]}}"
    other = "{step: b, tool: [{name: rest, kind: wait, seconds: 9000}, {name: p, kind: playbook, path: x}]}"
    ran = playbooks("run", "-", "--log", text=f"metadata: {{name: x}}\nworkflow: [{waits}, {other}]")
    ended = [
        event
        for event in map(json.loads, ran.stdout.splitlines())
        if event["event_type"] in ("step.done", "step.failed")
    ]
    assert [event["payload"].get("error", {}).get("kind") for event in ended] == [None, "no_handler"]


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


def test_now_of_a_simulation_is_now() -> None:
    text = "metadata: {name: x}\nworkflow: [{step: s, tool: {kind: python, at: '{{ now() }}'}}]"
    before = to_rfc3339(system_clock())
    played = playbooks("simulate", "-", text=text)
    told = re.fullmatch(r's\.s_task <- {"at": "(.*)"}\n', played.stderr)
    assert told is not None, played.stderr
    assert parse_instant(before) <= parse_instant(told[1]) <= system_clock() + 1_000_000
    log = [json.loads(line) for line in playbooks("simulate", "-", "--log", text=text).stdout.splitlines()]
    instants = [parse_instant(event["timestamp"]) for event in log]
    assert parse_instant(told[1]) < instants[0]
    assert instants == sorted(instants)


def test_numbers_are_shown_as_they_were_given() -> None:
    text = "metadata: {name: x}\nworkflow: [{step: s, tool: {kind: python, n: '{{ workload.n }}'}}]"
    played = playbooks("simulate", "-", "--workload", '{"n": 0.1000000000000000000000001}', text=text)
    assert played.stderr == 's.s_task <- {"n": 0.1000000000000000000000001}\n'


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
        (["--ctx", '{"n": 1e6145}'], "--ctx is no JSON: "),
        (["--workload", '{"n": 1e6145}'], "--workload is no JSON: "),
        (["--stubs", '{"compute": 1e6145}'], "--stubs is no JSON: "),
    ],
)
def test_what_cannot_be_played_is_told(arguments: list[str], told: str) -> None:
    played = playbooks("simulate", "-", *arguments)
    assert (played.exit_code, told in played.output) == (1, True)


def test_the_guide_brings_public_playbooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PUBLIC, tmp_path / "playbooks")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^statewright playbooks (.*)$", GUIDE.read_text(), re.MULTILINE)
    surveyed, converted, checked = (playbooks(*command.split()) for command in commands)
    count = len(list(PUBLIC.iterdir()))
    assert surveyed.exit_code == converted.exit_code == 1, "one of the files needs a hand"
    assert surveyed.stdout.startswith(f"files: all {count}, convertible {count - 2}, findings 1, ok 1\n")
    assert "; `statewright tools --kinds python,shell,postgres,duckdb` is one\n" in surveyed.stdout
    assert "beyond.yaml: error /workflow/0/case/0/then/call: cannot be converted" in converted.stderr
    assert checked.exit_code == 0, checked.output
    assert playbooks("lint", "--public", "converted").stdout.startswith(f"files: all {count}, ok {count - 1}, findings")
    assert Path("converted/today.yaml").read_text() == (PUBLIC / "today.yaml").read_text()


def test_a_survey_is_one_json_document_for_programs() -> None:
    told = playbooks("lint", "--public", "--json", str(PUBLIC / "case.yaml"))
    survey = json.loads(told.stdout)
    assert (told.exit_code, survey["totals"]["worker_kinds"]) == (0, {"postgres": 1, "shell": 1})
    assert survey["files"][0]["credentials"] == ["pg_main"]


def test_a_playbook_is_converted_to_the_standard_output() -> None:
    told = playbooks("convert", "-", text=TEXT.replace("tool: {kind: noop}", "type: end"))
    assert told.exit_code == 0, told.output
    assert playbooks("lint", "-", text=told.stdout).exit_code == 0


def test_a_json_file_stays_one(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    steps = [{"step": "a", "next": "b"}, {"step": "b", "type": "end"}]
    file.write_text(json.dumps({"metadata": {"name": "a"}, "workflow": steps}))
    assert playbooks("convert", str(file), "--to", str(tmp_path / "new")).exit_code == 0
    assert json.loads((tmp_path / "new" / "a.json").read_text())["workflow"][0]["next"] == {"arcs": [{"step": "b"}]}


def test_what_is_not_converted_is_told(tmp_path: Path) -> None:
    file = tmp_path / "credential.yaml"
    file.write_text("kind: Credential\n")
    assert playbooks("convert", str(file)).exit_code == 1
    assert "expected --to DIR" in playbooks("convert", str(tmp_path)).output
    left_out = playbooks("convert", str(tmp_path), "--to", str(tmp_path / "new"))
    assert (left_out.exit_code, (tmp_path / "new").exists()) == (0, False)
    (tmp_path / "old.yaml").write_text(TEXT.replace("tool: {kind: noop}", "type: end"))
    assert "is the file that is converted" in playbooks("convert", str(tmp_path), "--to", str(tmp_path)).output
