"""The pool under every kind of use, misuse, loss and cancellation, in all orders: a server in memory, and a clock that
jumps, so that hundreds of evenings pass in a second (``storage/pool.py`` says what one may rely on).
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from statewright.engine.simulation.simulator import JumpingLoop
from statewright.failures import StorageUnavailable
from statewright.ids import TenantId
from statewright.storage import pool as pools
from statewright.storage.connections import DatabaseUrl
from statewright.storage.pool import ConnectionGuard, ConnectionLost, Pool

T = TypeVar("T")

DATABASE = DatabaseUrl(dsn="postgresql://in-memory/test")
SIZE = 2
SECOND = timedelta(seconds=1)

End = Literal["ok", "own error", "refused", "in transaction", "too late", "not encoded", "prepared", "lost", "standby"]
Way = Literal["lease", "patient lease", "acquire", "idle"]
Opening = Literal["at once", "slowly", "refused"]


class Visit(Struct, frozen=True, kw_only=True):
    """What somebody does with a connection, times in tenths of a second. ``cut``: cancelled then, and after so many
    turns of the event loop. ``tenant``: for whom.
    """

    at: int
    way: Way
    hold: int
    end: End
    within: int = 50
    cut: tuple[int, int] | None = None
    tenant: TenantId | None = None


class Session:
    """A connection as the pool knows one, and what only the server knows of it."""

    process_id = 1
    started_at = datetime(2026, 1, 1, tzinfo=UTC)

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.is_broken = False
        self.is_in_transaction = False
        self.is_cancelling = False
        self.is_prepared_only = False
        self.user: object = None
        self._is_closed = False

    @property
    def is_clean(self) -> bool:
        return not (self._is_closed or self.is_broken or self.is_in_transaction or self.is_cancelling)

    def is_closed(self) -> bool:
        return self._is_closed

    def terminate(self) -> None:
        self._is_closed = True
        self.server.open.discard(self)

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - as asyncpg has it
        await asyncio.sleep(0.1)
        self.terminate()

    async def execute(self, _text: str) -> None:
        await self.server.answer()


class Server:
    """What the pool connects to. ``openings`` say how attempts to connect go, the last one for all that follow."""

    def __init__(self, *openings: Opening) -> None:
        self.openings = list(openings)
        self.open: set[Session] = set()
        self.most = 0
        self.is_silent = False

    def end_sessions(self) -> None:
        """As an operator does who restarts it."""
        for session in [*self.open]:
            session.terminate()

    async def answer(self) -> None:
        if self.is_silent:
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    async def connect(self, _database: DatabaseUrl) -> Session:
        how = self.openings.pop(0) if len(self.openings) > 1 else self.openings[0]
        session = Session(self)
        self.open.add(session)
        self.most = max(self.most, len(self.open))
        try:
            await self.answer()
            await asyncio.sleep(0 if how == "at once" else 0.3)
        except BaseException:
            session.terminate()
            raise
        if how == "refused":
            session.terminate()
            raise StorageUnavailable from OSError("connection refused")
        return session


class Evening:
    """Visits to one pool, and what was seen of it."""

    def __init__(self, server: Server, pool: Pool) -> None:
        self.server = server
        self.pool = pool
        self.served = Counter[TenantId | None]()

    async def visit(self, visit: Visit) -> None:
        await asyncio.sleep(visit.at / 10)
        within = timedelta(seconds=visit.within / 10)
        if visit.way == "acquire":
            connection = await self.pool.acquire(within, visit.tenant)
            try:
                await self.use(connection, visit)
            except BaseException as error:
                self.pool.give_back(connection, error)
                raise
            self.pool.release(connection)
        elif visit.way == "idle":
            idle = self.pool.take_idle(visit.tenant)
            if idle is not None:
                with ConnectionGuard(self.pool, idle):
                    await self.use(idle, visit)
        else:
            limit = None if visit.way == "patient lease" else 2 * SECOND
            async with self.pool.connection(within=within, limit=limit, tenant=visit.tenant) as connection:
                await self.use(connection, visit)

    async def use(self, connection: object, visit: Visit) -> None:
        """Hold the connection, which must be fit for it and nobody else's, and leave it as the visit says."""
        assert isinstance(connection, Session)
        assert connection.is_clean
        assert not connection.is_prepared_only, "its statement_timeout would end what the next user asks"
        assert connection.user is None
        connection.user = visit
        self.served[visit.tenant] += 1
        assert visit.tenant is None or self.served[visit.tenant] < SIZE, "others must find one"
        try:
            await asyncio.sleep(visit.hold / 10)
            leave(connection, "lost" if connection.is_closed() else visit.end)
        finally:
            connection.user = None
            self.served[visit.tenant] -= 1


