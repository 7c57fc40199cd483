"""The commands that speak to a running service (docs/reference/cli.md)."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from statewright import Client
from statewright.cli.main import program
from statewright.settings import Secret
from tests.builders import SAMPLE, a_workflow, manual
from tests.commands import CommandRunner
from tests.database import Template
from tests.e2e.program import free_ports
from tests.service import CLIENT_ID, CLIENT_SECRET, RunningService, a_token, hosted

LIFE = a_workflow(
    "life", NEW=[manual("APPROVE", to="APPROVED"), manual("REJECT", to="REJECTED")], APPROVED=[], REJECTED=[]
)


@dataclass(frozen=True)
class Told:
    """What a command has written."""

    stdout: str
    stderr: str


Run = Callable[..., Told]


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home and a current directory without files of variables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def run(service: RunningService, tenant: str) -> Run:
    """Runs a command as somebody of the test's tenant."""
    named = {"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": a_token(tenant)}

    def call(*arguments: str, given: str | None = None, code: int = 0, **environment: str) -> Told:
        result = CommandRunner().invoke(program, list(arguments), env={**named, **environment}, input=given)
        assert result.exit_code == code, result.output
        # The service of this process logs to the same stdout.
        lines = [line for line in result.stdout.splitlines(keepends=True) if not line.startswith("time=")]
        return Told("".join(lines), result.stderr)

    return call


@pytest.fixture
def prizes(run: Run) -> Run:
    """The same where there is a model ``prize/1``."""
    run("models", "import", "prize/1", "-", "--lock", given=json.dumps(SAMPLE))
    run("workflows", "import", "prize/1", "-", given=json.dumps(LIFE))
    return run


def create(run: Run, *years: int) -> list[str]:
    documents = json.dumps([SAMPLE | {"year": year} for year in years])
    return run("entities", "create", "prize/1", "-", given=documents).stdout.split()


def test_a_model_is_imported_locked_shown_and_deleted(run: Run, tmp_path: Path) -> None:
    sample = tmp_path / "sample.json"
    sample.write_text(json.dumps(SAMPLE), "utf-8-sig")  # as some editors begin files
    assert run("models", "import", "prize/1", str(sample)).stdout == "prize/1 imported\n"
    run("models", "set-keys", "prize/1", "by-year=$.year,$.category")
    run("models", "set-level", "prize/1", "structural")
    run("models", "lock", "prize/1")
    assert "prize/1" in run("models", "list").stdout
    assert json.loads(run("models", "list", "--json").stdout)[0]["currentState"] == "LOCKED"
    exported = run("models", "export", "prize/1").stdout
    assert json.loads(exported)["uniqueKeys"] == [{"fields": ["$.year", "$.category"], "id": "by-year"}]
    run("models", "import", "prize/2", "-", "--form", "json-schema", given=exported)
    assert run("models", "validate", "prize/1", "-", given='{"year": 3}').stdout == "Validation passed\n"
    run("models", "validate", "prize/1", "-", given='{"year": "x"}', code=1)
    run("models", "unlock", "prize/1")
    run("models", "delete", "prize/1")
    assert "prize/1" not in run("models", "list").stdout


def test_a_unique_key_is_named_once(run: Run) -> None:
    run("models", "import", "prize/1", "-", given=json.dumps(SAMPLE))
    told = run("models", "set-keys", "prize/1", "k=$.year", "k=$.category", code=2)
    assert '"k" is given twice' in told.stderr
    assert "uniqueKeys" not in json.loads(run("models", "export", "prize/1").stdout)


def test_an_exported_workflow_can_be_imported_again(prizes: Run, tmp_path: Path) -> None:
    file = tmp_path / "workflows.json"
    prizes("workflows", "export", "prize/1", str(file))
    assert prizes("workflows", "export", "prize/1").stdout == file.read_text()
    assert prizes("workflows", "export", "prize/1", "-").stdout == file.read_text()
    told = prizes("workflows", "import", "prize/1", str(file), "--mode", "replace")
    assert told.stdout == "1 workflows of prize/1 imported\n"
    assert prizes("workflows", "export", "prize/1").stdout == file.read_text()


@pytest.mark.parametrize(
    "command",
    ["entities get", "entities delete", "entities update {}", "transitions fire APPROVE", "audit"],
)
def test_an_empty_id_is_refused_before_it_asks_for_something_else(run: Run, command: str) -> None:
    words = command.split()
    ids = [*words[:2], "", *words[2:]] if len(words) > 1 else [*words, ""]
    assert run(*ids, code=1).stderr.strip() == "error: an empty text is no id and no name"


