"""What is counted changes with what it counts: each figure on a small checkout that has some of it."""

from pathlib import Path

import pytest

from scripts import house_figures
from scripts.house_figures import CONCERNS, FIGURES, LANGUAGE_WORDS, measure_house
from scripts.read_tree import count_code_lines
from tests.unit.figures.conftest import Checkout

ROUTE = (
    'Route(method="{}", path=base + "{}", query=(Query("a", "b", "c"), Query("d", "e", "f")), reply=Reply(view={}))\n'
)


def test_lines_of_code_are_neither_blank_nor_comments_nor_docstrings() -> None:
    text = (
        '"""What it is.\n\nMore.\n"""\n\n# why\nLIMIT = 1  # of what\n"""Its docstring."""\ntotal = (\n    LIMIT\n)\n'
    )
    assert count_code_lines(text) == 4


def test_generated_modules_are_left_out(checkout: Checkout) -> None:
    modules = checkout({"proto/a_pb2.py": "x = 1\n", "engine/run.py": "x = 1\n"})
    assert [module.path for module in modules] == ["engine/run.py"]


def test_words_are_those_of_names_and_texts(checkout: Checkout) -> None:
    modules = checkout(
        {
            "engine/run.py": '''
                """Incidents of a docstring."""
                from statewright.operations.incidents import IncidentRow  # an incident
                def report(keyed: KeyedRequest) -> None:
                    raise Failure("no incident", suspension=keyed.lane)
            '''
        }
    )
    # IncidentRow; the argument, its type and its use; the text; the keyword
    assert house_figures.count_words(modules, CONCERNS) == 6


def test_the_modules_of_a_concern_may_speak_of_it(checkout: Checkout) -> None:
    paths = [
        "engine/run.py",
        "services/idempotency/keyed.py",
        "services/incident_reports.py",
        "services/ops/suspensions.py",
        "services/processes/jobs.py",
        "services/writing.py",
        "storage/rows.py",
    ]
    modules = checkout(dict.fromkeys(paths, "x = 1\n"))
    crossed = house_figures.select_crossed(modules)
    assert [module.path for module in crossed] == ["engine/run.py", "services/processes/jobs.py", "services/writing.py"]
    assert [module.path for module in house_figures.select_crossed_services(modules)] == ["services/writing.py"]


def test_adapters_are_modules_named_after_a_language_outside_its_package(checkout: Checkout) -> None:
    modules = checkout(
        {
            "steps/lint.py": "x = 1\n",
            "api/http/steps/jobs.py": "x = 1\ny = 2\n",
            "services/flows/events.py": "x = 1\n",
            "cli/playbooks.py": "x = 1\n",
            "cli/workflows.py": "x = 1\n",
            "services/overflow.py": "x = 1\n",
        }
    )
    assert house_figures.count_adapter_lines(modules) == 4


def test_equal_shapes_differ_in_names_and_constants_only(checkout: Checkout) -> None:
    def write(name: str, last: str) -> str:
        return f"def {name}(a: int) -> int:\n    b = a\n    c = b\n    d = c\n    e = d\n    f = e\n    {last}\n"

    def count(*texts: str) -> int:
        return house_figures.count_equal_shapes(one.tree for one in checkout({"a.py": "".join(texts)}))

    assert count(write("one", "return f"), write("two", "return g")) == 1
    assert count(write("one", "return f"), write("two", "return g"), write("three", "return h")) == 2
    assert count(write("one", "return f"), write("two", "return -g")) == 0
    assert count(write("one", "return f")) == 0


def test_a_row_of_a_table_has_a_shape_and_is_counted_once(checkout: Checkout) -> None:
    rows = ROUTE.format("GET", "/a", "One") + ROUTE.format("PUT", "/b", "Two")
    modules = checkout({"a.py": rows + "class A:\n    x: int\n    y: int\n\nclass B:\n    x: int\n    y: int\n"})
    assert house_figures.count_equal_shapes(module.tree for module in modules) == 1


def test_the_closure_of_a_module_is_what_comes_with_it(checkout: Checkout) -> None:
    modules = checkout(
        {
            "__init__.py": "",
            "sdk/__init__.py": "from statewright.sdk.node import Node\n",
            "sdk/node.py": "def run():\n    from statewright.net import calls\n",
            "net/__init__.py": "",
            "net/calls.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import statewright.engine\n",
            "engine/__init__.py": "",
        }
    )
    assert house_figures.list_closure(modules, "statewright.sdk") == {
        "statewright",
        "statewright.sdk",
        "statewright.sdk.node",
        "statewright.net",
        "statewright.net.calls",
    }


def test_a_class_name_is_met_twice_where_a_package_imports_its_double(checkout: Checkout) -> None:
    modules = checkout(
        {
            "storage/rows.py": "class Incident: ...\nclass Job: ...\n",
            "services/jobs.py": "from statewright.storage.rows import Incident\nclass Job: ...\n",
            "sdk/incidents.py": "class Incident: ...\n",
        }
    )
    assert house_figures.count_class_doubles(modules) == 1


