"""Retries of incidents whose node is killed (docs/reference/operations.md#incidents)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import asyncpg
import httpx

from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated
from tests.database import connected
from tests.e2e.program import started
from tests.service import Api, done, eventually, refused

ABSENT = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(tags="nobody")])], DONE=[])
"""Nobody answers: creating an entity fails."""

PRESENT = a_workflow(NEW=[automated("GO", to="DONE")], DONE=[])

HELD_UP = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'ops_audit'::regclass"
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


async def wait_for(connection: asyncpg.Connection, question: str, count: int) -> None:
    for _ in range(1500):
        if await connection.fetchval(question) == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(question)


def fail_to_create(api: Api, ops: Api) -> str:
    """The id of the incident."""
    api.a_model(ABSENT)
    assert api.post("/entity/JSON/prize/1", SAMPLE).status_code >= 400
    found: list[Json] = []

    def look() -> bool:
        found[:] = done(ops.get("/incidents"))["items"]
        return bool(found)

    eventually(look)
    api.import_workflows(PRESENT)
    return str(found[0]["id"])


async def test_a_creation_is_not_retried_twice_when_its_node_is_killed(tmp_path: Path, database: str) -> None:
    """The retry is held up where it records what was done, and its node is killed there. Whether the database carries
    out what it was sent or not: with the next retry there is one entity.
    """
    settings = {"POSTGRES_URL": database, "SUPPRESS_BANNER": "true"}
    async with connected(database) as connection:
        with started(tmp_path, **settings) as program, ThreadPoolExecutor() as clients:
            api = await asyncio.to_thread(lambda: program.ready().api())
            ops = replace(api, url=f"{program.root}/ops/v1")
            incident = await asyncio.to_thread(fail_to_create, api, ops)
            async with connection.transaction():
                await connection.execute("LOCK TABLE ops_audit IN SHARE MODE")
                retrying = clients.submit(ops.post, f"/incidents/{incident}/retry")
                await wait_for(connection, HELD_UP, 1)
                await asyncio.to_thread(program.kill)
                with suppress(httpx.TransportError):
                    retrying.result(30)
        await wait_for(connection, OTHERS, 0)
        await connection.execute("UPDATE incident SET retried_until = 0")  # as if the time of the claim were over
        with started(tmp_path, **settings) as program:
            api = await asyncio.to_thread(lambda: program.ready().api())
            ops = replace(api, url=f"{program.root}/ops/v1")
            again = await asyncio.to_thread(ops.post, f"/incidents/{incident}/retry")
            if again.status_code != 200:
                refused(again, 409, "INCIDENT_CLOSED")
            shown = await asyncio.to_thread(lambda: done(ops.get(f"/incidents/{incident}")))
            assert shown["resolution"]["how"] == "RETRIED"
        assert await connection.fetchval("SELECT count(*) FROM entity") == 1