def test_a_list_of_workflows_or_one_alone_can_be_imported(prizes: Run) -> None:
    prizes("workflows", "import", "prize/1", "-", "--mode", "replace", given=json.dumps([LIFE, LIFE | {"name": "two"}]))
    assert len(json.loads(prizes("workflows", "export", "prize/1").stdout)["workflows"]) == 2
    wrong = prizes("workflows", "import", "prize/1", "-", given=json.dumps(LIFE | {"initialState": "X"}), code=1)
    assert wrong.stderr.startswith("error: VALIDATION_FAILED")


def test_entities_are_written_read_and_found(prizes: Run, tmp_path: Path) -> None:
    first, second = create(prizes, 1999, 2024)
    assert prizes("transitions", "list", first).stdout == "APPROVE\nREJECT\n"
    assert prizes("transitions", "fire", first, "APPROVE").stdout == "APPROVED\n"
    prizes("entities", "patch", second, "-", given='{"motivation": "none"}')
    transaction = prizes("entities", "update", second, "-", "--fire", "REJECT", given='{"year": 2025}').stdout.strip()
    shown = json.loads(prizes("entities", "get", second).stdout)
    assert (shown["state"], shown["data"], shown["transaction_id"]) == ("REJECTED", {"year": 2025}, transaction)
    lost = prizes("entities", "update", second, "-", "--if-match", first, given="{}", code=1)
    assert lost.stderr.startswith("error: ENTITY_MODIFIED")

    condition = tmp_path / "condition.json"
    condition.write_text('{"type": "simple", "jsonPath": "$.year", "operatorType": "GREATER_THAN", "value": 2000}')
    assert second in prizes("entities", "search", "prize/1", str(condition)).stdout
    assert second in prizes("entities", "search", "prize/1", condition.read_text()).stdout
    [found] = json.loads(prizes("entities", "search", "prize/1", str(condition), "--json").stdout)
    assert found["id"] == second
    assert len(json.loads(prizes("entities", "list", "prize/1", "--limit", "1", "--json").stdout)) == 1
    assert json.loads(prizes("entities", "count", "prize/1", "--json").stdout) == {"APPROVED": 1, "REJECTED": 1}
    versions = json.loads(prizes("entities", "history", second, "--json").stdout)
    assert len(versions) == 3
    then = json.loads(prizes("entities", "get", second, "--at", versions[-1]["timeOfChange"]).stdout)
    assert then["state"] == "NEW"
    assert "TRANSITION_MAKE" in prizes("audit", first).stdout
    assert json.loads(prizes("audit", second, "--transaction", transaction, "--json").stdout)
    prizes("entities", "delete", first)
    assert "ENTITY_NOT_FOUND" in prizes("entities", "get", first, code=1).stderr


def test_numbers_keep_their_digits(run: Run) -> None:
    run("models", "import", "exact/1", "-", "--lock", given='{"n": 1.2345678901234567890123456789}')
    [entity] = run("entities", "create", "exact/1", "-", given='{"n": 9.8765432109876543210987654321}').stdout.split()
    assert '"n": 9.8765432109876543210987654321' in run("entities", "get", entity).stdout


@pytest.mark.parametrize(
    "arguments", [["count", "prize/1"], ["count", "prize", "1"], ["count", "--json", "prize", "1"]]
)
def test_a_model_is_name_and_version_in_one_word_or_in_two(prizes: Run, arguments: list[str]) -> None:
    create(prizes, 2024)
    assert "NEW" in prizes("entities", *arguments).stdout


@pytest.mark.parametrize("model", ["prize", "prize/x", "/1", "prize/"])
def test_a_model_without_version_is_no_command_line(run: Run, model: str) -> None:
    assert "is not MODEL/VERSION" in run("models", "lock", model, code=2).stderr


def test_the_address_may_have_the_context_path(run: Run, service: RunningService) -> None:
    for url in (service.root, f"{service.root}/", service.url):
        run("models", "list", "--url", url, STATEWRIGHT_URL="http://127.0.0.1:1")
    run("models", "list", STATEWRIGHT_URL="", STATEWRIGHT_API_URL=service.url)


