"""Declaring functions, and finding the node that a command names."""

import subprocess
import sys
from pathlib import Path

import pytest

from statewright import sdk
from statewright.sdk.cli import UnusableTarget, find_node, run
from statewright.sdk.node import Node, split_tags


def test_the_sdk_comes_without_the_interpreters_of_languages():
    code = (
        "import sys, statewright.sdk as sdk\n"
        "def list_interpreters(): return {n.split('.')[1] for n in sys.modules if n.startswith('statewright.')} & "
        "{'playbooks', 'net', 'evaluation'}\n"
        "before = list_interpreters()\n"
        "sdk.task_kind('price')(print)\n"
        "print(sorted(before), sorted(list_interpreters()))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[] ['evaluation', 'net', 'playbooks']"


def test_decorators_register_by_kind_and_name_and_return_the_function():
    node = Node()

    @node.processor("price")
    def price() -> None: ...

    @node.criterion("price")
    def worthy() -> bool:
        return True

    @node.function("due")
    async def due() -> None: ...

    assert [(function.kind, function.name) for function in node.functions] == [
        ("processor", "price"),
        ("criteria", "price"),
        ("function", "due"),
    ]
    assert worthy() is True


def test_one_function_may_serve_under_several_names():
    node = Node()

    @node.processor("a")
    @node.processor("b")
    def both() -> None: ...

    assert [function.name for function in node.functions] == ["b", "a"]


def test_a_name_can_be_taken_once():
    node = Node()
    node.processor("price")(lambda: None)
    with pytest.raises(ValueError, match="already a processor named price"):
        node.processor("price")


def test_module_level_decorators_register_with_the_default_node():
    assert sdk.processor.__self__ is sdk.default_node
    assert sdk.criterion.__self__ is sdk.default_node


@pytest.mark.parametrize(
    ("tags", "listed"),
    [("", ()), ("a", ("a",)), (" a, b;c,", ("a", "b", "c")), (["a", " b "], ("a", "b")), ((), ())],
)
def test_tags_are_one_text_or_several(tags, listed):
    assert split_tags(tags) == listed


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory whose modules can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_target_names_a_node_in_a_module_of_the_current_directory(here: Path):
    (here / "prizes.py").write_text("from statewright.sdk import Node\nfirst, second = Node('a'), Node('b')\n")
    assert find_node("prizes:second") is not find_node("prizes:first")


def test_the_only_node_of_a_module_needs_no_name(here: Path):
    (here / "lonely.py").write_text("from statewright.sdk import Node\napp = Node('a')\nalias = app\n")
    assert find_node("lonely") is find_node("lonely:app")


def test_a_module_without_a_node_stands_for_the_default_one(here: Path, monkeypatch: pytest.MonkeyPatch):
    (here / "plain.py").write_text("x = 1\n")
    monkeypatch.setattr(sdk.default_node, "_functions", {("processor", "x"): object()})
    assert find_node("plain") is sdk.default_node


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (":app", '":app" names no module: it is MODULE:NODE'),
        (".app:node", '".app:node" names no module: it is MODULE:NODE'),
        ("nowhere:app", "there is no module nowhere"),
        ("deep.nowhere:app", "there is no module deep.nowhere"),
        ("two.py:a", "there is no module two.py; a module is named without .py: two"),
        ("two", "two has 2 nodes; name one as two:name"),
        ("none", "none has no nodes; name one as none:name"),
        ("two:x", "two:x is not a Node"),
        ("two:nosuch", "there is no nosuch in two; its nodes are a, b"),
        ("none:nosuch", "there is no nosuch in none"),
    ],
)
def test_a_target_that_names_no_node_is_refused(here: Path, target: str, reason: str):
    (here / "two.py").write_text("from statewright.sdk import Node\na, b = Node(), Node()\nx = 1\n")
    (here / "none.py").write_text("")
    with pytest.raises(UnusableTarget) as refused:
        find_node(target)
    assert str(refused.value) == reason


def test_a_module_that_lacks_a_module_itself_says_which(here: Path):
    (here / "broken.py").write_text("import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        find_node("broken")


@pytest.mark.parametrize(
    ("source", "endpoint", "complaint"),
    [
        ("app = Node()", "ftp://x", "not an endpoint"),
        (
            "app = Node()\napp.processor('p')(lambda a, b, c: None)",
            None,
            "p: a function takes a document and a context",
        ),
    ],
)
def test_the_command_reports_what_it_cannot_run_in_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], source: str, endpoint: str | None, complaint: str
):
    module = here / f"unusable_{len(source)}.py"
    module.write_text(f"from statewright.sdk import Node\n{source}\n")
    assert run(f"{module.stem}:app", endpoint=endpoint) == 2
    assert capsys.readouterr().err.startswith(f"statewright node: {complaint}")
