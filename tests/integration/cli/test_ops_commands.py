"""``statewright ops …`` against a running service (docs/reference/operations.md). All tests share one service, and most
share what one tenant has in it.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import Result

from statewright import Client
from statewright.cli.main import program
from tests.builders import Json, a_workflow, manual
from tests.commands import CommandRunner
from tests.integration.steps_http.conftest import definition, started, step, uploaded
from tests.service import RunningService, a_token

LIFE = a_workflow("life", NEW=[manual("APPROVE", to="APPROVED")], APPROVED=[])
EVERYTHING = '{"type": "simple", "jsonPath": "$.year", "operatorType": "GREATER_THAN", "value": 0}'
MANY_DIGITS = "20240000000000000000000000000001"

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def tenant() -> str:
    return f"commands-{uuid4()}"


@pytest.fixture(scope="module")
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home and a current directory without files of variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def run(service: RunningService, tenant: str, nowhere: None) -> Run:
    """Runs a command of ``ops`` as somebody of the tenant."""
    named = {"STATEWRIGHT_URL": service.root, "STATEWRIGHT_TOKEN": a_token(tenant)}

    def call(*words: str, code: int = 0, **environment: str) -> Result:
        result = CommandRunner().invoke(program, ["ops", *words], env={**named, **environment})
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.fixture(scope="module")
def client(service: RunningService, tenant: str) -> Iterator[Client]:
    with Client(service.root, token=a_token(tenant)) as client:
        yield client


@pytest.fixture(scope="module")
def prizes(client: Client) -> list[str]:
    """Three entities, by year."""
    client.models.import_sample("prize", 1, {"year": int(MANY_DIGITS)})
    client.models.lock("prize", 1)
    client.workflows.import_("prize", 1, LIFE)
    return [client.create("prize", 1, {"year": year}).id for year in (1901, 1902, int(MANY_DIGITS))]


@pytest.fixture(scope="module")
def instance(service: RunningService, tenant: str) -> str:
    """An instance that waits for a person."""
    v1 = replace(service.api(tenant), url=service.root)
    uploaded(v1, definition("errand", step("work", "USER_TASK", "end")))
    return str(started(v1, "errand")["id"])


def read_json(result: Result) -> Json:
    """What ``--json`` printed, but for the log of the service, which has the same output."""
    return json.loads("\n".join(line for line in result.stdout.splitlines() if not line.startswith("time=")))


def read_rows(result: Result) -> list[list[str]]:
    """The cells of a table without its head."""
    lines = [line for line in result.stdout.splitlines() if not line.startswith("time=")]
    return [line.split() for line in lines[1:]]


def test_a_search_is_shown_page_by_page(run: Run, prizes: list[str]) -> None:
    asked = ("search", "prize/1", EVERYTHING, "--sort", "year:desc", "--limit", "2")
    *shown, following = read_rows(run(*asked))
    assert [row[0] for row in shown] == [prizes[2], prizes[1]]
    assert shown[0][1] == "NEW"
    assert following[:3] == ["next", "page:", "--cursor"]
    last = read_rows(run(*asked, "--cursor", following[3]))
    assert [row[0] for row in last] == [prizes[0]]
    page = run(*asked, "--json")
    assert MANY_DIGITS in page.stdout
    assert read_json(page)["nextCursor"] == following[3]
    assert "cursor" in run(*asked, "--cursor", "x", code=1).stderr
    assert "MODEL/VERSION" in run("search", "prize", EVERYTHING, code=2).stderr
    assert "not-there.json" in run("search", "prize/1", "not-there.json", code=1).stderr


def test_matches_are_counted_and_models_estimated(run: Run, prizes: list[str]) -> None:
    assert run("count", "prize/1", EVERYTHING).stdout.splitlines()[-1] == "3"
    assert read_json(run("count", "prize/1", EVERYTHING, "--json")) == {"total": 3}
    assert run("count", "prize/1", EVERYTHING, "--at", "1999-01-01T00:00:00Z").stdout.splitlines()[-1] == "0"
    assert "MODEL_NOT_FOUND" in run("count", "nothing/1", EVERYTHING, code=1).stderr
    [[name, estimate]] = read_rows(run("models"))
    assert (name, estimate.isdigit()) == ("prize/1", True)
    [model] = read_json(run("models", "--json"))
    assert (model["name"], model["version"]) == ("prize", 1)


def test_what_a_transaction_wrote_and_what_happened_to_an_entity(run: Run, client: Client, prizes: list[str]) -> None:
    made = client.create("prize", 1, {"year": 7})
    [row] = read_rows(run("transaction", made.transaction_id))
    assert row[:3] == [made.id, "prize/1", "NEW"]
    [written] = read_json(run("transaction", made.transaction_id, "--json"))
    assert (written["entityId"], written["changeType"]) == (made.id, "CREATE")
    assert read_rows(run("transaction", str(uuid4()))) == []
    assert "transactionId" in run("transaction", "x", code=1).stderr
    fired = client.transition(made.id, "APPROVE").transaction_id
    told = run("events", made.id, "--transaction", fired).stdout
    assert "TRANSITION_MAKE" in told
    assert "STATE_MACHINE_START" in told
    assert len(read_json(run("events", made.id, "--limit", "3", "--json"))) == 3
    assert "ENTITY_NOT_FOUND" in run("events", str(uuid4()), code=1).stderr
    client.delete(made.id)


def test_instances_are_counted_by_status_and_by_step(run: Run, instance: str) -> None:
    [row] = read_rows(run("instances", "--language", "steps"))
    assert row == ["steps", "errand", "WAITING", "1"]
    [step_row] = read_rows(run("instances", "--language", "steps", "--definition", "errand", "--steps"))
    assert step_row == ["work", "1"]
    assert read_json(run("instances", "--json"))["isLowerBound"] is False
    assert "--language" in run("instances", "--steps", code=2).stderr


def test_messages_and_search_jobs_are_listed(run: Run, client: Client, prizes: list[str]) -> None:
    message = client.messages.send("greetings", {"hello": "world"})
    [row] = read_rows(run("messages"))
    assert (row[0], row[2]) == (message, "greetings")
    [listed] = read_json(run("messages", "--limit", "1", "--json"))
    assert listed["header"]["subject"] == "greetings"
    job = client.searches.start("prize", 1, json.loads(EVERYTHING))
    client.searches.wait(job)
    [job_row] = read_rows(run("search-jobs", "--status", "successful"))
    assert job_row[:3] == [job, "prize/1", "successful"]
    assert read_json(run("search-jobs", "--model", "other", "--json")) == []
    assert "status" in run("search-jobs", "--status", "sleeping", code=1).stderr


def test_the_oldest_entities_that_can_move_come_first(run: Run, prizes: list[str]) -> None:
    rows = read_rows(run("idle", "--model", "prize", "--limit", "2"))
    assert [row[2:] for row in rows] == [[entity, "prize/1", "NEW"] for entity in prizes[:2]]
    assert read_json(run("idle", "--model", "other", "--json")) == []
    assert "--limit" in run("idle", "--limit", "0", code=2).stderr


def test_nodes_rates_and_settings_are_told(run: Run, service: RunningService, tenant: str, prizes: list[str]) -> None:
    assert service.parts.node.id in {row[0] for row in read_rows(run("nodes"))}
    assert service.parts.node.id in {each["id"] for each in read_json(run("nodes", "--json"))}
    assert run("rates").stdout.splitlines()[0].split() == ["minute", "transactions", "versions"]
    assert {"transactions", "versions", "minutes"} <= {*read_json(run("rates", "--json"))}
    assert "FORBIDDEN" in run("settings", code=1).stderr
    administrator = {"STATEWRIGHT_TOKEN": a_token(tenant, user_roles=["ROLE_ADMIN"])}
    assert "STATEWRIGHT_CONTEXT_PATH" in {row[0] for row in read_rows(run("settings", **administrator))}


def test_instances_can_be_waited_for(run: Run, instance: str) -> None:
    assert "reached: WAITING" in run("wait", instance, "--until", "waiting", "--timeout", "0").stdout
    waited = run("wait", instance, "--timeout", "0", "--json", code=1)
    assert read_json(waited)["reached"] is False
    assert "--until" in run("wait", instance, "--until", "x", code=2).stderr
    assert "--until" in run("wait", str(uuid4()), "--until", "WAITING", code=2).stderr


def test_a_service_that_is_not_there_is_one_line(run: Run, tmp_path: Path) -> None:
    told = run("nodes", code=1, STATEWRIGHT_URL="http://127.0.0.1:1")
    [line] = told.stderr.splitlines()
    assert "Is the service running?" in line


def test_entities_are_found_by_a_unique_key(run: Run, client: Client) -> None:
    client.models.import_sample("ticket", 1, {"no": "A/1"})
    client.models.set_unique_keys("ticket", 1, {"number": ["$.no"]})
    client.models.lock("ticket", 1)
    ticket = client.create("ticket", 1, {"no": "A/7"}).id
    assert run("find", "A/7").stdout.splitlines()[1].split() == [ticket, "ticket/1", "CREATED", "number"]
    assert [found.entity_id for found in client.ops.find("A/7")] == [ticket]
    assert json.loads(run("find", "A/8", "--json").stdout) == []
