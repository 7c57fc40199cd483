"""Migrations, on a real database and with several nodes at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
from msgspec import structs

from statewright.storage import migrate
from statewright.storage.migrate import (
    Migration,
    SchemaDiffers,
    SchemaNewer,
    SchemaNotReadable,
    SchemaOutdated,
    SchemaRefused,
    ServerUnfit,
)
from tests.database import connected, database_url, drop_database, new_name, temporary_database

THREE = tuple(
    Migration(
        version=version, name=f"000{version}_{name}.sql", sql=f"CREATE TABLE {name} (); COMMENT ON TABLE {name} IS ''"
    )
    for version, name in enumerate(("one", "two", "three"), 1)
)

TABLES = "SELECT array_agg(tablename ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'"

WAITING_LOCKS = """
    SELECT count(*) FROM pg_locks
    WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@pytest.fixture
async def empty_database(database_server: str) -> AsyncIterator[str]:
    """The URL of a fresh database without any schema."""
    async with temporary_database(database_server) as url:
        yield url


@pytest.fixture
async def connection(empty_database: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the empty database."""
    async with connected(empty_database) as connection:
        yield connection


class TestReading:
    def test_files_come_in_the_order_of_their_numbers(self, tmp_path: Path):
        for name in ("0002_b.sql", "0001_a.sql", "notes.txt"):
            (tmp_path / name).write_text(f"-- {name}")
        assert [(m.version, m.name, m.sql) for m in migrate.read_migrations(tmp_path)] == [
            (1, "0001_a.sql", "-- 0001_a.sql"),
            (2, "0002_b.sql", "-- 0002_b.sql"),
        ]

    @pytest.mark.parametrize("names", [["0002_b.sql"], ["0001_a.sql", "0003_c.sql"], ["0001_a.sql", "0001_b.sql"]])
    def test_numbers_without_a_gap_or_a_double_are_asked_for(self, tmp_path: Path, names: list[str]):
        for name in names:
            (tmp_path / name).touch()
        with pytest.raises(ValueError, match="numbered from 0001 without a gap"):
            migrate.read_migrations(tmp_path)

    @pytest.mark.parametrize("name", ["1_a.sql", "0001-a.sql", "0001_A.sql", "a.sql"])
    def test_a_file_of_another_name_is_refused_rather_than_overlooked(self, tmp_path: Path, name: str):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=r"is not named like 0001_what_it_does\.sql"):
            migrate.read_migrations(tmp_path)

    def test_a_second_checksum_of_a_file_is_that_of_an_equivalent(self, tmp_path: Path):
        (tmp_path / "0001_a.sql").write_text("SELECT 1")
        (tmp_path / "checksums.txt").write_text("# all\naa 0001_a.sql\n# a comment differed\nbb 0001_a.sql\n")
        [migration] = migrate.read_migrations(tmp_path)
        assert migration.equivalents == {"bb"}

    def test_line_ends_do_not_count(self):
        unix = Migration(version=1, name="0001_a.sql", sql="SELECT 1;\nSELECT 2;\n")
        assert unix.checksum == structs.replace(unix, sql="SELECT 1;\r\nSELECT 2;\r\n").checksum
        assert unix.checksum != structs.replace(unix, sql="SELECT 1;\nSELECT 3;\n").checksum


class TestApplying:
    async def test_pending_migrations_are_applied_in_order_and_recorded(self, connection: asyncpg.Connection):
        assert await migrate.apply_pending(connection, THREE) == THREE
        assert await connection.fetchval(TABLES) == ["one", "schema_migration", "three", "two"]
        rows = await connection.fetch("SELECT version, name, checksum FROM schema_migration ORDER BY applied_at")
        assert [tuple(row) for row in rows] == [(m.version, m.name, m.checksum) for m in THREE]

    async def test_applying_again_does_nothing(self, connection: asyncpg.Connection):
        await migrate.apply_pending(connection, THREE)
        assert await migrate.apply_pending(connection, THREE) == ()

    async def test_only_what_is_new_is_applied_later(self, connection: asyncpg.Connection):
        await migrate.apply_pending(connection, THREE[:1])
        assert await migrate.list_pending(connection, THREE) == THREE[1:]
        assert await migrate.apply_pending(connection, THREE) == THREE[1:]
        assert await migrate.list_pending(connection, THREE) == ()

    async def test_asking_what_is_pending_changes_nothing(self, connection: asyncpg.Connection):
        assert await migrate.list_pending(connection, THREE) == THREE
        assert await connection.fetchval(TABLES) is None

    async def test_a_migration_that_fails_leaves_nothing_of_itself(self, connection: asyncpg.Connection):
        broken = structs.replace(THREE[1], sql="CREATE TABLE two (); SELECT 1 / 0")
        with pytest.raises(asyncpg.DivisionByZeroError):
            await migrate.apply_pending(connection, (THREE[0], broken, THREE[2]))
        assert await connection.fetchval(TABLES) == ["one", "schema_migration"]
        assert await migrate.apply_pending(connection, THREE) == THREE[1:]

    async def test_a_file_must_not_end_its_transaction(self, connection: asyncpg.Connection):
        with pytest.raises(ValueError, match=r"0001_one\.sql ends its transaction"):
            await migrate.apply_pending(connection, (structs.replace(THREE[0], sql="COMMIT"),))

    async def test_those_of_this_program_apply_and_satisfy_the_check(self, database: str):
        async with connected(database) as connection:
            await migrate.check_schema(connection)
            assert await migrate.apply_pending(connection) == ()


class TestRefusing:
    async def test_a_database_that_lacks_a_migration_does_not_pass_the_check(self, connection: asyncpg.Connection):
        await migrate.apply_pending(connection, THREE[:1])
        with pytest.raises(SchemaOutdated, match="has version 1, this program needs 3: run `statewright migrate`"):
            await migrate.check_schema(connection, THREE)
        await migrate.apply_pending(connection, THREE)
        await migrate.check_schema(connection, THREE)

    @pytest.mark.parametrize("operation", [migrate.list_pending, migrate.apply_pending, migrate.check_schema])
    async def test_a_database_newer_than_the_program_is_refused(self, connection: asyncpg.Connection, operation):
        await migrate.apply_pending(connection, THREE)
        with pytest.raises(SchemaNewer, match="has version 3, newer than 2 of this program"):
            await operation(connection, THREE[:2])

    @pytest.mark.parametrize("operation", [migrate.list_pending, migrate.apply_pending, migrate.check_schema])
    async def test_an_applied_file_that_changed_is_refused_by_name(self, connection: asyncpg.Connection, operation):
        await migrate.apply_pending(connection, THREE)
        changed = structs.replace(THREE[1], sql="CREATE TABLE other ()")
        with pytest.raises(SchemaDiffers, match=r"0002_two\.sql has changed since it was applied"):
            await operation(connection, (THREE[0], changed, THREE[2]))

    async def test_an_equivalent_text_was_as_good(self, connection: asyncpg.Connection):
        """Of a database that was migrated with it."""
        await migrate.apply_pending(connection, THREE[:2])
        edited = structs.replace(THREE[1], sql=f"-- Another comment.\n{THREE[1].sql}")
        with pytest.raises(SchemaDiffers):
            await migrate.apply_pending(connection, (THREE[0], edited, THREE[2]))
        known = structs.replace(edited, equivalents=frozenset({THREE[1].checksum}))
        assert await migrate.apply_pending(connection, (THREE[0], known, THREE[2])) == THREE[2:]

    @pytest.mark.parametrize(
        "checksum",
        [
            pytest.param("92b6c587d0e4617e5ed0f981ae781b7a2ff0c1b0d993467a6f1236c31d77c11a", id="as-it-landed"),
            pytest.param(
                "ebb0c0b78451e95769c1f910b1d37cc59aa432ecaf6a9062169c11807d3ace70", id="with-an-edited-comment"
            ),
        ],
    )
    async def test_both_texts_of_migration_2_that_were_applied_count(self, database: str, checksum: str):
        async with connected(database) as connection:
            await connection.execute("UPDATE schema_migration SET checksum = $1 WHERE version = 2", checksum)
            await migrate.check_schema(connection)

    async def test_a_record_with_a_hole_is_refused(self, connection: asyncpg.Connection):
        await migrate.apply_pending(connection, THREE)
        await connection.execute("DELETE FROM schema_migration WHERE version = 2")
        with pytest.raises(SchemaDiffers, match=r"0002_two\.sql was left out"):
            await migrate.apply_pending(connection, THREE)

    @pytest.mark.parametrize(
        "refusal", [SchemaNewer(3, 2), SchemaOutdated(1, 3), SchemaDiffers("0002_two.sql", "was left out")]
    )
    def test_every_refusal_is_one_line(self, refusal: SchemaRefused):
        assert "\n" not in str(refusal)

    async def test_another_encoding_than_utf_8(self, connection: asyncpg.Connection, empty_database: str):
        name = new_name()
        await connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
        try:
            async with connected(database_url(empty_database, name)) as latin:
                for use in (migrate.apply_pending, migrate.check_schema):
                    with pytest.raises(ServerUnfit, match=r"the encoding LATIN1: create it with ENCODING 'UTF8'"):
                        await use(latin)
                assert await latin.fetchval(TABLES) is None
        finally:
            await drop_database(empty_database, name)

    def test_an_old_server(self):
        migrate.refuse_server(version=150_000, encoding="UTF8")
        migrate.refuse_server(version=150_000, encoding="SQL_ASCII")
        with pytest.raises(ServerUnfit, match=r"PostgreSQL 14: 15 or newer is needed"):
            migrate.refuse_server(version=140_012, encoding="UTF8")

    @pytest.mark.parametrize(
        ("limit", "reason"),
        [
            ("SET ROLE pg_monitor", "permission denied for schema public"),
            ("SET default_transaction_read_only = on", "cannot execute CREATE TABLE in a read-only transaction"),
            ("SET search_path = nowhere", "no schema has been selected to create in"),
        ],
    )
    async def test_a_database_that_lets_nothing_be_changed(
        self, connection: asyncpg.Connection, limit: str, reason: str
    ):
        await connection.execute(limit)
        with pytest.raises(SchemaNotReadable, match=f"the schema of the database cannot be read or changed: {reason}"):
            await migrate.apply_pending(connection, THREE)


class TestSeveralNodes:
    async def test_nodes_that_start_at_once_apply_everything_exactly_once(self, empty_database: str):
        slow = tuple(structs.replace(m, sql=f"{m.sql}; SELECT pg_sleep(0.02)") for m in THREE)
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(connected(empty_database)) for _ in range(8)]
            shares = await asyncio.gather(*(migrate.apply_pending(node, slow) for node in nodes))
            assert sorted(m.version for share in shares for m in share) == [1, 2, 3]
            for node in nodes:
                await migrate.check_schema(node, slow)

    async def test_a_migration_gives_way_to_a_running_node_that_it_would_deadlock_with(self, empty_database: str):
        tables = Migration(
            version=1, name="0001_tables.sql", sql="CREATE TABLE first (n integer); CREATE TABLE second (n integer)"
        )
        altering = Migration(
            version=2,
            name="0002_both.sql",
            sql="ALTER TABLE first ADD COLUMN added integer; ALTER TABLE second ADD COLUMN added integer",
        )
        async with connected(empty_database) as node, connected(empty_database) as migrating:
            await migrate.apply_pending(migrating, [tables])
            async with node.transaction():
                await node.execute("SELECT n FROM second")
                applying = asyncio.create_task(migrate.apply_pending(migrating, [tables, altering]))
                while not await node.fetchval(WAITING_LOCKS):  # noqa: ASYNC110 - there is no event
                    await asyncio.sleep(0.01)
                await node.execute("SELECT n FROM first")  # held by the migration, which waits for ``second``
            assert await applying == (altering,)

    async def test_isolation_that_the_database_prefers_makes_no_difference(self, empty_database: str):
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(connected(empty_database)) for _ in range(4)]
            for node in nodes:
                await node.execute("SET default_transaction_isolation TO 'repeatable read'")
            shares = await asyncio.gather(*(migrate.apply_pending(node, THREE) for node in nodes))
            assert sorted(m.version for share in shares for m in share) == [1, 2, 3]

    async def test_a_node_killed_in_the_middle_is_replaced_by_the_next(self, empty_database: str):
        endless = structs.replace(THREE[1], sql=f"{THREE[1].sql}; SELECT pg_sleep(3600)")
        async with connected(empty_database) as first, connected(empty_database) as second:
            dying = asyncio.create_task(migrate.apply_pending(first, (THREE[0], endless, THREE[2])))
            while await second.fetchval(WAIT_OF, first.get_server_pid()) != "PgSleep":
                pass
            waiting = asyncio.create_task(migrate.apply_pending(second, THREE))
            async with connected(empty_database) as third:
                while await third.fetchval(WAIT_OF, second.get_server_pid()) != "advisory":
                    pass
                await third.execute("SELECT pg_terminate_backend($1)", first.get_server_pid())
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
                await dying
            assert await waiting == THREE[1:]


WAIT_OF = "SELECT wait_event FROM pg_stat_activity WHERE pid = $1"