def leave(connection: Session, end: End) -> None:
    """What the last statement of a user comes to. Raises as asyncpg does."""
    match end:
        case "ok":
            return
        case "own error":
            raise ValueError("the user's")
        case "refused":
            raise asyncpg.UniqueViolationError("the statement's")
        case "in transaction":
            connection.is_in_transaction = True
        case "too late":
            connection.is_cancelling = True
            raise TimeoutError
        case "not encoded":
            connection.is_prepared_only = True
            raise asyncpg.DataError("the argument's")
        case "prepared":
            connection.is_prepared_only = True
            raise TimeoutError
        case "lost":
            connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("the server's")
        case "standby":
            raise asyncpg.ReadOnlySQLTransactionError("the server's")


EXPECTED: dict[End, type[BaseException] | None] = {
    "ok": None,
    "in transaction": None,
    "own error": ValueError,
    "refused": asyncpg.UniqueViolationError,
    "not encoded": asyncpg.DataError,
    "too late": ConnectionLost,
    "lost": ConnectionLost,
    "standby": StorageUnavailable,
    "prepared": TimeoutError,
}
"""What a user's block raises, where nothing comes between."""

visits = st.lists(
    st.builds(
        Visit,
        at=st.integers(0, 12),
        way=st.sampled_from(["lease", "patient lease", "acquire", "idle"]),
        hold=st.integers(0, 9),
        end=st.sampled_from([*EXPECTED, "ok", "ok", "ok"]),
        within=st.sampled_from([1, 5, 50]),
        cut=st.none() | st.tuples(st.integers(0, 15), st.integers(0, 5)),
        tenant=st.none() | st.sampled_from([TenantId("one"), TenantId("other")]),
    ),
    max_size=14,
)
deaths = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 5)), max_size=2)
"""When the server ends all sessions."""
openings = st.lists(st.sampled_from(["at once", "slowly", "refused"]), max_size=5)


def play(server: Server, act: Callable[[Pool], Awaitable[T]], *, size: int = SIZE, **options: timedelta | int) -> T:
    """Plays with a pool on a server; at its end the pool is closed, and nothing of it is left."""

    async def run() -> T:
        async with Pool(DATABASE, size=size, kept_for_others=1, **options) as pool:  # type: ignore[arg-type]
            found = await act(pool)
        assert pool.state == pools.PoolState(size=size, open=0, idle=0, waiting=0)
        assert not server.open
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pools, "connect", server.connect)
        return run_on_jumping_clock(run())


def call_at(tenths: int, turns: int, call: Callable[[], object]) -> None:
    """Call then, and after so many turns of the event loop."""

    def go_on(left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(go_on, left - 1)
        else:
            call()

    asyncio.get_running_loop().call_later(tenths / 10, go_on, turns)


def run_on_jumping_clock(work: Coroutine[object, object, T]) -> T:
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def lend_all(pool: Pool) -> int:
    """How many connections can be had at once, each fit for use."""
    leases = [await pool.acquire(SECOND) for _ in range(SIZE)]
    for connection in leases:
        assert connection.is_clean
        pool.release(connection)
    return len({*leases})


@settings(max_examples=150)
@given(data=st.data())
def test_no_interleaving_loses_a_connection_or_hands_on_one_that_is_unfit(data: st.DataObject):
    server = Server(*data.draw(openings), "at once")
    wanted, ends = data.draw(visits), data.draw(deaths)

    async def act(pool: Pool) -> tuple[list[BaseException | None], int]:
        evening = Evening(server, pool)
        tasks = [asyncio.ensure_future(evening.visit(visit)) for visit in wanted]
        for task, visit in zip(tasks, wanted, strict=True):
            if visit.cut is not None:
                call_at(*visit.cut, task.cancel)
        for end in ends:
            call_at(*end, server.end_sessions)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(2)  # all that the server ends is ended
        server.openings = ["at once"]
        assert pool.state.waiting == 0
        return results, await lend_all(pool)

    results, lent = play(server, act)

    assert lent == SIZE
    assert server.most <= SIZE
    for result, visit in zip(results, wanted, strict=True):
        expected = EXPECTED[visit.end]
        came_between = visit.cut is not None and isinstance(result, asyncio.CancelledError)
        none_to_be_had = type(result) is StorageUnavailable or (visit.way == "idle" and result is None)
        was_ended = bool(ends) and type(result) is ConnectionLost
        as_expected = result is None if expected is None else type(result) is expected
        assert came_between or none_to_be_had or was_ended or as_expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8), openings)
