"""Work that no process survives, in real processes (docs/reference/operations.md#parked-work)."""

import asyncio
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest

from statewright.app import runtime
from statewright.net import ulid_to_uuid
from tests.database import connected
from tests.e2e.program import Program, started
from tests.integration.processes.conftest import INSTALLED, Office, a_node
from tests.integration.processes.errands import Errand
from tests.integration.steps.conftest import Watch, definition, end, step, timer
from tests.service import eventually

PROGRAM = (sys.executable, str(Path(__file__).with_name("deadly_service.py")))
PATIENCE_S = 120.0
BUDGET_S = 12.0
"""Of a shutdown by default, 11 s, and for the end of a process."""
EXIT_CODE = 9
"""Of a process that the poison has ended."""


class Cluster:
    """Nodes on one database; who looks after them starts a new one in place of one that died."""

    def __init__(self, home: Path, database: str, stack: ExitStack) -> None:
        self._home = home
        self._database = database
        self._stack = stack
        self.nodes: dict[str, Program] = {}
        self.deaths: Counter[int] = Counter()
        """By exit code."""

    def start(self, name: str) -> None:
        home = self._home / f"{name}-{uuid4().hex[:8]}"
        home.mkdir()
        settings = {"POSTGRES_URL": self._database, "NODE_ID": name, "SCHEDULER_SCAN_INTERVAL": "200ms"}
        self.nodes[name] = self._stack.enter_context(started(home, ports=None, executable=PROGRAM, **settings)).ready()

    async def tend(self) -> None:
        """Replace nodes that died."""
        for name, program in [*self.nodes.items()]:
            if not program.is_running:
                self.deaths[program.ended()] += 1
                await asyncio.to_thread(self.start, name)


async def fetch_incidents(connection: asyncpg.Connection) -> list[asyncpg.Record]:
    return await connection.fetch("SELECT * FROM incident WHERE kind = 'POISONED'")


async def test_two_nodes_outlive_a_timer_that_ends_whoever_fires_it(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LANGUAGES", (*runtime.LANGUAGES, INSTALLED))
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, database, stack)
        async with a_node(database, "acme", Watch()) as office, connected(database) as connection:
            for name in ("first", "second"):
                await asyncio.to_thread(cluster.start, name)
            await office.draw(within="PT1S")
            harmless = [await office.send() for _ in range(5)]
            deadly = await office.send(deadly=True)
            harmless += [await office.send() for _ in range(5)]

            async def is_parked() -> bool:
                await cluster.tend()
                return bool(await fetch_incidents(connection))

            await wait_until(is_parked)
            await wait_late(office, harmless)
            [incident] = await fetch_incidents(connection)
            assert cluster.deaths == {EXIT_CODE: 3}
            assert incident["subject_id"] == ulid_to_uuid(deadly.id)
            assert (incident["component"], incident["workflow"], incident["step"]) == ("timer", "errand", "ask")
            assert "first" in incident["message"] or "second" in incident["message"]

            for program in cluster.nodes.values():
                program.kill()
            for name in ("first", "second"):
                await asyncio.to_thread(cluster.start, name)
            await wait_late(office, [await office.send()])
            assert all(program.is_running for program in cluster.nodes.values())
            assert (await office.read(deadly)).status == "RUNNING"
            assert [program.terminate() for program in cluster.nodes.values()] == [0, 0]


async def test_a_frozen_node_ends_by_a_signal_and_another_serves_and_takes_over(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LANGUAGES", (*runtime.LANGUAGES, INSTALLED))
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, database, stack)
        async with a_node(database, "acme", Watch()) as office:
            await asyncio.to_thread(cluster.start, "frozen")
            frozen = cluster.nodes["frozen"]
            await office.draw(within="PT1S")
            deadly = await office.send(deadly=True)

            async def is_frozen() -> bool:
                return await asyncio.to_thread(is_silent, frozen)

            await wait_until(is_frozen)
            told = time.monotonic()
            frozen.tell(signal.SIGTERM)
            await asyncio.to_thread(cluster.start, "immune")
            over = threading.Event()
            with ThreadPoolExecutor(1) as threads:
                watched = threads.submit(watch, cluster.nodes["immune"], over)
                try:
                    assert await asyncio.to_thread(frozen.ended) == 1
                    took = time.monotonic() - told
                    await wait_late(office, [await office.send(), deadly])
                finally:
                    over.set()
                assert max(watched.result()) < MAX_ANSWER_S
            assert took < BUDGET_S
            assert any("in fire_timer" in line for line in frozen.errors)
            assert cluster.nodes["immune"].terminate() == 0


