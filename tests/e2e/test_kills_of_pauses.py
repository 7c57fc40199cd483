"""The service is killed while runs pause and entities are suspended
(docs/reference/workflows.md#retries, docs/reference/operations.md#suspensions).
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from tests.builders import SAMPLE, Json, a_processor, a_workflow, manual
from tests.database import connected
from tests.e2e.program import Program, started
from tests.service import Api, done, eventually, refused

RETRY: Json = {"attempts": 3, "delay": "PT5M", "maxDelay": "PT5M", "totalTime": "PT10M", "on": ["NO_MEMBER"]}
SUBMITTED = SAMPLE | {"motivation": "submitted"}
MODES = ("SYNC", "COMMIT_BEFORE_DISPATCH")
NOW = "SELECT now_us()"
MODEL: Json = {"name": "prize", "version": 1}


def build_flow() -> Json:
    """A transition for each mode, with a processor that nobody does: it is tried again after minutes."""
    rule = {"annotations": {"statewright": {"retry": RETRY}}}
    moves = [
        manual(f"GO_{mode}", to="DONE", processors=[a_processor(tags="nobody", mode=mode) | rule]) for mode in MODES
    ]
    return a_workflow(NEW=[*moves, manual("STAY", to="NEW")], DONE=[])


def suspend(ops: Api, scope: str, **members: Json) -> str:
    response = ops.post("/suspensions", {"scope": scope, "reason": "maintenance", **members})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def ops_of(program: Program) -> Api:
    return replace(program.api(), url=f"{program.root}/ops/v1")


async def wait_until(url: str, instant: datetime) -> None:
    """Returns when it is past the instant by the clock of the database."""
    async with connected(url) as connection:
        for _ in range(1500):
            if await connection.fetchval(NOW) > instant.timestamp() * 1_000_000:
                return
            await asyncio.sleep(0.02)
    raise AssertionError(instant)


def test_what_a_killed_service_leaves(tmp_path: Path, database: str) -> None:
    """A run in a pause between two attempts leaves nothing, or, behind a segment, what was submitted. A suspension
    holds afterwards, unless its time has passed meanwhile.
    """
    settings = {"POSTGRES_URL": database, "SUPPRESS_BANNER": "true"}
    with started(tmp_path, **settings) as program, ThreadPoolExecutor() as clients:
        api, ops = program.ready().api(), ops_of(program)
        api.a_model(build_flow())
        entities = {mode: api.create().id for mode in MODES}
        held, free = api.create().id, api.create().id
        firing = [
            clients.submit(api.put, f"/entity/JSON/{entity}/GO_{mode}", SUBMITTED) for mode, entity in entities.items()
        ]
        eventually(lambda: program.log.count("callout_retried") == len(MODES))
        kept = suspend(ops, "ENTITY", id=held)
        until = datetime.now(UTC) + timedelta(seconds=2)
        over = suspend(ops, "TRANSITION", model=MODEL, transition="STAY", until=until.isoformat())
        program.kill()
        for each in firing:
            with suppress(httpx.TransportError):
                each.result(30)
    asyncio.run(wait_until(database, until))
    with started(tmp_path, **settings) as program:
        api, ops = program.ready().api(), ops_of(program)
        found = {mode: api.read(entity) for mode, entity in entities.items()}
        assert [each["meta"]["state"] for each in found.values()] == ["NEW", "NEW"]
        assert [each["data"] for each in found.values()] == [SAMPLE, SUBMITTED]
        versions = [len(api.get(f"/entity/{entity}/changes").json()) for entity in entities.values()]
        assert versions == [1, 2]
        refused(api.put(f"/entity/JSON/{held}", SAMPLE), 409, "SUSPENDED")
        assert done(ops.get(f"/suspensions/{kept}"))["active"] is True
        eventually(lambda: done(ops.get(f"/suspensions/{over}"))["active"] is False)
        eventually(lambda: api.put(f"/entity/JSON/{free}/STAY", SAMPLE).status_code == 200)
        assert program.terminate() == 0
