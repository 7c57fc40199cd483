"""The connection pool, against a real server and a network that can fail."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from statewright.failures import StorageUnavailable
from statewright.storage.connections import add_session_settings, parse_database_url
from statewright.storage.pool import ConnectionLost, DatabaseConnection, Pool, connect
from tests.database import connected

SOON = timedelta(milliseconds=50)
PATIENTLY = timedelta(seconds=20)

IS_BLOCKED = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')
"""


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    """A pool of two connections."""
    async with Pool(parse_database_url(database), size=2) as pool:
        yield pool


@pytest.fixture
async def single(database: str) -> AsyncIterator[Pool]:
    """A pool of one connection, so that everybody must wait for everybody."""
    async with Pool(parse_database_url(database), size=1) as pool:
        yield pool


async def execute(pool: Pool, *statements: str) -> None:
    """Run statements on one connection of the pool."""
    async with pool.connection(within=PATIENTLY) as connection:
        for statement in statements:
            await connection.execute(statement)


async def prepare_and_fail(pool: Pool, error: BaseException) -> None:
    """Leave a connection of the pool between the two halves of a statement."""
    async with pool.connection() as connection:
        await connection.prepare("SELECT 1")
        raise error


async def backend(pool: Pool) -> int:
    """The number of the backend that a user of the pool gets."""
    async with pool.connection(within=PATIENTLY) as connection:
        return connection.process_id


async def eventually(fact: str, database: str) -> None:
    """Wait until a query, asked on a connection of its own, answers true."""
    async with asyncio.timeout(20), connected(database) as connection:
        while not await connection.fetchval(fact):
            pass


async def until(happened: Callable[[], bool]) -> None:
    """Wait until something is so that announces itself to nobody."""
    async with asyncio.timeout(20):
        while not happened():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.001)


async def queued(pool: Pool, count: int) -> None:
    """Wait until so many tasks wait for a connection."""
    await until(lambda: pool.state.waiting == count)


class TestLending:
    async def test_a_connection_is_opened_when_it_is_first_needed_and_then_kept(self, pool: Pool):
        assert pool.state.open == 0
        first = await backend(pool)
        assert pool.state.open == 1
        assert await backend(pool) == first

    async def test_there_are_never_more_connections_than_the_size_and_everybody_gets_one(self, pool: Pool):
        backends: set[int] = set()
        present = most = 0
        two_present = asyncio.Event()

        async def visit() -> None:
            nonlocal present, most
            async with pool.connection(within=PATIENTLY) as connection:
                present += 1
                most = max(most, present)
                if present == 2:
                    two_present.set()
                await two_present.wait()  # else the first connection may do all before the second is open
                backends.add(await connection.fetchval("SELECT pg_backend_pid()"))
                present -= 1

        await asyncio.gather(*(visit() for _ in range(50)))
        assert most == len(backends) == pool.state.open == 2

    async def test_who_asked_first_is_served_first(self, single: Pool):
        served: list[int] = []

        async def visit(number: int) -> None:
            async with single.connection(within=PATIENTLY):
                served.append(number)

        async with single.connection():
            visits = [asyncio.create_task(visit(number)) for number in range(5)]
            await queued(single, 5)
        late = asyncio.create_task(visit(5))  # asks after the release, before anybody could run
        await asyncio.gather(*visits, late)
        assert served == [0, 1, 2, 3, 4, 5]

    async def test_nobody_waits_longer_than_they_said(self, single: Pool):
        async with single.connection():
            with pytest.raises(StorageUnavailable, match="no connection to the database became free in time"):
                await single.acquire(SOON)
        assert single.state.waiting == 0
        assert await backend(single), "the pool goes on"

    async def test_a_waiter_who_gives_up_leaves_the_queue(self, single: Pool):
        async with single.connection():
            waiting = asyncio.create_task(backend(single))
            await queued(single, 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert single.state.waiting == 0
        assert await backend(single)

    async def test_a_connection_granted_to_somebody_who_just_gave_up_goes_to_the_next(self, single: Pool):
        connection = await single.acquire(PATIENTLY)
        waiting = [asyncio.create_task(backend(single)) for _ in range(2)]
        await queued(single, 2)
        single.release(connection)  # granted to the first …
        waiting[0].cancel()  # … who is cancelled before it can run
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1] == connection.process_id

    async def test_leave_to_connect_granted_to_somebody_who_just_gave_up_goes_to_the_next(self, single: Pool):
        connection = await single.acquire(PATIENTLY)
        waiting = [asyncio.create_task(backend(single)) for _ in range(2)]
        await queued(single, 2)
        connection.terminate()
        single.release(connection)
        while single.state.waiting == 2:  # noqa: ASYNC110 - a turn of the loop later it is connecting
            await asyncio.sleep(0)
        waiting[0].cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1] != connection.process_id

    @pytest.mark.parametrize("seed", range(5))
    async def test_no_interleaving_of_use_misuse_and_cancellation_loses_a_connection(self, database: str, seed: int):
        chance = random.Random(seed)

        async def visit(pool: Pool) -> None:
            within = timedelta(seconds=chance.choice([0.001, 0.05, 20]))
            async with pool.connection(within=within) as connection:
                await connection.execute(chance.choice(["SELECT 1", "BEGIN", "SELECT pg_sleep(0.01)"]))
                if chance.random() < 0.1:
                    connection.terminate()

        async with Pool(parse_database_url(database), size=3) as pool:
            visits = [asyncio.create_task(visit(pool)) for _ in range(100)]
            for task in chance.sample(visits, 30):
                await asyncio.sleep(chance.random() / 200)
                task.cancel()
            for result in await asyncio.gather(*visits, return_exceptions=True):
                assert result is None or isinstance(result, StorageUnavailable | asyncio.CancelledError)
            leases = [await pool.acquire(PATIENTLY) for _ in range(3)]
            assert (pool.state.open, pool.state.waiting) == (3, 0)
            for connection in leases:
                assert await connection.fetchval("SELECT 1") == 1
                pool.release(connection)