def test_the_step_engine_has_the_same_address(run: Run, service: RunningService, tenant: str) -> None:
    admin = a_token(tenant, user_roles=["ROLE_ADMIN"])
    for url in (service.root, service.url):
        assert (
            "0 instances removed" in run("steps", "purge", "--older-than", "1d", "--url", url, "--token", admin).stdout
        )


def test_what_is_no_service_is_told_in_a_sentence(run: Run, tmp_path: Path) -> None:
    [port] = free_ports("HTTP").values()
    told = run("models", "list", "--url", f"http://127.0.0.1:{port}", code=1).stderr
    assert "Connection refused. Is the service running? --url or STATEWRIGHT_URL says where" in told
    assert "Errno" not in told
    assert "not the address" in run("models", "list", "--url", "localhost:8080", code=2).stderr
    assert "not the address" in run("models", "list", STATEWRIGHT_URL="localhost:8080", code=1).stderr


def test_another_path_is_no_service(run: Run, service: RunningService) -> None:
    told = run("models", "list", "--url", f"{service.root}/nosuch", code=1).stderr
    assert "no API of Statewright there" in told
    assert "--url or STATEWRIGHT_URL says where the service is" in told


class Stranger(BaseHTTPRequestHandler):
    """Another program, which answers everything with an object that has nothing in it."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None: ...


def test_an_answer_of_another_program_is_told_in_a_line(run: Run) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stranger) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for words in (
            "ops members",
            "clients create",
            "index create m/1 $.a",
            "prune m/1 --older-than 1d",
            "models list",
        ):
            told = run(*words.split(), "--url", url, code=1).stderr
            assert "Statewright" in told, words
            assert "\n" not in told.strip(), words
        server.shutdown()


def test_files_that_cannot_be_used_are_named(run: Run, tmp_path: Path) -> None:
    assert (
        run("models", "import", "prize/1", "nosuch.json", code=1).stderr
        == "error: nosuch.json: No such file or directory\n"
    )
    (tmp_path / "bad.json").write_text("{")
    assert run("models", "import", "prize/1", "bad.json", code=1).stderr.startswith("error: bad.json: ")
    assert "is no JSON object" in run("entities", "search", "prize/1", "-", given="[]", code=1).stderr


def test_a_token_that_cannot_be_sent_is_not_shown(run: Run, tenant: str) -> None:
    run("models", "list", STATEWRIGHT_TOKEN=f" {a_token(tenant)}\n")
    for token in ("se\ncret", "secrét"):
        told = run("models", "list", STATEWRIGHT_TOKEN=token, code=1).stderr
        assert told == "error: the token has characters that no header can hold\n"
    told = run("models", "list", STATEWRIGHT_TOKEN="", STATEWRIGHT_TOKEN_FILE="nosuch", code=1).stderr
    assert told == "error: no token: nosuch: No such file or directory\n"


def test_who_one_is_may_be_typed_or_named(run: Run, service: RunningService, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(a_token("another") + "\n")
    run("models", "import", "only-here/1", "-", given="{}")
    assert "only-here" not in run("models", "list", "--token-file", str(tmp_path / "token")).stdout
    assert (
        "only-here"
        not in run("models", "list", STATEWRIGHT_TOKEN="", STATEWRIGHT_TOKEN_FILE=str(tmp_path / "token")).stdout
    )
    told = run("models", "list", "--token", "nonsense", code=1).stderr
    assert told.startswith("error: UNAUTHORIZED: authentication failed. STATEWRIGHT_CLIENT_ID with ")
    assert run("clients", "list", code=1).stderr.endswith("forbidden: admin role required, ROLE_ADMIN\n")


def test_a_client_gets_its_tokens_itself(run: Run, database_template: Template, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(CLIENT_SECRET)
    settings = {"bootstrap_client_id": CLIENT_ID, "bootstrap_client_secret": Secret(CLIENT_SECRET)}
    with hosted(database_template.clone(), **settings) as service:
        named = {"STATEWRIGHT_TOKEN": "", "STATEWRIGHT_CLIENT_ID": CLIENT_ID, "STATEWRIGHT_URL": service.root}
        run("models", "list", STATEWRIGHT_CLIENT_SECRET=CLIENT_SECRET, **named)
        run("models", "list", STATEWRIGHT_CLIENT_SECRET_FILE=str(tmp_path / "secret"), **named)
        others = {"CYODA_COMPUTE_TOKEN": "wrong", "STATEWRIGHT_CLIENT_SECRET_FILE": str(tmp_path / "other")}
        (tmp_path / "other").write_text("wrong")
        typed = ["--client-id", CLIENT_ID, "--client-secret", CLIENT_SECRET]
        run("models", "list", *typed, STATEWRIGHT_URL=service.root, **others)
        run("models", "list", *typed[2:], **named | others | {"STATEWRIGHT_TOKEN": "wrong"})
        assert "401" in run("models", "list", STATEWRIGHT_CLIENT_SECRET="wrong", code=1, **named).stderr
        assert "STATEWRIGHT_CLIENT_SECRET must be set, too" in run("models", "list", code=1, **named).stderr


def test_files_of_variables_are_read(run: Run, service: RunningService, tenant: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"STATEWRIGHT_URL={service.root}\n")
    (tmp_path / ".env.mine").write_text(f"STATEWRIGHT_TOKEN={a_token(tenant)}\n")
    result = CommandRunner().invoke(program, ["models", "list"], env={"STATEWRIGHT_PROFILES": "mine"})
    assert result.exit_code == 0, result.output


def test_an_entity_is_explained(prizes: Run) -> None:
    entity = prizes("entities", "create", "prize/1", "-", given=json.dumps(SAMPLE)).stdout.strip()
    told = prizes("ops", "explain", entity).stdout
    assert "WAITS_FOR_MANUAL: NEW is left by name only. It can be moved by name: APPROVE, REJECT." in told
    assert json.loads(prizes("ops", "explain", entity, "--json").stdout)["verdict"] == "WAITS_FOR_MANUAL"


def test_warnings_of_a_run_are_told_beside_what_is_printed(run: Run) -> None:
    run("models", "import", "plain/1", "-", "--lock", given="{}")
    made = run("entities", "create", "plain/1", "-", given="{}")
    assert made.stderr == "warning: no workflows imported for model — using default workflow\n"
    assert len(made.stdout.split()) == 1


def test_acts_of_operators_are_for_operators(prizes: Run) -> None:
    assert "FORBIDDEN" in prizes("ops", "audit", code=1).stderr


def test_operators_see_workers_queues_and_versions(prizes: Run) -> None:
    entity = prizes("entities", "create", "prize/1", "-", given=json.dumps(SAMPLE)).stdout.strip()
    prizes("transitions", "fire", entity, "APPROVE")
    assert "APPROVED" in prizes("ops", "versions", entity).stdout
    assert prizes("ops", "diff", entity).stdout == "NEW -> APPROVED\n"
    assert json.loads(prizes("ops", "members", "--json").stdout) == []
    assert json.loads(prizes("ops", "queues", "--without-worker", "--json").stdout) == []


def test_an_event_is_sent_to_the_flows_that_wait_for_it(run: Run) -> None:
    assert run("flows", "send", "nothing-waits", "--fields", '{"n": 1}').stderr == "0 tasks completed\n"
    assert "--fields is no object" in run("flows", "send", "x", "--fields", "[1]", code=1).stderr


def test_the_log_of_an_execution_is_printed_and_followed(run: Run, tenant: str, service: RunningService) -> None:
    with Client(service.root, token=a_token(tenant)) as client:
        client.playbooks.upload("metadata: {name: logged}\nworkflow: [{step: only, tool: {kind: python}}]")
        begun = client.playbooks.start("logged", ctx={"large": "x" * 70_000}).id
        lines = [json.loads(line) for line in run("playbooks", "events", begun).stdout.splitlines()]
        assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
        client.playbooks.cancel(begun)
    more = run("playbooks", "events", begun, "--after", str(len(lines)), "--follow").stdout.splitlines()
    assert json.loads(more[0])["seq"] == len(lines) + 1
    assert json.loads(more[-1])["event_type"] == "execution.cancelled"
    [large] = [line for line in lines if "references" in line]
    assert large["payload"]["data"] is None
    whole = [json.loads(line) for line in run("playbooks", "events", begun, "--values").stdout.splitlines()]
    assert whole[large["seq"] - 1]["payload"]["data"]["ctx"] == {"large": "x" * 70_000}
    assert "01JABC3V9E6K8M2Q4S6T8W0Y2Z" in run("playbooks", "events", "01JABC3V9E6K8M2Q4S6T8W0Y2Z", code=1).stderr
    run("playbooks", "events", begun, "--after", "-1", code=2)
