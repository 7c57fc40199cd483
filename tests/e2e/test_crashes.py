"""SIGKILL at any moment: whatever was acknowledged is there after the restart, and nothing is half there.

Six kills; ``STATEWRIGHT_TEST_KILLS=20`` kills twenty times.
"""

import asyncio
import os
import random
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.builders import SAMPLE, a_workflow, automated, manual, when
from tests.database import connected
from tests.e2e.program import Program, started
from tests.service import eventually

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made once; a client that makes its own takes longer for it than for its requests."""

ROUNDS = int(os.environ.get("STATEWRIGHT_TEST_KILLS", "6").split(",")[0])
CLIENTS = 64

LIFE = a_workflow(
    New=[
        manual("APPROVE", to="Approved"),
        automated("REJECT", to="Rejected", criterion=when("$.year", "LESS_THAN", 0)),
    ],
    Approved=[automated("PRAISE", to="Praised", criterion=when("$.category", "EQUALS", "peace"))],
    Praised=[manual("FORGET", to="New")],
    Rejected=[],
)


@dataclass
class Memory:
    """What clients were told: which transactions wrote which entities."""

    writes: list[tuple[str, str]] = field(default_factory=list)
    alive: list[str] = field(default_factory=list)
    """Entities that clients may meet at."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    _target: int = 0

    def expect(self, writes: int) -> None:
        """``reached`` is set once so many more writes were acknowledged."""
        self.reached.clear()
        self.alive.clear()
        self._target = len(self.writes) + writes

    def note(self, result: dict[str, object]) -> str:
        [entity] = result["entityIds"]  # type: ignore[misc]
        self.writes.append((entity, str(result["transactionId"])))
        if len(self.writes) >= self._target:
            self.reached.set()
        return str(entity)


async def a_client(url: str, memory: Memory, dice: random.Random) -> None:
    """Creates and moves entities until the service is gone."""
    # One pool per client: a shared one would hold all of them up when its connections break.
    async with httpx.AsyncClient(base_url=url, verify=NO_TLS, trust_env=False, timeout=20) as http:
        while True:
            document = {**SAMPLE, "category": dice.choice(["peace", "physics"]), "year": dice.choice([-1, 2024])}
            created = await http.post("/entity/JSON/prize/1", json=document)
            assert created.status_code == 200, created.text
            entity = memory.note(created.json()[0])
            for path in ("", "/APPROVE") if document["year"] > 0 else ("",):
                moved = await http.put(f"/entity/JSON/{entity}{path}", json={**document, "motivation": "x y"})
                assert moved.status_code == 200, moved.text
                memory.note(moved.json())
            await meddle(http, memory, entity, dice)


async def meddle(http: httpx.AsyncClient, memory: Memory, entity: str, dice: random.Random) -> None:
    """Write on an entity that somebody else may write on, too."""
    memory.alive.append(entity)
    other = dice.choice(memory.alive[-10:])
    response = await http.put(f"/entity/JSON/{other}", json=SAMPLE)
    assert response.status_code in {200, 409}, response.text
    if response.status_code == 200:
        memory.note(response.json())


async def a_round(program: Program, memory: Memory, dice: random.Random) -> None:
    """Let all clients write, and kill the service in the middle."""
    url = program.api().url
    memory.expect(dice.randint(CLIENTS, 6 * CLIENTS))
    async with asyncio.TaskGroup() as group:
        busy = [group.create_task(until_it_is_gone(url, memory, random.Random(dice.random()))) for _ in range(CLIENTS)]
        enough = group.create_task(memory.reached.wait())
        await asyncio.wait([enough, *busy], return_when=asyncio.FIRST_COMPLETED)
        program.process.kill()
        enough.cancel()
        await asyncio.to_thread(program.ended)


async def until_it_is_gone(url: str, memory: Memory, dice: random.Random) -> None:
    with suppress(httpx.TransportError):
        await a_client(url, memory, dice)


def database_of(data: Path) -> str:
    """The URL of the embedded server of a running service: its own files name the socket."""
    [status] = data.glob("**/postmaster.pid")
    _pid, _data, _started, port, sockets, *_ = status.read_text().splitlines()
    return f"postgresql://statewright@/postgres?host={quote(sockets)}&port={port}"