class TestCleanliness:
    async def test_nothing_is_asked_of_the_server_at_release(self, single: Pool):
        async with single.connection() as connection:
            await connection.execute("SET statewright.mine TO 'still here'")
        async with single.connection() as connection:
            assert await connection.fetchval("SELECT current_setting('statewright.mine')") == "still here"

    async def test_a_connection_left_inside_a_transaction_is_replaced(self, single: Pool):
        async with single.connection() as connection:
            await connection.execute("BEGIN; CREATE TABLE half_done ()")
        async with single.connection() as other:
            assert other.process_id != connection.process_id
            assert await other.fetchval("SELECT to_regclass('half_done')") is None

    async def test_a_connection_whose_statement_was_cancelled_is_replaced_and_the_statement_ends(
        self, single: Pool, database: str
    ):
        sleeping = asyncio.create_task(execute(single, "SELECT pg_sleep(3600) AS cancelled"))
        await eventually(RUNNING, database)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        async with single.connection(within=PATIENTLY) as connection:
            assert await connection.fetchval("SELECT 1") == 1
        await eventually(f"SELECT NOT ({RUNNING})", database)

    async def test_a_connection_with_a_late_begin_is_replaced(self, single: Pool):
        async with single.connection() as connection:
            with pytest.raises(TimeoutError):
                await connection.execute("SELECT pg_sleep(0.05); BEGIN", timeout=0.01)
        async with single.connection(within=PATIENTLY) as other:
            assert other.process_id != connection.process_id
            assert not other.is_in_transaction()

    @pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeoutError(), asyncpg.DataError("no number")])
    async def test_a_statement_that_was_prepared_only_does_not_end_that_of_the_next_user(
        self, database: str, error: BaseException
    ):
        hurried = add_session_settings(parse_database_url(database), statement_timeout="200")
        async with Pool(hurried, size=1) as single, connected(database) as other:
            with pytest.raises(type(error)):
                await prepare_and_fail(single, error)
            await other.execute("SELECT pg_sleep(0.3)")
            async with single.connection(within=PATIENTLY) as connection:
                assert await connection.fetchval("SELECT 1") == 1

    async def test_an_argument_that_cannot_be_encoded_costs_the_connection(self, single: Pool):
        with pytest.raises(asyncpg.DataError):
            async with single.connection() as connection:
                await connection.fetch("SELECT $1::int", "no number")
        assert await backend(single) != connection.process_id

    async def test_a_refused_statement_does_not_cost_the_connection(self, single: Pool):
        with pytest.raises(asyncpg.UndefinedTableError):
            async with single.connection() as connection:
                await connection.execute("SELECT * FROM nothing")
        assert await backend(single) == connection.process_id


SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%'"
RUNNING = (
    "SELECT EXISTS (SELECT 1 FROM pg_stat_activity"
    " WHERE datname = current_database() AND query LIKE '%AS cancelled' AND state = 'active')"
)


class TestDeadlocks:
    async def test_what_waits_for_what_waits_for_it_is_done_again(self, pool: Pool, database: str):
        await execute(pool, "CREATE TABLE row (n integer, at integer)", "INSERT INTO row VALUES (1, 0), (2, 0)")
        times, has_first, is_awaited = 0, asyncio.Event(), asyncio.Event()

        async def act(connection: DatabaseConnection) -> int:
            nonlocal times
            times += 1
            await connection.execute("UPDATE row SET at = at + 1 WHERE n = 1")
            has_first.set()
            await is_awaited.wait()
            await connection.execute("UPDATE row SET at = at + 1 WHERE n = 2")
            return times

        async with connected(database) as other:
            async with other.transaction():
                await other.execute("SET LOCAL deadlock_timeout = '60s'")  # the act looks first, and is the one to end
                await other.execute("UPDATE row SET at = at + 1 WHERE n = 2")
                acting = asyncio.create_task(pool.transact(act))
                await has_first.wait()
                updating = asyncio.create_task(other.execute("UPDATE row SET at = at + 1 WHERE n = 1"))
                await eventually(IS_BLOCKED, database)
                is_awaited.set()
                await updating
            assert await acting == 2
            assert await other.fetchval("SELECT array_agg(at) FROM row") == [2, 2]


