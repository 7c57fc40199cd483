"""``statewright serve --workers``: several processes, one service."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.builders import SAMPLE, a_processor, a_workflow, automated
from tests.database import Template, connected
from tests.e2e.program import Program, started
from tests.integration.node import Node
from tests.service import a_token, eventually

CLIENTS = 6

MOVE = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(tags="worker-tests")])], DONE=[])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def shared(database_template: Template) -> Iterator[str]:
    """The URL of a database for all tests of this file."""
    with asyncio.Runner() as runner:
        clone = database_template.clone()
        yield runner.run(clone.__aenter__())
        runner.run(clone.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def service(home: Path, shared: str) -> Iterator[Program]:
    """Two workers."""
    with started(home, "serve", "--workers", "2", POSTGRES_URL=shared, NODE_LEASE="3s", DRAIN_WINDOW="1s") as program:
        program.ready()
        program.api().a_model()
        yield program
        assert program.terminate() == 0
        assert program.errors == []
        assert asyncio.run(nodes(shared)) == []


async def nodes(database: str) -> list[str]:
    """The names of all nodes that have a row."""
    async with connected(database) as connection:
        return [row["name"] for row in await connection.fetch("SELECT name FROM cluster_node ORDER BY name")]


def processes(program: Program) -> list[int]:
    """The process ids of all workers that ever became ready, in that order."""
    return [int(found) for found in re.findall(r"msg=worker_ready .*process=(\d+)", program.log)]


def metric(program: Program, name: str) -> dict[str, float]:
    """A metric's values by worker, summed over the other labels."""
    sums: dict[str, float] = {}
    for line in program.admin.get("/metrics").text.splitlines():
        found = re.fullmatch(rf'{name}{{.*worker="(\d+)".*}} (\S+)', line)
        if found:
            sums[found[1]] = sums.get(found[1], 0) + float(found[2])
    return sums


async def test_each_worker_is_a_node_and_answers_on_the_same_port(service: Program, shared: str) -> None:
    assert [name.rpartition("/")[2] for name in await nodes(shared)] == ["1", "2"]

    async def ask() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:  # a connection each, which the kernel gives to either
            assert (await client.get(f"{service.root}/api/health")).status_code == 200

    def both_were_asked() -> bool:
        return len([count for count in metric(service, "statewright_http_requests_total").values() if count]) == 2

    for _ in range(20):
        await asyncio.gather(*(ask() for _ in range(8)))
        if await asyncio.to_thread(both_were_asked):
            return
    raise AssertionError("one worker gets all connections")


def test_a_member_of_one_worker_serves_the_requests_to_all(service: Program) -> None:
    api = service.api()
    model = api.a_model(MOVE, model="moved/1")
    node = Node(service.grpc, a_token("any"), ("worker-tests",))
    try:
        with ThreadPoolExecutor(8) as clients:
            created = [clients.submit(fresh_create, service, model) for _ in range(16)]
            for _ in created:
                node.return_next(dict(SAMPLE))
            assert [future.result(30) for future in created] == [200] * 16
    finally:
        node.leave()


def fresh_create(service: Program, model: str) -> int:
    with httpx.Client(trust_env=False, timeout=30) as client:
        return client.post(f"{service.root}/api/entity/JSON/{model}", json=dict(SAMPLE)).status_code


class Load:
    """Clients that write and read without a pause on connections they keep, and never try anything twice."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._over = False
        self.answered = 0
        self.failures: list[str] = []

    async def run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    def stop(self) -> None:
        self._over = True

    async def _client(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            while not self._over:
                try:
                    created = await client.post(f"{self._root}/api/entity/JSON/prize/1", json=dict(SAMPLE))
                    [saved] = created.json()
                    read = await client.get(f"{self._root}/api/entity/{saved['entityIds'][0]}")
                    self._note(created, read)
                except (httpx.TransportError, ValueError, KeyError) as failed:
                    self.failures.append(repr(failed))

    def _note(self, *responses: httpx.Response) -> None:
        for response in responses:
            self.answered += 1
            if response.status_code != 200:
                self.failures.append(f"{response.status_code}: {response.text}")


async def test_a_rolling_restart_fails_no_request(service: Program) -> None:
    load = Load(service.root)
    running = asyncio.create_task(load.run())
    before = processes(service)
    await asyncio.to_thread(eventually, lambda: load.answered > 50)
    completed = service.log.count("rolling_restart_complete")
    service.tell(signal.SIGHUP)
    await asyncio.to_thread(eventually, lambda: service.log.count("rolling_restart_complete") > completed, within_s=90)
    at_the_end = load.answered
    await asyncio.to_thread(eventually, lambda: load.answered > at_the_end + 50)
    load.stop()
    await running
    assert load.failures == []
    successors = processes(service)[len(before) :]
    assert len(successors) == 2
    assert all(alive(process) for process in successors)
    assert not any(alive(process) for process in before)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_worker_that_is_killed_is_replaced_and_forgotten(service: Program, shared: str) -> None:
    known = processes(service)
    victim = known[-1]
    dead = await names_and_ids(shared)
    os.kill(victim, signal.SIGKILL)
    await asyncio.to_thread(eventually, lambda: len(processes(service)) > len(known), within_s=60)
    assert service.admin.get("/readyz").status_code == 200
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        for _ in range(8):
            assert (await client.get(f"{service.root}/api/health")).status_code == 200
    for _ in range(300):
        now = await names_and_ids(shared)
        if len(now) == 2 and len(now & dead) == 1:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"the dead node is still there: {now}")


async def names_and_ids(database: str) -> set[str]:
    async with connected(database) as connection:
        return {row["id"] for row in await connection.fetch("SELECT id FROM cluster_node")}


def test_workers_end_when_their_supervisor_is_killed(home: Path, shared: str) -> None:
    with started(home, "serve", POSTGRES_URL=shared, WORKERS="2") as program:
        program.ready()
        workers = processes(program)
        assert len(workers) == 2
        program.kill()
        eventually(lambda: not any(alive(worker) for worker in workers), within_s=60)


def test_a_port_that_another_supervisor_has_is_taken(home: Path, shared: str, service: Program) -> None:
    with started(home, "serve", "--workers", "2", POSTGRES_URL=shared, ports={"HTTP": service.ports["HTTP"]}) as second:
        assert second.ended() == 1
        assert second.errors[-1].startswith("statewright: cannot listen on ")
        assert second.errors[-1].endswith("; STATEWRIGHT_HTTP_PORT chooses another port")
