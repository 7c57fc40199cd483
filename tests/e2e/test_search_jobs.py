"""SIGKILL in the middle of an asynchronous search: another process finishes it."""

import asyncio
from pathlib import Path

import asyncpg

from tests.database import connected
from tests.e2e.program import PATIENCE_S, started
from tests.integration.search.finding import EVERYTHING, a_parcel_model, asked, parcels
from tests.service import done, eventually

ATTEMPTS = "SELECT attempts FROM search_job WHERE id = $1"

END_LEASES = "UPDATE search_job SET lease_until = 0"
"""Instead of the quarter of a minute after which a process that is silent counts as dead."""


async def test_a_job_whose_process_is_killed_is_finished_by_another(tmp_path: Path, database: str) -> None:
    async with connected(database) as connection:
        with started(tmp_path, POSTGRES_URL=database) as first:
            api = first.ready().api()
            a_parcel_model(api)
            parcels(api, *[{"name": name} for name in "abc"])
            async with connected(database) as holder, holder.transaction():
                await holder.execute("LOCK TABLE entity_history IN ACCESS EXCLUSIVE MODE")
                job = done(asked(api, EVERYTHING, path="/search/async/parcel/1", sort="name:desc"))
                await claimed(connection, job)
                first.kill()
                assert await connection.execute(END_LEASES) == "UPDATE 1"
        with started(tmp_path, POSTGRES_URL=database) as second:
            api = second.ready().api()
            eventually(
                lambda: done(api.get(f"/search/async/{job}/status"))["searchJobStatus"] == "SUCCESSFUL",
                within_s=PATIENCE_S,
            )
            page = done(api.get(f"/search/async/{job}"))
            assert [envelope["data"]["name"] for envelope in page["content"]] == ["c", "b", "a"]
        assert await connection.fetchval(ATTEMPTS, job) == 2


async def claimed(connection: asyncpg.Connection, job: str) -> None:
    """Waits until a process works on the job."""
    async with asyncio.timeout(PATIENCE_S):
        while await connection.fetchval(ATTEMPTS, job) == 0:
            pass