def test_who_asked_first_is_served_first(asked: list[tuple[int, int]], openings: list[Opening]):
    server = Server(*[how for how in openings if how != "refused"], "at once")
    served: list[int] = []

    async def act(pool: Pool) -> None:
        async def ask(number: int, hold: int) -> None:
            async with pool.connection(within=60 * SECOND):
                served.append(number)
                await asyncio.sleep(hold / 10)

        tasks = []
        for number, (pause, hold) in enumerate(asked):
            tasks.append(asyncio.ensure_future(ask(number, hold)))
            await asyncio.sleep(pause / 10)
        await asyncio.gather(*tasks)

    play(server, act, size=1)

    assert served == [*range(len(asked))]


@pytest.mark.parametrize(("size", "waits_s"), [(1, [1, 3, 5]), (2, [0, 1, 2]), (4, [0, 0, 1])])
def test_a_tenant_waits_for_no_more_than_one_use_of_another_however_many_are_before_it(size: int, waits_s: list[int]):
    async def act(pool: Pool) -> list[int]:
        async def use(tenant: str) -> float:
            asked = asyncio.get_running_loop().time()
            async with pool.connection(within=60 * SECOND, tenant=TenantId(tenant)):
                waited = asyncio.get_running_loop().time() - asked
                await asyncio.sleep(1)
            return waited

        many = [asyncio.ensure_future(use("busy")) for _ in range(20)]
        await asyncio.sleep(0)
        few = await asyncio.gather(*[use("quiet") for _ in range(3)])
        await asyncio.gather(*many)
        return [round(each) for each in few]

    assert play(Server("at once"), act, size=size) == waits_s


def test_a_tenant_is_not_overtaken_by_those_who_name_none():
    async def use(pool: Pool, tenant: TenantId | None, served: list[TenantId | None]) -> None:
        async with pool.connection(within=SECOND, tenant=tenant):
            served.append(tenant)

    async def act(pool: Pool) -> list[TenantId | None]:
        served: list[TenantId | None] = []
        held = await pool.acquire(SECOND)
        waiting = []
        for tenant in (TenantId("first"), None):
            waiting.append(asyncio.ensure_future(use(pool, tenant, served)))
            await asyncio.sleep(0)
        pool.release(held)
        await asyncio.gather(*waiting)
        return served

    assert play(Server("at once"), act, size=1) == [TenantId("first"), None]


def test_a_tenant_that_lost_a_connection_may_have_the_one_that_was_left_to_others():
    async def act(pool: Pool) -> float:
        tenant = TenantId("busy")
        for connection in [await pool.acquire(SECOND) for _ in range(2)]:
            pool.release(connection)
        held = await pool.acquire(SECOND, tenant)
        waiter = asyncio.ensure_future(pool.acquire(SECOND, tenant))
        await asyncio.sleep(0.5)
        held.terminate()
        began = asyncio.get_running_loop().time()
        pool.release(held)
        pool.release(await waiter)
        return asyncio.get_running_loop().time() - began

    assert play(Server("slowly"), act) == 0


@given(st.integers(0, SIZE), st.integers(1, SIZE), st.integers(0, 30))
def test_idle_connections_above_the_minimum_are_closed_and_no_others(min_open: int, used: int, tenths: int):
    server = Server("at once")

    async def act(pool: Pool) -> tuple[int, int]:
        async def use() -> None:
            async with pool.connection():
                await asyncio.sleep(1)

        await asyncio.gather(*[use() for _ in range(used)])
        await asyncio.sleep(tenths / 10)
        young = pool.state.open
        await asyncio.sleep(10)
        return young, pool.state.open

    young, old = play(server, act, min_open=min_open, idle_timeout=5 * SECOND)

    assert (young, old) == (used, min(used, min_open))


