"""The command line (docs/reference/cli.md, docs/reference/service.md#start-and-stop). What the
commands start is told by the end-to-end tests.
"""

import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import Result

import statewright
from statewright.api.http.openapi import build_openapi_document
from statewright.cli import main
from statewright.playbooks.reading import read_playbook
from statewright.settings import Settings, SettingsError
from statewright.steps.documents import read_definition
from statewright.workflow.import_request import decode_import
from tests.builders import a_workflow
from tests.commands import CommandRunner


class App:
    """Stands in for ``statewright.app``, whose start takes a database."""

    def __init__(self, *, code: int = 0, failure: BaseException | None = None) -> None:
        self._code = code
        self._failure = failure
        self.settings: Settings | None = None
        self.within: timedelta | None = None

    async def serve(self, settings: Settings) -> int:
        self.settings = settings
        if self._failure is not None:
            raise self._failure
        return self._code

    async def apply_migrations(self, settings: Settings, within: timedelta) -> int:
        self.within = within
        return await self.serve(settings)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> App:
    return installed(monkeypatch, App())


def installed(monkeypatch: pytest.MonkeyPatch, app: App) -> App:
    monkeypatch.setattr(statewright, "app", app, raising=False)
    return app


def run(*arguments: str, **environment: str) -> Result:
    return CommandRunner().invoke(main.program, list(arguments), env={"HOME": "/home/ada", **environment})


# Starting


def test_without_a_command_the_program_serves_with_the_settings_of_the_environment(app: App):
    assert run(CYODA_HTTP_PORT="18080").exit_code == 0
    assert app.settings is not None
    assert app.settings.http_port == 18080


def test_serve_is_the_same_by_name(app: App):
    assert run("serve").exit_code == 0
    assert app.settings is not None


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_exit_code_is_that_of_the_service(monkeypatch: pytest.MonkeyPatch, code: int):
    installed(monkeypatch, App(code=code))
    assert run().exit_code == code


def test_a_bad_setting_is_one_line_on_stderr():
    result = run(CYODA_IAM_MODE="jtw")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == 'error: CYODA_IAM_MODE: "jtw" is not one of mock, jwt\n'


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (OSError(98, "Address already in use"), "error: Address already in use\n"),
        (FileNotFoundError(2, "No such file or directory", "/k.pem"), "error: /k.pem: No such file or directory\n"),
        (SettingsError("X", "is\nwrong"), "error: X: is wrong\n"),
        (TimeoutError(), "error: TimeoutError\n"),
        (ZeroDivisionError("division by zero"), "error: ZeroDivisionError: division by zero\n"),
        (ExceptionGroup("tasks", [OSError("one"), ExceptionGroup("more", [OSError("two")])]), "error: one; two\n"),
    ],
)
def test_a_failed_start_is_one_line_on_stderr(monkeypatch: pytest.MonkeyPatch, failure: Exception, line: str):
    installed(monkeypatch, App(failure=failure))
    result = run()
    assert (result.exit_code, result.stderr) == (1, line)


def test_the_traceback_of_a_failed_start_is_logged_at_level_debug(monkeypatch: pytest.MonkeyPatch):
    installed(monkeypatch, App(failure=ZeroDivisionError("division by zero")))
    assert "Traceback" in run(CYODA_LOG_LEVEL="debug").stdout
    assert "Traceback" not in run().output


def test_an_interrupt_is_a_clean_stop(monkeypatch: pytest.MonkeyPatch):
    installed(monkeypatch, App(failure=KeyboardInterrupt()))
    assert run().exit_code == 0


@pytest.mark.parametrize("arguments", [["serv"], ["--port", "1"], ["migrate", "--timeout", "5"], ["node"]])
def test_a_command_line_that_cannot_be_understood_is_code_2(arguments: list[str]):
    assert run(*arguments).exit_code == 2


# Migrations and documents