def is_silent(program: Program) -> bool:
    """Whether nothing is said of its health for a while."""
    try:
        httpx.get(f"http://127.0.0.1:{program.ports['ADMIN']}/livez", timeout=2.0)
    except httpx.TimeoutException:
        return True
    return False


async def wait_late(office: Office, errands: list[Errand]) -> None:
    """Returns when the timers of some errands have fired."""
    for errand in errands:

        async def is_over(errand: Errand = errand) -> bool:
            return (await office.read(errand)).status == "COMPLETED"

        await wait_until(is_over)


async def wait_until(fact: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a fact that nobody announces."""
    for _ in range(round(PATIENCE_S / 0.1)):
        if await fact():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the fact did not come true")


LONG, ITS_ENEMY = "a" * 1_000_000, "b" * 1_000_000 + "a"
SLOW_STEPS = definition(
    "slow",
    step("hold", "WAIT", "end", boundaryEvents=[timer("PT1S", "choose", interrupting=True)]),
    step("choose", "DECISION", conditionalNextSteps={"trim(a, b) == 'a'": "end", "true": "end"}),
    end(),
)
SLOW_PLAYBOOK = """
metadata: {name: slow}
workflow:
- step: rest
  tool: {kind: wait, seconds: 1}
  next: {arcs: [{step: end, when: "{{ ('a'*1000000)|trim('b'*1000000 ~ 'a') == '' }}"}]}
- step: end
"""
MAX_ANSWER_S = 5.0
"""Within which a health check is answered, on a machine that does much else."""


def watch(program: Program, over: threading.Event) -> list[float]:
    """How long each of the health checks took that were made until it was over."""
    took = []
    while not over.is_set():
        began = time.monotonic()
        assert program.admin.get("/readyz").status_code == 200
        took.append(time.monotonic() - began)
        over.wait(0.05)
    return took


def test_expressions_that_trim_long_texts_behind_a_timer_stop_no_node(database: str, tmp_path: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        nodes = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            settings = {"POSTGRES_URL": database, "NODE_ID": name, "IAM_MODE": "mock"}
            nodes.append(stack.enter_context(started(tmp_path / name, ports=None, **settings)).ready())
        api, over = nodes[0].api(context_path=""), threading.Event()
        watches = [threads.submit(watch, node, over) for node in nodes]
        stack.callback(over.set)
        assert api.post("/v1/definitions", SLOW_STEPS).status_code == 201
        assert api.post("/v1/playbooks", SLOW_PLAYBOOK.encode()).status_code == 201
        begun = api.post("/v1/instances", {"definitionId": "slow", "variables": {"a": LONG, "b": ITS_ENEMY}}).json()
        execution = api.post("/v1/executions", {"path": "slow"}).json()["id"]

        def is_over(path: str, *running: str) -> bool:
            return api.get(path).json()["status"] not in running

        eventually(lambda: is_over(f"/v1/instances/{begun['id']}", "RUNNING", "WAITING"), within_s=PATIENCE_S)
        eventually(lambda: is_over(f"/v1/executions/{execution}", "running"), within_s=PATIENCE_S)
        failed = api.get(f"/v1/instances/{begun['id']}").json()
        assert (failed["status"], "budget exceeded" in failed["failureReason"]) == ("FAILED", True)
        assert api.get(f"/v1/executions/{execution}").json()["failureReason"] == "GUARD_ERROR"
        over.set()
        slowest = max(max(watched.result()) for watched in watches)
        assert slowest < MAX_ANSWER_S
        assert [node.terminate() for node in nodes] == [0, 0]
