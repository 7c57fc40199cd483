"""``statewright steps …``: definitions checked, drawn and played from files."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from statewright.cli import main
from tests.commands import CommandRunner

LOAN_CHAIN = Path(__file__).parent / "steps" / "loan_chain"
APPLICATION, DISBURSEMENT = str(LOAN_CHAIN / "application.json"), str(LOAN_CHAIN / "disbursement.json")

APPLICANT = {"applicantId": "APP-1", "loanAmount": 600_000_000, "applicantEmail": "a@example.com"}
STUBS: dict[str, Any] = {
    "jobs": {
        "validate-application": {},
        "credit-score": {"variables": {"creditScore": 720}},
        "fraud-screen": {"variables": {"fraudScore": 0.12}},
        "approve-loan": {"variables": {"loanId": "LOAN-1"}},
        "notify-approval-overdue": {},
    }
}
GREETING = {
    "id": "greet",
    "name": "Greet",
    "steps": [
        {"id": "hello", "name": "Say hello", "type": "SERVICE_TASK", "jobType": "greet", "nextStep": "end"},
        {"id": "end", "name": "Done", "type": "END"},
    ],
}


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CommandRunner().invoke(main.program, ["steps", *arguments], input=stdin)


@pytest.fixture
def greeting(tmp_path: Path) -> str:
    file = tmp_path / "greeting.json"
    file.write_text(json.dumps(GREETING))
    return str(file)


def test_a_chain_is_played_to_the_end_that_is_expected_with_timers_that_take_no_time():
    told = run(
        *("simulate", APPLICATION, "--chained", DISBURSEMENT),
        *("--variables", json.dumps(APPLICANT), "--stubs", json.dumps(STUBS)),
        *("--expect", "end-approved", "--expect", "end-disbursement-timeout"),
    )
    assert told.exit_code == 0, told.output
    assert "COMPLETED at end-disbursement-timeout" in told.stdout


def test_the_times_of_a_simulation_are_whole_however_narrow_the_terminal(
    greeting: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "40")
    told = run("simulate", greeting, "--at", "2026-06-01T09:00:00Z", "--stubs", '{"jobs": {"greet": {}}}')
    lines = [line for line in told.stdout.splitlines() if "2026-06-01T09:00:00Z" in line]
    assert len(lines) == 2, told.stdout
    assert all("COMPLETED" in line for line in lines)


def test_a_simulation_says_what_an_end_starts(tmp_path: Path):
    file = tmp_path / "first.json"
    file.write_text(json.dumps({**GREETING, "autoStartNextWorkflow": True, "nextWorkflowId": "second"}))
    told = run("simulate", str(file), "--stubs", '{"jobs": {"greet": {}}}')
    assert "COMPLETED at end, starts second" in told.stdout
    report = json.loads(run("simulate", str(file), "--json", "--stubs", '{"jobs": {"greet": {}}}').stdout)
    assert [one["chained"] for one in report["instances"]] == [True]


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path):
    file = tmp_path / "greeting.json"
    file.write_text(json.dumps(GREETING), "utf-8-sig")
    assert run("lint", str(file)).exit_code == 0


def test_numbers_of_a_simulation_keep_all_their_digits(greeting: str):
    exact = '{"points": 0.12345678901234567890123}'
    for shown in ([], ["--json"]):
        told = run("simulate", greeting, "--variables", exact, "--stubs", '{"jobs": {"greet": {}}}', *shown)
        assert '"points": 0.12345678901234567890123' in told.stdout


def test_an_end_that_is_not_expected_fails_the_command():
    told = run(
        *("simulate", APPLICATION, "--chained", DISBURSEMENT, "--expect", "end-rejected"),
        *("--variables", json.dumps(APPLICANT), "--stubs", json.dumps(STUBS)),
    )
    assert told.exit_code == 1
    assert "expected to end at end-rejected, not at end-approved, end-disbursement-timeout" in told.stderr


def test_a_simulation_is_told_as_json(greeting: str):
    told = run(
        *("simulate", greeting, "--json", "--at", "2026-06-01T09:00:00Z", "--business-key", "K"),
        *("--stubs", '{"jobs": {"greet": {"variables": {"said": "hello"}, "after": "PT5S"}}}'),
    )
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    assert (report["stopped"], report["clock"]) == ("at rest", "2026-06-01T09:00:05Z")
    [instance] = report["instances"]
    assert (instance["status"], instance["endedAtStep"], instance["businessKey"]) == ("COMPLETED", "end", "K")
    assert instance["variables"] == {"said": "hello"}
    assert [line["stepId"] for line in instance["history"]] == ["hello", "end"]


@pytest.mark.parametrize("option", ["--variables", "--stubs"])
def test_numbers_that_the_service_refuses_are_refused_by_the_name_of_their_option(greeting: str, option: str):
    told = run("simulate", greeting, option, '{"n": 1e6145}')
    assert told.exit_code == 1
    assert option in told.stderr
    assert "number has an exponent outside" in told.stderr


def test_an_instance_that_fails_fails_the_command(greeting: str):
    told = run("simulate", greeting, "--stubs", '{"jobs": {"greet": {"error": "no voice"}}}')
    assert told.exit_code == 1
    assert "FAILED at hello" in told.stdout
    assert "no voice" in told.stdout


def test_an_instance_that_nobody_works_for_is_left_where_it_is(greeting: str):
    told = run("simulate", greeting)
    assert told.exit_code == 0
    assert "ACTIVE at hello" in told.stdout


def test_variables_and_stubs_may_stand_in_files(greeting: str, tmp_path: Path):
    (tmp_path / "variables.json").write_text('{"name": "Ada"}')
    (tmp_path / "stubs.json").write_text('{"jobs": {"greet": {}}}')
    files = "--variables", f"@{tmp_path}/variables.json", "--stubs", f"@{tmp_path}/stubs.json"
    told = run("simulate", greeting, "--json", *files)
    assert json.loads(told.stdout)["instances"][0]["variables"] == {"name": "Ada"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--variables", "[]"], "--variables must be a JSON object"),
        (["--variables", "{"], "--variables: "),
        (["--stubs", '{"workers": {}}'], 'unknown field "workers"'),
        (["--stubs", '{"jobs": {"greet": {"after": "5 s"}}}'], 'invalid ISO-8601 duration "5 s"'),
        (["--at", "noon"], '--at: "noon" is no RFC 3339 instant'),
        (["--variables", "@missing.json"], "missing.json"),
    ],
)
def test_what_cannot_be_read_is_named(greeting: str, arguments: list[str], problem: str):
    told = run("simulate", greeting, *arguments)
    assert told.exit_code == 1
    assert told.stderr.startswith("error: ")
    assert problem in told.stderr


def test_lint_warns_without_failing_unless_it_is_strict():
    told = run("lint", APPLICATION)
    assert told.exit_code == 0
    assert 'step "route-application": no branch is certain to match' in told.stdout
    assert run("lint", APPLICATION, "--strict").exit_code == 1


def test_lint_fails_with_all_that_an_upload_would_be_refused_for(tmp_path: Path):
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(GREETING | {"id": "my flow", "name": ""}))
    told = run("lint", str(file))
    assert told.exit_code == 1
    assert 'id "my flow" must match' in told.stdout
    assert "name is required" in told.stdout


def test_lint_tells_json_of_several_files_and_standard_input(greeting: str):
    told = run("lint", "--json", greeting, "-", stdin="{")
    assert told.exit_code == 1
    fine, broken = json.loads(told.stdout)
    assert fine == {"file": greeting, "id": "greet", "error": None, "warnings": []}
    assert broken["file"] == "-"
    assert broken["error"].startswith("parse error: parse: ")


def test_a_definition_is_drawn_from_standard_input():
    told = run("mermaid", "-", stdin=json.dumps(GREETING))
    assert told.exit_code == 0
    assert told.stdout.splitlines() == [
        "flowchart TD",
        '    s0["Say hello"]',
        "    s0 --> s1",
        '    s1((("Done")))',
    ]


def test_a_definition_that_would_be_refused_is_neither_drawn_nor_played(tmp_path: Path):
    file = tmp_path / "empty.json"
    file.write_text("{}")
    for command in ("mermaid", "simulate"):
        told = run(command, str(file))
        assert told.exit_code == 1
        assert "id is required" in told.stderr
