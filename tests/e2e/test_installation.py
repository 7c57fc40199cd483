"""`pip install statewright` is the SDK and the client commands; the service comes with the extra `server`."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pytest

from tests.builders import SAMPLE, a_processor, a_workflow, manual
from tests.e2e.program import PATIENCE_S, Program, environment, started
from tests.installation import SERVER_ONLY, without_server
from tests.service import eventually

ENTRY = "import sys; from statewright.cli.main import main; sys.path.insert(0, '.'); main()"
"""What the installed script runs."""

NODE = """
from statewright.sdk import Context, Node

node = Node(tags=["node"])


@node.processor("enrich")
def enrich(prize: dict[str, object], context: Context) -> dict[str, object]:
    context.client.create("notice", 1, {"text": "enriched"})
    return prize | {"seen": True}
"""

TESTED = """
from statewright.sdk.testing import FakeEngine

from a_node import node

outcome = FakeEngine(node).process("enrich", {"year": 1})
assert outcome.document == {"year": 1, "seen": True}, outcome
"""

DEFINITION = {"id": "one", "name": "One step", "steps": [{"id": "end", "name": "End", "type": "END"}]}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an installation without the extra."""
    return without_server(tmp_path_factory.mktemp("installation") / "venv")


def run(python: Path, home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A program of that installation, run to its end."""
    return subprocess.run(
        [python, *arguments],
        cwd=home,
        env=environment(home, {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_nothing_of_the_server_is_installed(python: Path, tmp_path: Path) -> None:
    [site] = python.parents[1].glob("lib/python*/site-packages")
    for name in SERVER_ONLY:
        tops = {file.parts[0] for file in metadata.distribution(name).files or () if file.suffix == ".py"}
        assert not [top for top in tops - {".."} if (site / top).exists()], name
    told = run(python, tmp_path, "-c", "import statewright.app").stderr
    assert re.search(rf"No module named '({'|'.join(SERVER_ONLY)})'", told), told


def test_a_node_is_tested_without_the_server(python: Path, tmp_path: Path) -> None:
    (tmp_path / "a_node.py").write_text(NODE)
    told = run(python, tmp_path, "-c", TESTED)
    assert (told.returncode, told.stderr) == (0, "")


SIMULATE = ("ops", "workflow", "simulate", "{}", "--model", "m/1", "--sample", "{}")


@pytest.mark.parametrize("command", ["serve", "migrate", "openapi", "simulate --sample"])
def test_a_command_of_the_service_says_what_is_missing(python: Path, tmp_path: Path, command: str) -> None:
    words = SIMULATE if command.startswith("simulate") else (command,)
    told = run(python, tmp_path, "-c", ENTRY, *words)
    assert (told.returncode, told.stdout) == (1, "")
    missing = re.search(r"not installed here \((\w+)\)", told.stderr)
    assert missing, told.stderr
    assert missing[1] in SERVER_ONLY
    assert f"{command} needs the service, which is not installed here ({missing[1]}): " in told.stderr
    assert 'pip install "statewright[server]"' in told.stderr


def test_the_worker_for_tools_says_which_extra_is_missing(python: Path, tmp_path: Path) -> None:
    told = run(python, tmp_path, "-c", ENTRY, "tools")
    missing = "postgres needs asyncpg, which is not installed here: pip install 'statewright[tools]'"
    assert (told.returncode, told.stdout) == (1, "")
    assert missing in told.stderr


def test_a_node_and_the_client_commands_work_with_a_service_elsewhere(python: Path, tmp_path: Path) -> None:
    with started(tmp_path, DATA_DIRECTORY=str(tmp_path / "data")) as program, a_node(python, tmp_path, program):
        api = program.api()
        api.a_model(model="notice/1", sample={"text": ""})
        api.a_model(
            a_workflow(New=[manual("GO", to="Done", processors=[a_processor()])], Done=[]),
            sample=SAMPLE | {"seen": False},
        )
        entity = api.create().id
        api.update(entity, fire="GO")
        assert (api.state(entity), api.read(entity)["data"]["seen"]) == ("Done", True)
        url = f"--url={program.root}/api"
        assert run(python, tmp_path, "-c", ENTRY, "index", "list", "prize/1", url).returncode == 0
        exported = run(python, tmp_path, "-c", ENTRY, "export", "notice", "1", "notices.jsonl", url)
        assert (exported.returncode, exported.stdout.partition(" as of ")[0]) == (0, "1 entities"), exported.stderr
        assert program.terminate() == 0


def test_definitions_are_checked_and_played_without_a_service(python: Path, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(DEFINITION))
    for command in ("lint", "mermaid", "simulate"):
        told = run(python, tmp_path, "-c", ENTRY, "steps", command, "one.json")
        assert (told.returncode, told.stderr) == (0, ""), command


def test_the_documentation_is_read_without_the_server(python: Path, tmp_path: Path) -> None:
    told = run(python, tmp_path, "-c", ENTRY, "help", "workflows")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("# Workflows")
    schema = run(python, tmp_path, "-c", ENTRY, "schema", "workflow")
    assert "Transition" in json.loads(schema.stdout)["$defs"]


@contextmanager
def a_node(python: Path, home: Path, program: Program) -> Iterator[None]:
    """A calculation node as a process of that installation, joined to the service."""
    (home / "a_node.py").write_text(NODE)
    settings = {
        "STATEWRIGHT_COMPUTE_ENDPOINT": program.ready().grpc,
        "STATEWRIGHT_COMPUTE_HTTP_BASE": f"{program.root}/api",
    }
    with (home / "node.log").open("wb") as log:
        process = subprocess.Popen(
            [python, "-c", ENTRY, "node", "a_node:node"],
            cwd=home,
            env=environment(home, settings),
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: "node_joined" in (home / "node.log").read_text(), within_s=PATIENCE_S)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
