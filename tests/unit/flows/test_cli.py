"""``statewright flows``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from statewright.cli import main


def flows(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main.program, ["flows", *arguments], input=text)


def test_lint_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.flow", tmp_path / "bad.flow"
    good.write_text("A → B")
    bad.write_text("A →\n→ B")
    result = flows("lint", str(good), str(bad))
    assert result.exit_code == 1
    assert f"{good}: fine" in result.stdout
    assert f"{bad}:2:1: error SYNTAX: found →, expected a name" in result.stdout


def test_warnings_fail_only_when_asked_to() -> None:
    text = ":x → A → :x ;\nB"
    assert flows("lint", "-", text=text).exit_code == 0
    assert flows("lint", "--strict", "-", text=text).exit_code == 1
    [report] = json.loads(flows("lint", "--json", "-", text=text).stdout)
    assert [warning["code"] for warning in report["warnings"]] == ["UNREACHABLE"]


def test_compile_prints_the_graph() -> None:
    document = json.loads(flows("compile", "-", text="A → B").stdout)
    assert [node["kind"] for node in document["nodes"]] == ["start", "task", "task", "end"]
    assert document["edges"] == [[0, 1], [1, 2], [2, 3]]


def test_diagram_draws() -> None:
    assert flows("diagram", "--vertical", "-", text="A").stdout == (
        'stateDiagram-v2\n  state "A" as A.1\n  [*]-->A.1\n  A.1-->[*]\n'
    )


@pytest.mark.parametrize("command", ["compile", "diagram"])
def test_a_text_that_is_no_flow_is_one_line(command: str) -> None:
    result = flows(command, "-", text="A → ?")
    assert result.exit_code == 1
    assert result.stderr == "error: -:1:6 found the end of the text, expected an expression in back quotes\n"


def test_a_file_that_is_not_there_is_one_line() -> None:
    result = flows("lint", "nowhere.flow")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: nowhere.flow cannot be read")
