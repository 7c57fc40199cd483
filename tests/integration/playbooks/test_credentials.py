"""Credentials of playbooks: when an execution starts, on the way to workers, and nowhere else
(docs/reference/executions.md#keychain).
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PosixPath
from typing import Any, ClassVar

import asyncpg
import pytest
from msgspec.structs import replace

from statewright.failures import ProcessBadRequest
from statewright.network.sockets import PrivateConnections
from statewright.sdk import Node, TaskCall
from statewright.services.processes import jobs
from statewright.services.processes.hosting import find_shared_queue
from statewright.services.processes.jobs import JobClaim
from statewright.telemetry import logs
from tests.builders import Json
from tests.integration.flows.conftest import done
from tests.integration.playbooks.conftest import HEADER, Playbooks
from tests.integration.playbooks.node import PlaybookNode, a_playbook_node
from tests.integration.steps.conftest import Host
from tests.integration.transactions.conftest import connected
from tests.service import Api, a_token, eventually, hosted

KEYCHAIN = "keychain: [{name: shop, kind: bearer}, {name: db, kind: login}]\n"
SENT_BY_THE_SERVICE = KEYCHAIN + "workflow: [{step: s, tool: {kind: http, url: 'http://x.test/', auth: shop}}]"
SENT_BY_A_WORKER = KEYCHAIN + (
    "workflow: [{step: s, tool: [{kind: python}, {kind: http, url: 'http://x.test/', auth: shop}]}]"
)
NAMES_NONE = KEYCHAIN + "workflow: [{step: s, tool: {kind: python}}]"
LENT = KEYCHAIN + "workflow: [{step: s, tool: {kind: postgres, auth: db}}]"


def put_secrets(directory: Path, tenant: str, **secrets: str) -> None:
    own = directory / tenant
    own.mkdir(exist_ok=True)
    for name, content in secrets.items():
        (own / name).write_text(content)


def with_secrets(node: PlaybookNode, directory: Path) -> PlaybookNode:
    """The same node, set to read credentials there."""
    runtime = node.host.runtime
    processes = replace(runtime.processes, credentials=directory, sends_requests=True)
    return PlaybookNode(Host(replace(runtime, processes=processes), node.host.caller, node.host.clock))


@pytest.mark.parametrize("text", [SENT_BY_THE_SERVICE, SENT_BY_A_WORKER])
async def test_an_execution_does_not_start_without_the_credentials_that_its_steps_need(
    database: str, tmp_path: Path, text: str
):
    async with a_playbook_node(database) as node:
        node = with_secrets(node, tmp_path)
        with pytest.raises(ProcessBadRequest, match="keychain: the credential shop is not there"):
            await node.run(text)
        put_secrets(tmp_path, node.host.caller.tenant, shop="secret-token")
        assert (await node.read(await node.run(text))).outcome == "running"


async def test_credentials_that_nothing_needs_may_be_missing(database: str, tmp_path: Path):
    async with a_playbook_node(database) as node:
        node = with_secrets(node, tmp_path)
        await node.run(NAMES_NONE)
        assert (await node.claim("python")).variables["keychain"] == {}
        await node.run(LENT)
        assert (await node.claim("postgres")).variables["keychain"] == {}, "the worker may have its own"


async def test_a_job_has_the_credentials_that_its_tasks_name_and_no_others(database: str, tmp_path: Path):
    async with a_playbook_node(database) as node:
        node = with_secrets(node, tmp_path)
        put_secrets(tmp_path, node.host.caller.tenant, shop="secret-token", db='{"password": "pw-of-db"}')
        put_secrets(tmp_path, "another", db="of-another-tenant")
        await node.run(SENT_BY_A_WORKER)
        assert (await node.claim("python")).variables["keychain"] == {"shop": "secret-token"}
        await node.run(LENT)
        assert (await node.claim("postgres")).variables["keychain"] == {"db": {"password": "pw-of-db"}}
        await node.run(LENT.replace("auth: db", "auth: {pg: {type: postgres, key: db}}"))
        assert (await node.claim("postgres")).variables["keychain"] == {"db": {"password": "pw-of-db"}}


async def test_a_run_whose_credential_was_deleted_fails_and_an_incident_names_it(database: str, tmp_path: Path):
    async with a_playbook_node(database) as node:
        node = with_secrets(node, tmp_path)
        put_secrets(tmp_path, node.host.caller.tenant, shop="secret-token")
        execution = await node.run(SENT_BY_A_WORKER)
        (tmp_path / node.host.caller.tenant / "shop").unlink()
        assert await claim(node) == ()
        error = await read_error(node, execution)
        assert (error["kind"], error["code"]) == ("keychain", "CREDENTIAL_MISSING")
        connection = await asyncpg.connect(database)
        try:
            [message] = [row["message"] for row in await connection.fetch("SELECT message FROM incident")]
        finally:
            await connection.close()
        assert message == "KEYCHAIN: the credential shop is not there"


async def test_a_plain_connection_carries_no_credentials(database: str, tmp_path: Path):
    async with a_playbook_node(database) as node:
        node = with_secrets(node, tmp_path)
        put_secrets(tmp_path, node.host.caller.tenant, shop="secret-token")
        execution = await node.run(SENT_BY_A_WORKER)
        assert await claim(node, peer="10.1.2.3") == ()
        error = await read_error(node, execution)
        assert (error["kind"], error["code"]) == ("keychain", "CONNECTION_NOT_PRIVATE")
        assert "shop" in error["message"]


async def test_a_worker_on_a_plain_connection_may_have_credentials_of_its_own(database: str, tmp_path: Path):
    async with a_playbook_node(database) as node:
        node = with_secrets(node, tmp_path)
        put_secrets(tmp_path, node.host.caller.tenant, db="secret-token")
        await node.run(LENT.replace("postgres", "python"))
        [job] = await claim(node, peer="10.1.2.3")
        assert not job.variables["keychain"]


class FaultyDirectory(PosixPath):
    """Credentials of which one cannot be read any more, for a reason that nobody thought of."""

    broken: ClassVar[set[str]] = set()

    def open(self, *arguments: Any, **named: Any) -> Any:
        if self.name in self.broken:
            raise RuntimeError("no answer of the keychain")
        return super().open(*arguments, **named)


async def test_a_job_whose_credentials_meet_a_defect_keeps_no_others_from_being_handed_out(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with a_playbook_node(database) as node:
        node = with_secrets(node, FaultyDirectory(tmp_path))
        put_secrets(tmp_path, node.host.caller.tenant, shop="secret-token", bank="of-the-bank")
        for text in (SENT_BY_A_WORKER.replace("shop", "bank"), SENT_BY_A_WORKER):
            await node.run(text)
        monkeypatch.setattr(FaultyDirectory, "broken", {"bank"})
        [job] = await claim(node, most=2)
        assert job.variables["keychain"] == {"shop": "secret-token"}


async def claim(node: PlaybookNode, *, peer: str = "127.0.0.1", most: int = 1) -> tuple[jobs.ClaimedJob, ...]:
    wanted = JobClaim(worker_id="w", job_types=("playbook:python",), max_jobs=most, peer=peer)
    return await jobs.claim(find_shared_queue(node.host.runtime.processes), node.host.caller, wanted)


async def read_error(node: PlaybookNode, execution: str) -> Json:
    """That of the only run, once what was begun beside requests has ended."""
    await asyncio.gather(*node.host.runtime.core.detached_runs)
    found = await node.read(execution)
    concluded: Any = found.marking.result
    return concluded["failures"][0]["error"]


@pytest.mark.parametrize(
    ("connections", "peer", "is_private"),
    [
        (PrivateConnections(), "127.0.0.1", True),
        (PrivateConnections(), "ipv4:127.0.0.1:50123", True),
        (PrivateConnections(), "ipv6:[::1]:50123", True),
        (PrivateConnections(), "::1", True),
        (PrivateConnections(), "10.1.2.3", False),
        (PrivateConnections(), "ipv4:10.1.2.3:50123", False),
        (PrivateConnections(), "ipv6:[2001:db8::1]:50123", False),
        (PrivateConnections(), "", False),
        (PrivateConnections(has_tls=True), "10.1.2.3", True),
    ],
)
def test_connections_with_tls_and_of_this_machine_are_private(
    connections: PrivateConnections, peer: str, is_private: bool
):
    assert connections.is_private(peer) is is_private


SECRET = "hunter2-hunter2-hunter2"
TOKEN = "token-of-the-shop-9f"
MARK = "mark-that-is-stored"

BESIDE = (
    HEADER
    + KEYCHAIN
    + """
