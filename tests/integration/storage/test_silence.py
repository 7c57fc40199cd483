"""A database that falls silent under those who hold a connection (decision S14)."""

import asyncio
from datetime import timedelta

import pytest

from statewright.failures import StorageUnavailable
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import Pool
from tests.integration.storage.network import Network, a_network

SOON = timedelta(milliseconds=100)
LATER = timedelta(minutes=10)
LONG = "SELECT pg_sleep(600)"


async def hold_until_told(pool: Pool, network: Network) -> None:
    async with asyncio.timeout(20), pool.connection(limit=None) as connection:
        statement = asyncio.create_task(connection.execute(LONG))
        await asyncio.sleep(0)
        network.mute()
        await statement


async def test_who_may_take_their_time_is_told_when_nobody_is_answered_any_more(database: str):
    """Be it that a new connection is not answered, or one that was idle."""
    async with a_network(database) as network:
        url = parse_database_url(network.url)
        for idle in (0, 1):
            async with Pool(url, size=2, watch_interval=SOON, probe_timeout=SOON) as pool:
                connections = [await pool.acquire(LATER) for _ in range(idle + 1)]
                for connection in connections:
                    pool.release(connection)
                with pytest.raises(StorageUnavailable):
                    await hold_until_told(pool, network)
            network.cut()


async def test_who_may_take_their_time_has_it_while_others_are_answered(database: str):
    async with Pool(parse_database_url(database), size=1, watch_interval=SOON / 10, probe_timeout=LATER) as pool:
        async with pool.connection(limit=None) as connection:
            assert await connection.fetchval("SELECT 1 FROM pg_sleep(0.5)") == 1
        assert pool.state.open == 1


async def test_everybody_else_has_a_limit(database: str):
    async with Pool(parse_database_url(database), size=1) as pool:
        with pytest.raises(StorageUnavailable):
            async with asyncio.timeout(20), pool.connection(limit=SOON) as connection:
                await connection.execute(LONG)