@pytest.mark.parametrize("hold", [1, 25, 3600])
def test_a_block_that_may_take_its_time_keeps_its_connection_while_the_database_answers(hold: int):
    async def act(pool: Pool) -> bool:
        async with pool.connection(limit=None) as connection:
            await asyncio.sleep(hold)
            return connection.is_closed()

    assert not play(Server("at once"), act)


def test_a_block_that_has_a_limit_loses_its_connection_behind_it():
    async def act(pool: Pool) -> list[bool]:
        async with pool.connection(limit=3 * SECOND) as connection:
            await asyncio.sleep(2.9)
            before = connection.is_closed()
            await asyncio.sleep(0.2)
            return [before, connection.is_closed()]

    assert play(Server("at once"), act) == [False, True]


@pytest.mark.parametrize("rounds", [0, 3])
def test_a_database_that_answers_nobody_costs_patient_blocks_their_connections(rounds: int):
    server = Server("at once")

    async def act(pool: Pool) -> list[bool]:
        async with pool.connection(limit=None) as connection:
            await asyncio.sleep(8 * rounds + 1)
            server.is_silent = True
            await asyncio.sleep(7 + 4 - 0.1)
            before = connection.is_closed()
            await asyncio.sleep(0.2)
            server.is_silent = False
            return [before, connection.is_closed()]

    assert play(server, act, watch_interval=8 * SECOND, probe_timeout=4 * SECOND) == [False, True]


@pytest.mark.parametrize("opening", ["at once", "slowly"])
def test_whoever_waits_when_the_pool_closes_is_told_at_once_and_users_may_finish(opening: Opening):
    async def act(pool: Pool) -> list[object]:
        async def use(hold: float) -> str:
            async with pool.connection():
                await asyncio.sleep(hold)
            return "finished"

        users = [asyncio.ensure_future(use(2)) for _ in range(SIZE)]
        await asyncio.sleep(0.5)
        waiter = asyncio.ensure_future(use(0))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(pool.close())
        [told] = await asyncio.gather(waiter, return_exceptions=True)
        assert not closing.done()
        assert type(told) is StorageUnavailable
        assert str(told) == pools.STOPPING_MESSAGE
        return await asyncio.gather(*users)

    assert play(Server(opening), act) == ["finished"] * SIZE


def test_room_that_a_failed_attempt_to_connect_leaves_goes_to_whoever_waits_without_one():
    async def act(pool: Pool) -> list[object]:
        async def use() -> str:
            async with pool.connection():
                return "served"

        return await asyncio.gather(*[use() for _ in range(SIZE + 1)], return_exceptions=True)

    *failed, last = play(Server(*["refused"] * SIZE, "at once"), act)

    assert [type(each) for each in failed] == [StorageUnavailable] * SIZE
    assert last == "served"


def test_nothing_is_opened_for_somebody_who_has_given_up():
    server = Server("slowly")

    async def act(pool: Pool) -> int:
        waiter = asyncio.ensure_future(pool.acquire(SECOND))
        await asyncio.sleep(0.1)
        waiter.cancel()
        await asyncio.sleep(1)
        return pool.state.open

    assert play(server, act) == 0


def test_a_connection_that_the_server_ended_while_it_was_idle_is_not_handed_out():
    server = Server("at once")

    async def act(pool: Pool) -> list[bool]:
        for _ in range(2):
            async with pool.connection() as connection:
                found = connection.is_closed()
            server.end_sessions()
        idle = pool.take_idle()
        return [found, idle is not None]

    assert play(server, act) == [False, False]


@pytest.mark.parametrize("between", ["cancelled", "ended"])
def test_what_happens_to_a_connection_on_its_way_to_who_waits_costs_nobody_anything(between: str):
    server = Server("at once")

    async def act(pool: Pool) -> tuple[bool, int]:
        lent = await pool.acquire(SECOND)
        waiters = [asyncio.ensure_future(pool.acquire(SECOND)) for _ in range(2)]
        await asyncio.sleep(0.1)
        pool.release(lent)
        if between == "cancelled":
            waiters.pop(0).cancel()
        else:
            server.end_sessions()
        for waiter in waiters:
            connection = await waiter
            assert connection.is_clean
            pool.release(connection)
        return connection is lent, pool.state.idle

    assert play(server, act, size=1) == (between == "cancelled", 1)
