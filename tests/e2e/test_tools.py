"""``statewright tools`` beside the installed service: public playbooks whole, credentials, kills and cancellation
(docs/guides/tools.md).
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from tests.builders import Json
from tests.database import Template
from tests.e2e.program import Program, started
from tests.service import Api, eventually

PASSWORD = "hunter2-of-the-database"
KEY = "key-of-the-worker-4711"
LEASE_S = "5"

PUBLIC = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: cities}
keychain: [{name: pg_local, kind: postgres}]
workload: {cities: [Oslo, Rome, "O'slo"]}
workflow:
- step: begin
  tool:
    kind: python
    args: {cities: "{{ workload.cities }}"}
    code: |
      import os
      def main(cities):
          print("to nowhere")
          rows = [{"name": c, "size": len(c)} for c in cities]
          return {"rows": rows, "env": sorted(os.environ), "key": os.environ["STATEWRIGHT_KEY"]}
  next: {arcs: [{step: store}]}
- step: store
  tool:
    kind: postgres
    auth: pg_local
    params: {rows: "{{ begin.rows }}", since: "2026-01-01"}
    commands: |
      create table city (name text, size int, since date);
      insert into city select x.name, x.size, :since from jsonb_to_recordset(:rows) as x(name text, size int);
      select name, size, since from city order by name
  next: {arcs: [{step: add}]}
- step: add
  tool:
    kind: duckdb
    params: {sizes: "{{ store.rows | map(attribute='size') | list }}"}
    command: select list_sum($sizes) as total
  next: {arcs: [{step: tell}]}
- step: tell
  tool:
  - {name: say, kind: shell, cmd: "echo total {{ add.rows[0].total }} of {{ keychain.pg_local.db_password }}"}
"""

WAITS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: NAME}
workflow:
- step: s
  tool: {kind: shell, command: "if test -e FILE; then echo again; else echo $$ > FILE; sleep 600 & wait; fi"}
"""


@pytest.fixture(scope="module")
def service(database_template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One for all, whose credential is for its own database."""
    home = tmp_path_factory.mktemp("service")
    with asyncio.Runner() as runner:
        clone = database_template.clone()
        database = runner.run(enter(clone))
        put_credential(home / "secrets", database)
        settings = {"PLAYBOOKS_SECRETS": str(home / "secrets"), "LOG_LEVEL": "debug", "STEPS_SWEEP_INTERVAL": "200ms"}
        with started(home, "serve", POSTGRES_URL=database, **settings) as program:
            yield program.ready()
            program.terminate()
        runner.run(leave(clone))


async def enter(clone: AbstractAsyncContextManager[str]) -> str:
    return await clone.__aenter__()


async def leave(clone: AbstractAsyncContextManager[str]) -> None:
    await clone.__aexit__(None, None, None)


def put_credential(directory: Path, database: str) -> None:
    """As the operator of the service would."""
    parts = urlsplit(database)
    host = parse_qs(parts.query).get("host", [parts.hostname])[0]
    credential = {"db_host": host, "db_port": parts.port or 5432, "db_user": parts.username, "db_name": parts.path[1:]}
    (directory / "mock-tenant").mkdir(parents=True)
    content = json.dumps({**credential, "db_password": parts.password or PASSWORD})
    (directory / "mock-tenant" / "pg_local").write_text(content)


@contextmanager
def tools(home: Path, service: Program, *options: str) -> Iterator[Program]:
    """The worker as a process."""
    given = ("--kinds", "python,postgres,duckdb,shell,http", "--url", service.root, "--lease", LEASE_S)
    with started(home, "tools", *given, *options, KEY=KEY) as worker:
        yield worker


def run(service: Program, text: str) -> Json:
    """A new execution of a playbook."""
    api = Api(service.root)
    stored = api.post("/v1/playbooks", text.encode(), Content_Type="application/yaml")
    assert stored.status_code == 201, stored.text
    begun = api.post("/v1/executions", {"path": stored.json()["path"]})
    assert begun.status_code == 201, begun.text
    return begun.json()


def wait(service: Program, execution: Json) -> Json:
    """The execution at its end."""
    api, path = Api(service.root), f"/v1/executions/{execution['id']}"
    eventually(lambda: api.get(path).json()["status"] != "running")
    return api.get(path).json()


def test_a_public_playbook_runs_whole_and_its_secrets_are_nowhere(service: Program, tmp_path: Path) -> None:
    with tools(tmp_path, service, "--env", "STATEWRIGHT_KEY") as worker:
        execution = run(service, PUBLIC)
        ended = wait(service, execution)
        assert ended["status"] == "success", (ended, worker.errors)
        results = ended["results"]
        assert {name for name in results["begin"]["env"] if name.startswith("STATEWRIGHT")} == {"STATEWRIGHT_KEY"}
        assert results["begin"]["key"] == "***"
        assert [row["name"] for row in results["store"]["rows"]] == ["O'slo", "Oslo", "Rome"]
        assert results["add"]["rows"] == [{"total": 13}]
        assert results["tell"]["stdout"] == "total 13 of ***\n"
        log = Api(service.root).get(f"/v1/executions/{execution['id']}/events?limit=1000").text
        assert worker.terminate() == 0
    for written in (
        json.dumps(ended),
        log,
        service.log,
        "\n".join(service.errors),
        worker.log,
        "\n".join(worker.errors),
    ):
        assert PASSWORD not in written
        assert KEY not in written
    assert "task_done" in "\n".join(worker.errors), "what is logged is found"


def test_the_task_of_a_worker_that_was_killed_is_handed_out_again(service: Program, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    execution = run(service, WAITS.replace("NAME", "killed").replace("FILE", str(begun)))
    with tools(tmp_path, service) as first:
        pid = read_pid(begun)
        first.kill()
        eventually(lambda: not psutil.pid_exists(pid))
    with tools(tmp_path, service):
        ended = wait(service, execution)
    assert (ended["status"], ended["results"]["s"]["stdout"]) == ("success", "again\n")


def test_a_cancelled_execution_ends_its_task_and_the_worker_goes_on(service: Program, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    execution = run(service, WAITS.replace("NAME", "cancelled").replace("FILE", str(begun)))
    with tools(tmp_path, service, "--concurrency", "1"):
        pid = read_pid(begun)
        assert Api(service.root).post(f"/v1/executions/{execution['id']}/cancel", {}).status_code == 200
        eventually(lambda: not psutil.pid_exists(pid))
        ended = wait(service, run(service, WAITS.replace("NAME", "next").replace("FILE", str(begun))))
        assert ended["results"]["s"]["stdout"] == "again\n"


def read_pid(file: Path) -> int:
    """The number of the process that a task has written to a file."""
    eventually(lambda: file.exists() and file.read_text().strip())
    return int(file.read_text())


def test_what_cannot_be_done_is_said_at_the_start(tmp_path: Path) -> None:
    with started(tmp_path, "tools", "--kinds", "perl") as worker:
        assert worker.ended() == 2
        assert "perl is none of" in "\n".join(worker.errors)
