"""Nodes share what is due (docs/reference/workflows.md#scanning): of nine timers none of three nodes fires more than
five.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders import a_workflow
from tests.database import connected
from tests.e2e.program import Program, started
from tests.integration.schedules.conftest import scheduled
from tests.integration.steps.conftest import definition, end, step, timer
from tests.service import eventually

RUNS = int(os.environ.get("STATEWRIGHT_TEST_SHARE_RUNS", "3"))
TIMERS, MOST = 9, 5
LATER = timedelta(seconds=1.5)
LAPSES = a_workflow(Booked=[scheduled("lapse", to="Lapsed")], Lapsed=[])
BOUNDARY = timer("PT1H", "end", interrupting=True)
WAITS = definition("waits", step("hold", "WAIT", "end", boundaryEvents=[BOUNDARY]), end())
SECONDS = "engine_db_transaction_duration_seconds"
FIRED = re.compile(rf'^\w*{SECONDS}_count{{tx_type="instance.dispatch_boundary"}} (\d+)', re.MULTILINE)


@pytest.fixture
def nodes(database: str, tmp_path: Path) -> Iterator[list[Program]]:
    with ExitStack() as stack:
        running = []
        for name in ("a", "b", "c"):
            home = tmp_path / name
            home.mkdir()
            settings = {"POSTGRES_URL": database, "NODE_ID": name, "IAM_MODE": "mock", "LOG_LEVEL": "debug"}
            running.append(stack.enter_context(started(home, **settings)).ready())
        yield running


def count_transitions(program: Program) -> int:
    return program.log.count("msg=scheduled_task_settled")


def count_boundary_timers(program: Program) -> int:
    found = FIRED.search(program.admin.get("/metrics").text)
    return int(found[1]) if found else 0


def let_fire(nodes: list[Program], count: Callable[[Program], int], make_due: Callable[[int], None]) -> list[int]:
    """How many each node fires of ``TIMERS`` that are due at once, at an instant in epoch milliseconds."""
    before = [count(node) for node in nodes]
    make_due(round((time.time() + LATER.total_seconds()) * 1000))
    eventually(lambda: sum(map(count, nodes)) == sum(before) + TIMERS)
    return [count(node) - past for node, past in zip(nodes, before, strict=True)]


def execute(database: str, statement: str, *arguments: object) -> None:
    async def run() -> None:
        async with connected(database) as connection:
            await connection.execute(statement, *arguments)

    asyncio.run(run())


def test_no_node_fires_more_than_its_share_of_transitions(nodes: list[Program], database: str) -> None:
    api = nodes[0].api()
    model = api.a_model(LAPSES)

    def make_due(at: int) -> None:
        for _ in range(TIMERS):
            api.create(model=model)
        execute(database, "UPDATE scheduled_task SET fire_at = $1", at)

    fired = [let_fire(nodes, count_transitions, make_due) for _ in range(RUNS)]
    assert max(map(max, fired)) <= MOST, fired


def test_no_node_fires_more_than_its_share_of_boundary_timers(nodes: list[Program], database: str) -> None:
    api = nodes[0].api(context_path="")
    assert api.post("/v1/definitions", WAITS).status_code == 201

    def make_due(at: int) -> None:
        for _ in range(TIMERS):
            assert api.post("/v1/instances", {"definitionId": "waits"}).status_code == 201
        execute(database, "UPDATE process_timer SET fire_at = $1", at * 1000)

    fired = [let_fire(nodes, count_boundary_timers, make_due) for _ in range(RUNS)]
    assert max(map(max, fired)) <= MOST, fired