EACH = {
    "records.define_object": ("api/a.py", "x = define_object('')\n"),
    "records.describe_functions": ("api/a.py", "def _describe_job(): ...\n"),
    "records.places_of_a_member": ("storage/a.sql", "SELECT first_at\n"),
    "records.places_of_an_operation": ("cli/a.py", "resolve_incident()\n"),
    "languages.adapter_lines": ("cli/flows.py", "x = 1\n"),
    "languages.names_in_host": ("services/processes/a.py", "x = 'flow.cancel'\n"),
    "concerns.words_in_engine": ("engine/a.py", "x = keyed\n"),
    "concerns.words_in_services": ("services/a.py", "x = keyed\n"),
    "concerns.words_in_host": ("services/processes/a.py", "x = keyed\n"),
    "concerns.extension_reads": ("services/a.py", "runtime.extensions.get(Egress)\n"),
    "concerns.runtime_fields": ("services/runtime.py", "class Runtime(Struct):\n    pool: Pool\n"),
    "concerns.mutated_failures": ("engine/a.py", "failure.message = ''\n"),
    "libraries.path_matching": ("api/http/router.py", "parts = path.split('/')\n"),
    "libraries.request_types": ("api/http/a.py", "class LateRequest: ...\n"),
    "console.reads_by_name": ("console/a.py", "x = get_text(document, 'id')\n"),
    "console.console_lines": ("console/a.py", "x = 1\n"),
    "kernel.names_in_net": ("net/a.py", "class PlaybookNode: ...\n"),
    "files.loose_modules": ("lru.py", "x = 1\n"),
    "loop.files_taking_turns": ("engine/a.py", "run_by_size(x)\n"),
    "loop.sdk_closure": ("sdk/__init__.py", "x = 1\n"),
    "files.files": ("engine/a.py", "x = 1\n"),
    "size.code_lines": ("engine/a.py", "x = 1\n"),
    "size.longest_file": ("engine/a.py", "x = 1\n"),
}


@pytest.mark.parametrize(("figure", "path", "text"), [(name, *file) for name, file in EACH.items()])
def test_a_figure_counts_what_it_says(checkout: Checkout, tmp_path: Path, figure: str, path: str, text: str) -> None:
    group, name = figure.split(".")
    checkout({})
    assert measure_house(tmp_path)[group][name] == 0
    checkout({path: text})
    assert measure_house(tmp_path)[group][name] == 1


def test_what_a_browser_sends_is_not_json_of_the_api(checkout: Checkout) -> None:
    modules = checkout({"console/a.py": "a = form.get('x')\nb = reply['x']\nc = reply.get('y')\nreply['z'] = 1\n"})
    assert house_figures.count_reads_by_name(modules) == 2


def test_shares_and_means_follow_the_files(checkout: Checkout, tmp_path: Path) -> None:
    checkout({"a/one.py": "x = 1\n" * 50, "b/two.py": "x = 1\n" * 10})
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("x = 1\n" * 30)
    found = measure_house(tmp_path)
    assert found["files"]["mean_code_lines"] == 30
    assert found["files"]["small_files_percent"] == 50
    assert found["size"]["tests_per_code"] == 0.5


def test_distributions_beside_the_product_have_figures_of_their_own(checkout: Checkout, tmp_path: Path) -> None:
    checkout({"a.py": "x = 1\n"})
    before = measure_house(tmp_path)
    assert before["packages"] == {"code_lines": 0, "files": 0, "equal_shapes": 0, "tests_per_code": 0}
    shape = "def {}(a: int) -> int:\n    b = a\n    c = b\n    d = c\n    e = d\n    f = e\n    return f\n"
    for path in ("src/a_b/one.py", "src/a_b/two.py", "tests/unit/test_one.py"):
        file = tmp_path / "packages" / "a-b" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(shape.format("some"))
    found = {"code_lines": 14, "files": 2, "equal_shapes": 1, "tests_per_code": 0.5}
    assert measure_house(tmp_path) == before | {"packages": found}


def test_a_file_name_that_ten_have_is_frequent(checkout: Checkout) -> None:
    files = {f"a{n}/{name}.py": "x = 1\n" for n in range(10) for name in ("__init__", "models")}
    assert house_figures.count_frequent_file_names(checkout(files)) == 1
    assert house_figures.count_frequent_file_names(checkout(files)[2:]) == 0


def test_every_figure_is_tried_here() -> None:
    elsewhere = {"size.equal_shapes", "size.tests_per_code", "files.mean_code_lines", "files.small_files_percent"}
    elsewhere |= {"files.class_doubles", "files.frequent_file_names"}
    elsewhere |= {f"packages.{name}" for name in ("code_lines", "files", "equal_shapes", "tests_per_code")}
    assert {f"{figure.group}.{figure.name}" for figure in FIGURES} == EACH.keys() | elsewhere


def test_step_is_a_word_of_the_host() -> None:
    assert "step" not in LANGUAGE_WORDS