VERSIONS = """
    CREATE TEMPORARY VIEW version AS
    SELECT id, transaction_id, state, valid_from, valid_to, created_at, document FROM entity_history
     UNION ALL
    SELECT id, transaction_id, state, valid_from, 9223372036854775807, created_at, document FROM entity
"""

LOST = """
    -- Acknowledged writes of which there is no version.
    SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS told (id, transaction_id)
    EXCEPT
    SELECT id, transaction_id FROM version
"""

BROKEN_CHAINS = """
    -- Versions that do not end where their successor begins, or do not begin where the entity does.
    SELECT * FROM (
        SELECT id, valid_from, valid_to, created_at,
               lead(valid_from, 1, 9223372036854775807) OVER life AS successor, row_number() OVER life AS number
          FROM version WINDOW life AS (PARTITION BY id ORDER BY valid_from)
    ) AS chain
     WHERE valid_to <> successor OR (number = 1 AND valid_from <> created_at)
"""

UNTOLD = """
    -- Versions without exactly one run that ended in their state, and runs without a version.
    SELECT coalesce(version.id, run.entity) AS id, version.state, run.events
      FROM version
      FULL JOIN entity_audit AS run ON run.entity = version.id AND run.transaction_id = version.transaction_id
     WHERE version.id IS NULL OR run.entity IS NULL
        OR run.events::jsonb -> 0 ->> 'type' <> 'STATE_MACHINE_START'
        OR run.events::jsonb -> -1 ->> 'type' <> 'STATE_MACHINE_FINISH'
        OR run.events::jsonb -> -1 ->> 'state' <> version.state
        OR jsonb_array_length(run.events::jsonb) <> run.n
"""

TWICE = """
    SELECT id, transaction_id FROM version GROUP BY id, transaction_id HAVING count(*) > 1
     UNION ALL
    SELECT entity, transaction_id FROM entity_audit GROUP BY entity, transaction_id HAVING count(*) > 1
"""


async def assert_consistent(data: Path, memory: Memory) -> int:
    """Nothing acknowledged is missing, nothing is torn; how many versions there are."""
    async with connected(database_of(data)) as connection:
        await connection.execute(VERSIONS)
        told = [entity for entity, _ in memory.writes], [transaction for _, transaction in memory.writes]
        assert await connection.fetch(LOST, *told) == []
        for defect in (BROKEN_CHAINS, UNTOLD, TWICE):
            assert await connection.fetch(defect) == []
        return int(await connection.fetchval("SELECT count(*) FROM version"))


async def test_kills_lose_nothing_and_tear_nothing(tmp_path: Path) -> None:
    dice, memory, data = random.Random(20), Memory(), tmp_path / "data"
    for number in range(ROUNDS + 1):
        with started(tmp_path, DATA_DIRECTORY=str(data), SUPPRESS_BANNER="true") as program:
            await asyncio.to_thread(program.ready)
            if number == 0:
                program.api().a_model(LIFE)
            versions = await assert_consistent(data, memory)
            assert versions >= len(memory.writes)
            if number < ROUNDS:
                await a_round(program, memory, dice)
            else:
                last, transaction = memory.writes[-1]
                assert program.api().read(last, f"?transactionId={transaction}")["meta"]["id"] == last
                assert program.terminate() == 0
    assert len(memory.writes) > ROUNDS * CLIENTS


def holds(directory: Path, pattern: str) -> bool:
    """Whether there is such a file; files may come and go while one looks."""
    try:
        return any(directory.glob(pattern))
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "moment",
    [
        lambda program, data: data.exists(),
        lambda program, data: holds(data, "**/PG_VERSION"),
        lambda program, data: holds(data, "**/postmaster.pid"),
        lambda program, data: "migration_applied" in program.log,
    ],
    ids=["directory made", "cluster begun", "server started", "migrating"],
)
def test_a_kill_during_the_first_start_blocks_no_other(
    tmp_path: Path, moment: Callable[[Program, Path], object]
) -> None:
    data = tmp_path / "data"
    for _ in range(2):
        with started(tmp_path, DATA_DIRECTORY=str(data)) as program:
            eventually(lambda program=program: moment(program, data))
            program.kill()
    with started(tmp_path, DATA_DIRECTORY=str(data)) as program:
        api = program.ready().api()
        api.a_model()
        assert api.state(api.create().id) == "CREATED"
        assert program.terminate() == 0