workload: {mark: mark-that-is-stored}
workflow:
- step: s
  tool:
  - {name: log_in, kind: python, password: "{{ keychain.db.password }}", mark: "{{ workload.mark }}"}
  - {name: ask, kind: http, url: URL, auth: shop}
  - name: again
    kind: python
    said: "{{ ask.data }}"
    spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {said: "{{ outcome.result }}"}}}}]}}
  next: {arcs: [{step: told, args: {of: "{{ outcome }}"}}]}
- {step: told, tool: {kind: compute, tags: private, processor: keep, input: {password: "{{ keychain.db.password }}"}}}
"""
)


def test_secrets_reach_workers_and_members_and_are_stored_nowhere(
    database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    tenant, seen, node = "sealed", dict[str, Any](), Node(tags=["private"])
    put_secrets(tmp_path, tenant, shop=TOKEN, db=f'{{"username": "ada", "password": "{SECRET}"}}')

    @node.task_kind("python")
    def use(fields: dict[str, Any], call: TaskCall) -> Json:
        seen[call.label] = (fields, dict(call.credentials))
        if call.label == "again":
            return f"it said {fields['said']}"
        assert SECRET not in repr(call)
        return {"fields": fields, "by": call.credentials["db"]["password"]}

    @node.processor("keep")
    def keep(data: dict[str, Any]) -> Json:
        seen["member"] = data
        return data

    settings: dict[str, Any] = {"playbooks_secrets": tmp_path}
    logs.configure("debug", "text")
    with an_echo() as (url, heads):
        with hosted(nullcontext(database), **settings) as service:
            playbooks = Playbooks(Api(service.root, a_token(tenant)))
            execution = playbooks.start(playbooks.upload(BESIDE.replace("URL", url)))
            # Handed out, and not done: the service is gone before, and the job comes again.
            [handed] = playbooks.poll("python", leaseSeconds=5)
            assert handed["variables"]["keychain"]["shop"] == TOKEN
            done(playbooks.api.post(f"/v1/jobs/{handed['id']}/release", {"workerId": playbooks.worker}), 204)
        with hosted(nullcontext(database), **settings) as service, connected(service, tenant, node):
            playbooks = Playbooks(Api(service.root, a_token(tenant)))
            eventually(lambda: playbooks.read(execution)["status"] != "running")
            ended = playbooks.read(execution)
            assert ended["status"] == "success", ended
            assert ended["results"]["told"] == {"password": "***"}
            assert ended["ctx"] == {"said": "it said you sent Bearer ***"}
            assert SECRET not in repr((ended, playbooks.events(execution)))
            found = asyncio.run(search(service.database, MARK, SECRET, TOKEN))
    assert seen["log_in"] == (
        {"password": SECRET, "mark": MARK},
        {"shop": TOKEN, "db": {"username": "ada", "password": SECRET}},
    )
    assert seen["member"] == {"password": SECRET}
    assert f"Bearer {TOKEN}" in heads
    assert found[MARK], "what is stored is found"
    assert (found[SECRET], found[TOKEN]) == ([], [])
    written = "".join(capfd.readouterr())
    assert "node_joined" in written, "what is logged is found"
    assert SECRET not in written
    assert TOKEN not in written


async def search(database: str, *texts: str) -> dict[str, list[str]]:
    """The tables that have a text in any row, also where it is kept as bytes."""
    connection = await asyncpg.connect(database)
    found: dict[str, list[str]] = {text: [] for text in texts}
    try:
        query = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname NOT LIKE 'pg_%'"
        for (table,) in await connection.fetch(query):
            for text in texts:
                has_it = f"SELECT count(*) FROM {table} AS one WHERE one::text LIKE ANY($1)"
                if await connection.fetchval(has_it, [f"%{text}%", f"%{text.encode().hex()}%"]):
                    found[text].append(table)
    finally:
        await connection.close()
    return found


@contextmanager
def an_echo() -> Iterator[tuple[str, list[str]]]:
    """A server that tells what authorization it was sent; its URL, and what that was."""
    heads: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heads.append(str(self.headers["Authorization"]))
            body = f"you sent {heads[-1]}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
            """Nothing: it would be in what the test looks through."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", heads
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