class TestFailure:
    async def test_an_idle_connection_that_the_server_ended_is_replaced_unseen(self, single: Pool, database: str):
        async with single.connection() as connection:
            pass
        await end(connection, database)
        await until(connection.is_closed)
        assert await backend(single) != connection.process_id

    async def test_a_connection_lost_under_a_statement_names_its_backend(self, single: Pool, database: str):
        async with single.connection() as connection:
            pass
        ending = asyncio.create_task(end_when_active(connection, database))
        with pytest.raises(ConnectionLost, match="the connection to the database was lost") as lost:
            await execute(single, "SELECT pg_sleep(3600)")
        await ending
        assert lost.value.process_id == connection.process_id
        assert isinstance(lost.value.__cause__, asyncpg.PostgresError)
        assert await backend(single) != connection.process_id

    async def test_using_a_connection_that_is_gone_is_a_loss_too(self, single: Pool):
        async def use_in_vain() -> None:
            async with single.connection() as connection:
                connection.terminate()
                await connection.execute("SELECT 1")

        with pytest.raises(ConnectionLost) as lost:
            await use_in_vain()
        assert await backend(single) != lost.value.process_id

    async def test_a_network_that_breaks_is_a_loss(self, database: str):
        async with a_network(database) as network, Pool(parse_database_url(network.url), size=1) as pool:
            first = await backend(pool)
            statement = asyncio.create_task(execute(pool, "SELECT pg_sleep(3600)"))
            await eventually(f"SELECT state = 'active' FROM pg_stat_activity WHERE pid = {first}", database)
            network.cut()
            with pytest.raises(ConnectionLost):
                await statement
            assert await backend(pool) != first

    async def test_a_statement_over_its_time_is_a_loss_since_it_may_still_be_carried_out(self, single: Pool):
        with pytest.raises(ConnectionLost):
            async with single.connection() as connection:
                await connection.execute("SELECT pg_sleep(3600)", timeout=0.01)
        assert await backend(single) != connection.process_id

    async def test_a_database_that_turned_read_only_is_unavailable_until_reconnected(self, single: Pool):
        with pytest.raises(StorageUnavailable) as failure:
            await execute(single, "SET default_transaction_read_only TO on", "CREATE TABLE refused ()")
        assert not isinstance(failure.value, ConnectionLost), "nothing was carried out"
        await execute(single, "CREATE TABLE accepted ()")

    @pytest.mark.parametrize("error", [ValueError("mine"), OSError("mine"), TimeoutError("mine"), KeyError("mine")])
    async def test_errors_of_the_user_pass_and_cost_nothing(self, single: Pool, error: Exception):
        with pytest.raises(type(error), match="mine"):
            async with single.connection() as connection:
                raise error
        assert await backend(single) == connection.process_id

    async def test_the_client_is_told_nothing_about_the_driver(self, single: Pool):
        with pytest.raises(StorageUnavailable) as failure:
            async with single.connection():
                raise asyncpg.DiskFullError("could not extend file base/5/16396")
        assert failure.value.detail == "STORAGE_UNAVAILABLE: storage is not available; try again later"

    @pytest.mark.parametrize(
        "break_url",
        [
            lambda url: "postgresql://statewright@/app?host=/nowhere",
            lambda url: "postgresql://statewright@127.0.0.1:1/app",
            lambda url: urlsplit(url)._replace(path="/nowhere").geturl(),
            lambda url: url + ("&" if "?" in url else "?") + "sslmode=invented",
            lambda url: url + ("&" if "?" in url else "?") + "no_such_setting=1",
        ],
        ids=["no socket", "no listener", "no database", "no such mode", "no such setting"],
    )
    async def test_whatever_prevents_a_connection_the_storage_is_unavailable(
        self, database: str, break_url: Callable[[str], str]
    ):
        async with Pool(parse_database_url(break_url(database)), size=1) as pool:
            failures = await asyncio.gather(*(backend(pool) for _ in range(3)), return_exceptions=True)
            assert {type(failure) for failure in failures} == {StorageUnavailable}
            assert (pool.state.open, pool.state.waiting) == (0, 0)

    async def test_a_server_that_does_not_answer_costs_no_more_than_the_time_allowed(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"postgresql://statewright@127.0.0.1:{silent.getsockname()[1]}/app?sslmode=disable"
            async with Pool(parse_database_url(url), size=1) as pool:
                with pytest.raises(StorageUnavailable):
                    await pool.acquire(SOON)
                await until(lambda: pool.state.open == 0)

    async def test_a_server_that_lets_nobody_in_any_more_costs_concurrency_only(self, database: str):
        """Its sessions live on: whoever waits for another one takes the first that becomes free."""
        async with a_network(database) as network, Pool(parse_database_url(network.url), size=2) as pool:
            first = await pool.acquire(PATIENTLY)
            network.lets_in = False
            waiting = asyncio.create_task(pool.acquire(PATIENTLY))
            await until(lambda: pool.state.open == 2)
            pool.release(first)
            assert await waiting is first
            pool.release(first)

    async def test_tls_that_the_server_lacks_is_refused_when_required_and_waived_when_preferred(self, database: str):
        async with a_network(database) as network:
            with pytest.raises(StorageUnavailable):
                await connect(parse_database_url(f"{network.url}?sslmode=require"))
            connection = await connect(parse_database_url(f"{network.url}?sslmode=prefer"))
            await connection.close()


class TestKeeping:
    async def test_connections_above_the_minimum_are_closed_when_idle_for_long(self, database: str):
        async with Pool(parse_database_url(database), size=3, min_open=1, idle_timeout=SOON) as pool:
            for connection in [await pool.acquire(PATIENTLY) for _ in range(3)]:
                pool.release(connection)
            assert pool.state.open == 3
            await until(lambda: pool.state.open == 1)
            assert pool.state.idle == 1

    async def test_connections_in_use_do_not_grow_old(self, database: str):
        async with Pool(parse_database_url(database), size=2, idle_timeout=SOON) as pool:
            connection = await pool.acquire(PATIENTLY)
            await backend(pool)
            await until(lambda: pool.state.open == 1)
            assert await connection.fetchval("SELECT 1") == 1
            pool.release(connection)

    async def test_a_connection_is_set_up_for_short_statements(self, database: str):
        connection = await connect(parse_database_url(database, application_name="mine"))
        assert await connection.fetchval("SHOW jit") == "off"
        assert await connection.fetchval("SHOW application_name") == "mine"
        await connection.close()

    async def test_the_kernel_watches_a_remote_peer(self, database: str):
        async with a_network(database) as network:
            connection = await connect(parse_database_url(f"{network.url}?sslmode=disable"))
            peer: socket.socket = connection._transport.get_extra_info("socket")
            assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
            await connection.close()


class TestClosing:
    async def test_present_users_finish_and_new_ones_are_refused(self, single: Pool):
        connection = await single.acquire(PATIENTLY)
        waiting = asyncio.create_task(backend(single))
        await queued(single, 1)
        closing = asyncio.create_task(single.close(within=PATIENTLY))
        with pytest.raises(StorageUnavailable, match="the service is stopping"):
            await waiting
        with pytest.raises(StorageUnavailable, match="the service is stopping"):
            await single.acquire(PATIENTLY)
        assert not closing.done()
        assert await connection.fetchval("SELECT 1") == 1
        single.release(connection)
        await closing
        assert connection.is_closed()
        assert single.state.open == 0

    async def test_what_lasts_too_long_is_cut_off(self, single: Pool, database: str):
        sleeping = asyncio.create_task(execute(single, "SELECT pg_sleep(3600)"))
        await eventually(SLEEPING, database)
        await single.close(within=SOON)
        with pytest.raises(ConnectionLost):
            await sleeping

    async def test_closing_an_unused_pool_or_a_closed_one_is_nothing(self, single: Pool):
        await single.close()
        await single.close()
        assert single.state.open == 0


async def end(connection: DatabaseConnection, database: str) -> None:
    """Have the server end a connection."""
    async with connected(database) as other:
        assert await other.fetchval("SELECT pg_terminate_backend($1, 20000)", connection.process_id)


async def end_when_active(connection: DatabaseConnection, database: str) -> None:
    await eventually(f"SELECT state = 'active' FROM pg_stat_activity WHERE pid = {connection.process_id}", database)
    await end(connection, database)


class Network:
    """A TCP way to the database that can be cut."""

    def __init__(self, database: str) -> None:
        self._parts = urlsplit(database)
        self._port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self.lets_in = True
        """Whether new connections are heard; those that there are go on."""

    @property
    def url(self) -> str:
        """The database by this way."""
        credentials = self._parts.netloc.rpartition("@")[0]
        return f"postgresql://{credentials}@127.0.0.1:{self._port}{self._parts.path}"

    def cut(self) -> None:
        """Break all connections at once, without a word."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        return server

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.lets_in:
            self._writers.append(writer)
            await reader.read()
            return
        there_reader, there_writer = await self._reach()
        self._writers += [writer, there_writer]
        await asyncio.gather(copy(reader, there_writer), copy(there_reader, writer))

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        query = parse_qs(self._parts.query)
        if directory := query.get("host"):
            port = query.get("port", ["5432"])
            return await asyncio.open_unix_connection(f"{directory[0]}/.s.PGSQL.{port[0]}")
        return await asyncio.open_connection(self._parts.hostname, self._parts.port or 5432)


async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass
    finally:
        sink.close()


@asynccontextmanager
async def a_network(database: str) -> AsyncIterator[Network]:
    network = Network(database)
    server = await network.serve()
    try:
        yield network
    finally:
        network.cut()
        server.close()
        await server.wait_closed()
