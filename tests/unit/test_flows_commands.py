"""``statewright flows …``: flows checked, compiled, drawn and run from files."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from statewright.cli import main
from tests.commands import CommandRunner

TASKS = """
from decimal import Decimal
def double(value):
    return {"y": 2 * value["x"]}

def scale(value, parameters):
    return {"z": [one["y"] * parameters["by"] for one in value]}

def tax(value):
    return {"tax": value["price"] * Decimal("0.19"), "price": value["price"]}

def broken(value):
    raise RuntimeError("no luck")

TASKS = {"my:odd-name": lambda value: {"named": True}}
"""


def flows(*arguments: str, text: str = "") -> Result:
    return CommandRunner().invoke(main.program, ["flows", *arguments], input=text)


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    file = tmp_path / "tasks.py"
    file.write_text(TASKS)
    return str(file)


def test_lint_says_what_is_wrong_and_where(tmp_path: Path):
    good, bad = tmp_path / "good.flow", tmp_path / "bad.flow"
    good.write_text("A → B")
    bad.write_text("A →\n→ B")
    told = flows("lint", str(good), str(bad))
    assert told.exit_code == 1
    assert f"{good}: fine" in told.stdout
    assert f"{bad}:2:1: error SYNTAX: unexpected →; expected" in told.stdout


def test_warnings_fail_only_when_asked_to():
    text = ":x → A → :x ;\nB"
    assert flows("lint", "-", text=text).exit_code == 0
    assert flows("lint", "--strict", "-", text=text).exit_code == 1
    [report] = json.loads(flows("lint", "--json", "-", text=text).stdout)
    assert report["warnings"] == ["1:6 A.1 cannot be reached from the start"]


def test_compile_prints_the_graph():
    document = json.loads(flows("compile", "-", text="A → B").stdout)
    assert [node["kind"] for node in document["nodes"]] == ["start", "task", "task", "end"]
    assert document["edges"] == [[0, 1], [1, 2], [2, 3]]


def test_diagram_draws():
    assert flows("diagram", "--vertical", "-", text="A").stdout == (
        'stateDiagram-v2\n  state "A" as A.1\n  [*]-->A.1\n  A.1-->[*]\n'
    )


@pytest.mark.parametrize("command", ["compile", "diagram", "simulate"])
def test_a_text_that_is_no_flow_is_one_line(command: str):
    told = flows(command, "-", text="A → ?")
    assert told.exit_code == 1
    assert told.stderr == "error: -:1:6 unexpected the end of the text; expected an expression in back quotes\n"


def test_a_file_that_is_not_there_is_one_line():
    told = flows("lint", "nowhere.flow")
    assert told.exit_code == 1
    assert told.stderr.startswith("error: nowhere.flow cannot be read")


def test_a_file_of_tasks_that_is_not_there_is_told_without_the_path_of_python():
    told = flows("run", "-", "--tasks", "nowhere.py", text="A → B")
    assert (told.exit_code, told.stderr.strip()) == (1, "error: nowhere.py cannot be read: there is no such file")


def test_run_calls_functions_and_prints_the_result(tasks: str):
    text = "* double → scale (- by: 10 -)"
    told = flows("run", "-", "--tasks", tasks, "--input", '[{"x": 1.5}, {"x": 2}]', text=text)
    assert (told.exit_code, json.loads(told.stdout)) == (0, {"z": [30.0, 40]})


def test_run_finds_functions_for_names_that_are_no_identifiers(tasks: str):
    assert json.loads(flows("run", "-", "--tasks", tasks, text="my:odd-name").stdout) == {"named": True}


def test_run_has_exact_numbers_as_workers_have(tasks: str):
    told = flows("run", "-", "--tasks", tasks, "--input", '{"price": 12.50}', text="tax")
    assert (told.exit_code, told.stdout) == (0, '{"price":12.50,"tax":2.3750}\n')


def test_run_names_tasks_without_a_function_before_it_begins(tasks: str):
    told = flows("run", "-", "--tasks", tasks, text="double → what → why")
    assert told.exit_code == 1
    assert told.stderr.endswith("has no function for what, why\n")


def test_run_passes_on_what_a_service_would_wait_for(tasks: str):
    text = "wait:event (- event: paid -) → double → wait:delay (- duration: 9 -)"
    told = flows("run", "-", "--tasks", tasks, "--input", '{"x": 2}', text=text)
    assert json.loads(told.stdout) == json.loads(
        flows("run", "-", "--tasks", tasks, "--input", '{"x": 2}', text="double").stdout
    )


def test_lint_looks_at_the_parameters_of_built_in_tasks():
    told = flows("lint", "-", text="A → wait:event")
    assert (told.exit_code, told.stdout.startswith("-:1:5: ")) == (1, True), told.stdout


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "wait:dela (- duration: 1 -)",
            "wait:dela is no task of the service, so a worker has to do it; did you mean wait:delay?",
        ),
        ("wait:delay (- duraton: 1 -)", "duraton is no parameter of wait:delay; did you mean duration?"),
        ("wait:event (- {event: a, recept: false} -)", "recept is no parameter of wait:event; did you mean receipt?"),
        ("request:get (- {contenttype: a/b} -)", "no parameter of request:get; did you mean content_type?"),
    ],
)
def test_lint_tells_names_that_are_near_to_those_of_the_service(text: str, told: str):
    assert told in flows("lint", "-", text=f"A → {text}").stdout


def test_run_needs_no_file_where_the_service_does_all_tasks():
    assert json.loads(flows("run", "-", "--input", '{"x": 1}', text="wait:delay (- duration: 60 -)").stdout) == {"x": 1}
    told = flows("run", "-", text="price")
    assert (told.exit_code, "--tasks must name a Python file with functions for price" in told.output) == (1, True)


def test_run_tells_which_nodes_failed_and_why(tasks: str):
    told = flows("run", "-", "--tasks", tasks, text="broken ; broken")
    assert told.exit_code == 1
    assert told.stderr == "error: broken.1: RuntimeError: no luck; broken.2: RuntimeError: no luck\n"


def test_simulate_answers_as_it_is_told_and_shows_what_tasks_are_asked():
    stubs = json.dumps({"A": {"$each": [{"more": True}, {"more": False}]}})
    text = ":start → :again A :done → ? `$[?(@.more=true)]` B → :again ; :done → C"
    told = flows("simulate", "-", "--stubs", stubs, text=text.replace(":start → :again A", "S → :again A"))
    assert told.exit_code == 0, told.stderr
    assert told.stderr.splitlines()[:3] == ["S.1 <- {}", "A.2 <- {}", 'B.3 <- {"more": true}']
    assert json.loads(told.stdout) == {"more": False}


def test_simulate_can_fail_a_task():
    told = flows("simulate", "-", "--stubs", '{"A": {"$fail": "boom"}}', text="A")
    assert (told.exit_code, told.stderr.splitlines()[-1]) == (1, "error: A.1: boom")


@pytest.mark.parametrize(
    ("option", "value"), [("--input", "3"), ("--input", "{"), ("--stubs", "[]"), ("--stubs", "nothing")]
)
def test_values_that_cannot_be_used_are_one_line(option: str, value: str):
    told = flows("simulate", "-", option, value, text="A")
    assert told.exit_code == 1
    assert told.stderr.startswith(f"error: {option} is n")


@pytest.mark.parametrize("number", ["1e400", "0.1000000000000000000000001", "12345678901234567890123"])
def test_numbers_are_shown_as_they_were_given(number: str):
    told = flows("simulate", "-", "--input", f'{{"n": {number}}}', text="A")
    assert told.exit_code == 0, told.output
    assert told.stderr.lower() == f'a.1 <- {{"n": {number.replace("e", "e+")}}}\n'
    assert told.stdout.lower() == f'{{"n":{number.replace("e", "e+")}}}\n'


@pytest.mark.parametrize("option", ["--input", "--stubs"])
@pytest.mark.parametrize("number", ["1e6145", "9" * 4_001, "NaN", "Infinity"])
def test_numbers_that_the_service_refuses_are_refused_by_the_name_of_their_option(option: str, number: str):
    told = flows("simulate", "-", option, f'{{"A": {number}}}', text="A")
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith(f"error: {option} is no JSON: ")


def test_tasks_may_be_async_and_import_their_neighbours(tmp_path: Path):
    (tmp_path / "neighbour_of_tasks.py").write_text("async def double(value):\n    return {'y': 2 * value['x']}\n")
    file = tmp_path / "tasks.py"
    file.write_text("from neighbour_of_tasks import double\n")
    told = flows("run", "-", "--tasks", str(file), "--input", '{"x": 4}', text="double")
    assert json.loads(told.stdout) == {"y": 8}, told.stderr


def test_a_stub_of_an_unknown_task_is_refused():
    told = flows("simulate", "-", "--stubs", '{"fial": 1}', text="load → fail")
    assert (told.exit_code, told.stderr) == (1, "error: --stubs names no task of the flow: fial; it has fail, load\n")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("A → :x\nB → :x\n:x C", "a line break separates nothing: after a statement that ends in a label write ;"),
        ("A --> B", "an arrow is → or ->"),
        ("A => B", "an arrow is → or ->"),
        ("A → <b> → C", "a resource or a label at the end of an arrow ends its statement: the next one begins with it"),
        ("'''Says what.'''\n@flow orders\nA", "documentation stands after the declaration that it is about"),
    ],
)
def test_lint_gives_hints_on_what_beginners_stumble_over(text: str, hint: str):
    assert f": hint: {hint}\n" in flows("lint", "-", text=text).stdout