def test_a_migration_has_five_minutes_unless_it_is_told_otherwise(app: App):
    assert run("migrate").exit_code == 0
    assert app.within == timedelta(minutes=5)
    assert run("migrate", "--timeout", "90s").exit_code == 0
    assert app.within == timedelta(seconds=90)


def test_a_migration_runs_without_the_secrets_of_the_service(app: App):
    assert run("migrate", CYODA_IAM_MODE="jwt", CYODA_POSTGRES_URL="postgres://h/d").exit_code == 0
    assert app.settings is not None
    assert app.settings.storage == "postgres"


def test_the_openapi_document_is_printed_as_json():
    result = run("openapi")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == build_openapi_document()


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-v"], ["--version", "serve"]])
def test_the_version_is_one_line(arguments: list[str]):
    result = run(*arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith("statewright ")
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help_names_every_command(arguments: list[str]):
    result = run(*arguments)
    assert result.exit_code == 0
    for command in ("serve", "migrate", "health", "version", "openapi", "node"):
        assert command in result.stdout


def test_help_does_not_load_the_service():
    heavy = ["asyncpg", "grpc", "litestar", "granian", "cryptography", "asyncio"]
    code = (
        "import sys; from statewright.cli import main\n"
        "try: main.program(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stderr.strip() == "[]"


def test_a_node_runs_by_the_sdk(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, str | None, str | None]] = []

    def node(target: str, *, endpoint: str | None, api: str | None) -> int:
        asked.append((target, endpoint, api))
        return 0

    import statewright.sdk

    monkeypatch.setattr(statewright.sdk, "cli", SimpleNamespace(run=node), raising=False)
    assert run("node", "prices:app", "--endpoint", "localhost:9090", "--api", "http://host/api").exit_code == 0
    assert asked == [("prices:app", "localhost:9090", "http://host/api")]


# Health


@contextmanager
def readiness(status: int) -> Iterator[str]:
    """The port of an admin listener that answers ``/readyz`` with this status, and 404 to everything else."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield str(server.server_port)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("variable", ["STATEWRIGHT_ADMIN_PORT", "CYODA_ADMIN_PORT"])
def test_health_is_silent_when_the_service_is_ready(variable: str):
    with readiness(200) as port:
        result = run("health", **{variable: port})
    assert (result.exit_code, result.output) == (0, "")


def test_health_says_in_one_line_that_the_service_is_not_ready():
    with readiness(503) as port:
        result = run("health", CYODA_ADMIN_PORT=port)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: http://127.0.0.1:{port}/readyz: status 503\n"


def test_health_asks_no_proxy():
    with readiness(200) as port:
        assert run("health", CYODA_ADMIN_PORT=port, http_proxy="http://127.0.0.1:1").exit_code == 0


def test_health_looks_at_no_other_setting():
    with readiness(200) as port:
        assert run("health", CYODA_ADMIN_PORT=port, CYODA_IAM_MODE="jwt").exit_code == 0


def test_nobody_listening_is_not_healthy():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = run("health", CYODA_ADMIN_PORT=str(port))
    assert result.exit_code == 1
    assert result.stderr == f"error: http://127.0.0.1:{port}/readyz: Connection refused\n"


def test_a_service_that_does_not_answer_is_not_healthy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(main, "_HEALTH_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = run("health", CYODA_ADMIN_PORT=str(listener.getsockname()[1]))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_a_malformed_admin_port_is_reported_by_its_name():
    result = run("health", CYODA_ADMIN_PORT="x")
    assert (result.exit_code, result.stderr) == (1, 'error: CYODA_ADMIN_PORT: "x" is not an integer\n')


def test_help_shows_the_pages_of_the_documentation_without_a_service():
    page = Path(__file__).parents[2] / "docs" / "reference" / "workflows.md"
    shown = CommandRunner().invoke(main.program, ["help", "workflows"])
    assert (shown.exit_code, shown.output.strip()) == (0, page.read_text().strip())
    for name in (["errors", "CONFLICT"], ["errors.CONFLICT"], ["errors/CONFLICT"]):
        described = CommandRunner().invoke(main.program, ["help", *name, "--format", "json"])
        assert json.loads(described.output)["topic"] == "errors.CONFLICT"
    assert "workflows" in CommandRunner().invoke(main.program, ["help"]).output
    told = CommandRunner().invoke(main.program, ["help", "transaction"]).stderr
    assert told == "error: there is no topic transaction; did you mean transactions? `statewright help` lists them\n"


def show_help(*words: str) -> str:
    """What ``statewright help`` prints."""
    shown = CommandRunner().invoke(main.program, ["help", *words])
    assert shown.exit_code == 0, shown.stderr
    return shown.output


def test_help_gives_the_tree_that_a_service_serves():
    tree = json.loads(show_help("--format", "json"))
    assert tree.keys() == {"schema", "version", "topics"}
    assert {"workflows", "errors.CONFLICT", "config.auth"} <= {page["topic"] for page in tree["topics"]}


def test_help_prints_the_raw_output_of_actions():
    assert 'syntax = "proto3"' in show_help("grpc", "proto")
    assert json.loads(show_help("workflows", "schema-version", "versions"))["current"]
    assert "crud" in show_help("openapi", "tags").splitlines()
    assert json.loads(show_help("openapi", "json"))["openapi"] == "3.1.0"


def test_help_lists_the_variables_and_never_what_is_set():
    assert "[8080]: port of the REST API; 0 lets the system choose\n" in show_help("config", "all")
    assert {"name", "topic", "type", "description"} <= json.loads(show_help("config", "all", "--format=json"))["vars"][
        0
    ].keys()


def test_help_cuts_the_description_of_one_tag_out():
    described = json.loads(show_help("openapi", "audit"))
    assert {tag for path in described["paths"].values() for each in path.values() for tag in each["tags"]} == {"Audit"}
    assert yaml.safe_load(show_help("openapi", "audit", "--format=yaml"))["paths"].keys() == described["paths"].keys()


def test_help_is_plain_text_where_that_is_asked_for():
    assert show_help("telemetry", "--format", "markdown").startswith("# Telemetry")
    assert "](" not in show_help("telemetry", "--format", "text")


@pytest.mark.parametrize(
    "words", [["nonsense"], ["openapi", "nonsense"], ["grpc", "nonsense"], ["crud", "--format=yaml"]]
)
def test_what_help_does_not_have_is_a_slip_of_the_command_line(words: list[str]):
    refused = CommandRunner().invoke(main.program, ["help", *words])
    assert (refused.exit_code, refused.stderr[:7], refused.output[7:].count("\n")) == (2, "error: ", 1)


DOCUMENTS_FOR_EDITORS = {
    "workflow": {"importMode": "REPLACE", "workflows": [a_workflow(New=[])]},
    "steps": {"id": "a", "name": "A", "steps": [{"id": "end", "name": "E", "type": "END"}]},
    "playbook": {"metadata": {"name": "a"}, "workflow": [{"step": "a", "tool": {"kind": "noop"}}]},
}


@pytest.mark.parametrize("name", DOCUMENTS_FOR_EDITORS)
def test_editors_have_a_schema_of_what_is_written(name: str):
    shown = CommandRunner().invoke(main.program, ["schema", name])
    schema = json.loads(shown.output)
    Draft202012Validator.check_schema(schema)
    document = {"$schema": f"./{name}.json", **DOCUMENTS_FOR_EDITORS[name]}
    Draft202012Validator(schema).validate(document)
    assert not Draft202012Validator(schema).is_valid({**document, "sceme": 1})
    text = json.dumps(document)
    match name:
        case "workflow":
            assert decode_import(text.encode()).ignored == ()
        case "steps":
            assert read_definition(text).id == "a"
        case _:
            assert read_playbook(text).errors == ()
