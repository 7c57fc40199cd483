"""Statements that a connection keeps prepared (storage/pool.py)."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from statewright.failures import StorageUnavailable
from statewright.storage.connections import parse_database_url
from statewright.storage.pool import MAX_PREPARED, ConnectionGuard, DatabaseConnection, Pool, connect


@pytest.fixture
async def connection(database: str) -> AsyncIterator[DatabaseConnection]:
    connection = await connect(parse_database_url(database))
    await connection.execute("CREATE TEMPORARY TABLE thing (a int)")
    await connection.execute("INSERT INTO thing VALUES (1), (2)")
    yield connection
    await connection.close()


async def test_it_finds_what_fetch_finds(connection: DatabaseConnection) -> None:
    for least in (1, 2, 3):
        statement = "SELECT a FROM thing WHERE a >= $1 ORDER BY a"
        assert await connection.fetch_prepared(statement, [least]) == await connection.fetch(statement, least)
    assert len(connection.prepared) == 1


async def test_a_table_that_was_altered_is_read_as_it_is_now(connection: DatabaseConnection) -> None:
    assert [*map(tuple, await connection.fetch_prepared("SELECT * FROM thing WHERE a = $1", [1]))] == [(1,)]
    await connection.execute("ALTER TABLE thing ADD COLUMN b text DEFAULT 'x'")
    for _ in range(2):
        assert [*map(tuple, await connection.fetch_prepared("SELECT * FROM thing WHERE a = $1", [1]))] == [(1, "x")]


async def test_a_refused_statement_says_why_and_leaves_the_connection_clean(connection: DatabaseConnection) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.fetch_prepared("SELECT FROM nothing", [])
    with pytest.raises(asyncpg.DataError):
        await connection.fetch_prepared("SELECT $1::int", ["no number"])
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connection.fetch_prepared("SELECT 1 / $1::int", [0])
    assert connection.is_clean
    assert [*map(tuple, await connection.fetch_prepared("SELECT $1::int", [5]))] == [(5,)]


async def test_only_so_many_are_kept(connection: DatabaseConnection) -> None:
    for number in range(MAX_PREPARED + 3):
        await connection.fetch_prepared(f"SELECT {number}", [])
    assert len(connection.prepared) == MAX_PREPARED


async def test_a_connection_that_breaks_is_told_as_storage_that_is_away(database: str) -> None:
    async with Pool(parse_database_url(database), size=1) as pool:
        async with pool.connection():
            pass
        connection = pool.take_idle()
        assert connection is not None
        with pytest.raises(StorageUnavailable), ConnectionGuard(pool, connection):
            await connection.fetch_prepared("SELECT pg_terminate_backend(pg_backend_pid())", [])
        async with pool.connection() as other:
            assert other is not connection
