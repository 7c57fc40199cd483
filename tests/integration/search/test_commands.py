"""``statewright index`` and ``statewright explain-search`` against a running service."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from statewright.cli import main
from tests.commands import CommandRunner
from tests.database import Template
from tests.integration.search.finding import a_parcel_model, simple
from tests.integration.search.indexing import indexes
from tests.service import Api, RunningService, hosted, wait_for


@pytest.fixture(scope="module")
def service(database_template: Template) -> Iterator[RunningService]:
    """A service with a database of its own: indexes are everybody's business."""
    with hosted(database_template.clone()) as running:
        yield running


@pytest.fixture
def admin(service: RunningService, tenant: str) -> Api:
    api = service.api(tenant, user_roles=["ROLE_ADMIN"])
    a_parcel_model(api)
    return api


def run(api: Api, *arguments: str, stdin: str | None = None) -> Result:
    return CommandRunner().invoke(main.program, [*arguments, "--url", api.url, "--token", api.token or ""], input=stdin)


def said(result: Result) -> list[str]:
    """The lines on standard output but for those of the service, which has the same one."""
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if not line.startswith(("time=", "20"))]


def test_an_index_is_created_listed_and_dropped(admin: Api) -> None:
    created = run(admin, "index", "create", "parcel/1", "$.weight", "--state", "it's [new]")
    [line] = said(created)
    name, status = line.split()
    assert status == "READY"
    _, listed = said(run(admin, "index", "list", "parcel/1"))
    assert listed.split() == [name, "$.weight", "NUMBER", "it's", "[new]", "READY"]
    assert run(admin, "index", "drop", "parcel/1", name).exit_code == 0
    wait_for(lambda: indexes(admin), lambda ones: ones == [])


def test_nobody_need_wait_for_a_build(admin: Api) -> None:
    created = run(admin, "index", "create", "parcel/1", "$", "--no-wait")
    assert said(created)[0].split()[1] == "BUILDING"


def test_a_search_is_explained(admin: Api, tmp_path: Path) -> None:
    condition = json.dumps(simple("$.name", "MATCHES_PATTERN", "secret.*"))
    (tmp_path / "condition.json").write_text(condition)
    for result in (
        run(admin, "explain-search", "parcel/1", str(tmp_path / "condition.json")),
        run(admin, "explain-search", "parcel/1", "-", "--analyze", stdin=condition),
        run(admin, "explain-search", "parcel/1", condition),
    ):
        sql, *rest = said(result)
        assert sql.startswith("SELECT ")
        assert "secret" not in sql
        assert "  $4 = secret" in rest
        assert "judged row by row: $.name: MATCHES_PATTERN" in rest


def test_numbers_of_an_explained_search_keep_all_their_digits(admin: Api) -> None:
    exact = "0.12345678901234567890123"
    condition = json.dumps(simple("$.weight", "EQUALS", 0)).replace("0}", f"{exact}}}")
    assert f"  $4 = {exact}" in said(run(admin, "explain-search", "parcel/1", condition))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["index", "create", "parcel/1", "$.colour"], "INVALID_FIELD_PATH: "),
        (["index", "list", "parcels/1"], "MODEL_NOT_FOUND: "),
        (["index", "drop", "parcel/1", "some"], "SEARCH_INDEX_NOT_FOUND: "),
        (["explain-search", "parcel/1", "-"], "standard input: "),
    ],
)
def test_a_refusal_is_one_line(admin: Api, arguments: list[str], words: str) -> None:
    result = run(admin, *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_service_that_is_not_there_is_one_line(admin: Api) -> None:
    result = CommandRunner().invoke(main.program, ["index", "list", "parcel/1", "--url", "http://127.0.0.1:1/api"])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("arguments", [["index", "list", "parcel"], ["index", "list", "parcel/1", "--url", "ftp://x"]])
def test_a_command_line_that_cannot_be_understood_is_code_2(arguments: list[str]) -> None:
    assert CommandRunner().invoke(main.program, arguments).exit_code == 2
