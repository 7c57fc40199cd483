"""A thin, fair pool of connections to PostgreSQL, and how they are opened.

Why not asyncpg's: it sends a reset query at every release, wraps each connection in a proxy, and can starve a waiter.
What one may rely on here:

- *Fair.* A released connection goes straight to the waiter that has waited longest; none can overtake. Where users name
  tenants, the tenant that has the fewest is next, and some connections may be kept for others than the one that has
  all the rest.
- *Bounded.* There are never more than ``size`` connections, and no task waits longer than it said.
- *Lazy.* A connection is opened when it is needed, closed when it was idle for long, and replaced when it broke. Who
  waits for one to be opened takes one that is released before: a server that lets nobody in, while its sessions live,
  costs concurrency and nothing else.
- *Answered for.* A block that holds a connection ends when the database falls silent: after its limit, or, where it may
  take its time, as soon as another connection gets no answer either (decision S14).
- *Clean.* A connection left inside a transaction, or with a cancelled statement that may still run, is closed rather
  than handed on. Nothing else is reset: who sets a session variable or takes a session lock undoes it.
- *One failure.* Whatever is wrong with the database itself surfaces as ``StorageUnavailable``, raised by the ``async
  with`` block. ``ConnectionLost``, a kind of it, says that a statement may have been carried out all the same.

Counting. Every connection is in one of four places: idle, leased (handed out, or on its way to a waiter), opening, or
retiring. They never hold more than ``size`` together. As long as there is room, as many are opening as tasks wait. Each
of them is opened for one waiter, who is told when that fails; but whatever becomes free goes to whoever is next.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast

import asyncpg
from msgspec import Struct

from statewright.failures import StorageUnavailable
from statewright.ids import TenantId
from statewright.loop.lru import LruCache
from statewright.network.sockets import enable_keepalive
from statewright.storage.connections import DatabaseUrl, StorageFaults
from statewright.telemetry import logs

ACQUIRE_TIMEOUT: Final = timedelta(seconds=5)
"""How long to wait for a connection unless told otherwise."""

LEASE_LIMIT: Final = timedelta(seconds=20)
"""How long a block may hold a connection unless told otherwise: a database that takes longer over some rows has stopped
answering (decision S14).
"""

WATCH_INTERVAL: Final = timedelta(seconds=8)
"""After so long it is asked whether the database still answers, for blocks that may take their time; and again."""

PROBE_TIMEOUT: Final = timedelta(seconds=8)
"""A database that has not answered anybody for so long is silent."""

PROBE: Final = "SELECT"

IDLE_TIMEOUT: Final = timedelta(minutes=5)
"""After so long a connection above ``keep`` is closed."""

CLOSE_TIMEOUT: Final = timedelta(seconds=5)

DEADLOCK_TRIES: Final = 3

DEADLOCK_PAUSE_S: Final = 0.05
"""Before the next: the one that waited goes first, or they would meet again."""

STOPPING_MESSAGE: Final = "the service is stopping"

R = TypeVar("R")

log = logs.logger(__name__)


MAX_PREPARED: Final = 100
"""Statements that a connection keeps prepared besides those that asyncpg does."""


class _AsyncpgProtocol(Protocol):
    """What we ask of asyncpg's protocol object."""

    def _is_cancelling(self) -> bool: ...

    async def bind_execute(
        self, state: object, args: Sequence[object], portal: str, limit: int, return_extra: bool, seconds: float | None
    ) -> list[asyncpg.Record]: ...


class _PreparedStatement(Protocol):
    """What we take of asyncpg's prepared statement."""

    _state: object


class DatabaseConnection(asyncpg.Connection):
    """asyncpg's connection, which also knows whether the next user may have it."""

    _protocol: _AsyncpgProtocol
    _transport: asyncio.Transport

    process_id: int
    started_at: datetime
    """Of the backend; known after the connection is lost, too. Numbers are used again, so its birth belongs to it."""

    is_broken: bool
    """Set when an error showed that this connection is of no more use."""

    prepared: LruCache[str, _PreparedStatement]
    """Statements of :meth:`fetch_prepared`."""

    @property
    def is_clean(self) -> bool:
        """Whether the connection is open, outside a transaction, and no cancelled statement may still run on it."""
        # asyncpg has no public word for the last point, and its own pool asks the same question.
        return (
            not self.is_closed()
            and not self.is_broken
            and not self.is_in_transaction()
            and not self._protocol._is_cancelling()  # pyright: ignore[reportPrivateUsage]
        )

    async def fetch_prepared(self, text: str, args: Sequence[object]) -> list[asyncpg.Record]:
        """As ``fetch``, outside transactions, for statements that come again and again.

        It goes the shortest way through asyncpg: the other one costs as much as finding some rows.
        """
        statement = self.prepared.get(text)
        if statement is None:
            statement = cast("_PreparedStatement", await self.prepare(text))
            self.prepared.put(text, statement)
        state = statement._state  # pyright: ignore[reportPrivateUsage]
        try:
            return await self._protocol.bind_execute(state, args, "", 0, False, None)
        except (asyncpg.InvalidCachedStatementError, asyncpg.OutdatedSchemaCacheError):  # the table was altered
            self.prepared.clear()
            return await self.fetch(text, *args)

    def watch_peer(self) -> None:
        """Have the kernel watch the server: one that does not answer for half a minute is gone. By default the kernel
        waits a quarter of an hour, during which requests would hang.
        """
        enable_keepalive(
            self._transport.get_extra_info("socket"), idle_s=15, interval_s=5, probes=3, unacknowledged_s=20
        )


BEGIN_SESSION: Final = """
    -- Sets what a session wants set, and tells when its backend was started.
    SELECT backend_start, (SELECT count(set_config(name, value, false))
                             FROM unnest($1::text[], $2::text[]) AS setting (name, value))
      FROM pg_stat_get_activity(pg_backend_pid())
"""


async def connect(database: DatabaseUrl) -> DatabaseConnection:
    """A new connection; raises ``StorageUnavailable`` caused by whatever stood in the way."""
    try:
        connection = await asyncpg.connect(
            database.dsn,
            connection_class=DatabaseConnection,
            timeout=database.connect_timeout.total_seconds(),
            max_cached_statement_lifetime=0,  # else everything is prepared anew every five minutes
            server_settings={"application_name": database.application_name},
        )
        try:
            connection.started_at = await connection.fetchval(
                BEGIN_SESSION,
                [name for name, _ in database.session],
                [value for _, value in database.session],
                timeout=database.connect_timeout.total_seconds(),
            )
        except BaseException:
            connection.terminate()
            raise
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise StorageUnavailable from error
    connection.process_id = connection.get_server_pid()
    connection.is_broken = False
    connection.prepared = LruCache(MAX_PREPARED)
    connection.watch_peer()
    return connection


class ConnectionLost(StorageUnavailable):
    """The connection failed under a statement, which may have been carried out, or may even still run."""

    def __init__(self, process_id: int, started_at: datetime) -> None:
        super().__init__("the connection to the database was lost")
        self.process_id = process_id
        self.started_at = started_at
        """Of the backend that had the statement: its number, which another one may have by now, and its birth."""


_Waiter = asyncio.Future[DatabaseConnection]


class PoolState(Struct, frozen=True, kw_only=True):
    """How a pool is doing, in numbers of connections and of waiting tasks."""

    size: int
    open: int
    idle: int
    waiting: int


class Pool:
    """Up to ``size`` connections to one database, of which ``min_open`` stay open when there is nothing to do. A tenant
    has all but ``kept_for_others`` of them at most, or one.

    ``watch_interval`` and ``probe_timeout`` add up to the time after which a silent database costs blocks their
    connection that may take their time. ``faults`` may be shared with other pools.
    """

    def __init__(
        self,
        database: DatabaseUrl,
        *,
        size: int = 25,
        min_open: int = 0,
        kept_for_others: int = 0,
        idle_timeout: timedelta = IDLE_TIMEOUT,
        watch_interval: timedelta = WATCH_INTERVAL,
        probe_timeout: timedelta = PROBE_TIMEOUT,
        faults: StorageFaults | None = None,
    ) -> None:
        self.faults = faults or StorageFaults()
        self._database = database
        self._size = size
        self._most_of_tenant = max(size - kept_for_others, 1)
        self._min_open = min_open
        self._idle_timeout_s = idle_timeout.total_seconds()
        self.watch_interval_s = watch_interval.total_seconds()
        self._probe_timeout_s = probe_timeout.total_seconds()
        self._idle: deque[tuple[float, DatabaseConnection]] = deque()  # with the loop's time of release, oldest first
        self._leased: dict[DatabaseConnection, TenantId | None] = {}  # and for which tenant
        self._opening: dict[asyncio.Task[None], _Waiter] = {}  # and for whom
        self._retiring: set[asyncio.Task[None]] = set()
        self._waiters: dict[_Waiter, TenantId | None] = {}  # and for which tenant, in order of arrival
        self._sweeper: asyncio.TimerHandle | None = None
        self._suspects: list[ConnectionLease] = []
        self._prober: asyncio.Task[None] | None = None
        self._closing = False
        self._all_closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def state(self) -> PoolState:
        """How the pool is doing now."""
        return PoolState(size=self._size, open=self._open, idle=len(self._idle), waiting=len(self._waiters))

    def connection(
        self,
        *,
        within: timedelta = ACQUIRE_TIMEOUT,
        limit: timedelta | None = LEASE_LIMIT,
        tenant: TenantId | None = None,
    ) -> "ConnectionLease":
        """A connection for the length of an ``async with`` block, taken into account as one of the tenant's.

        Entering raises ``StorageUnavailable`` when none is to be had ``within`` that time. A block that lasts longer
        than ``limit`` loses its connection. With None it may take its time, as long as the database answers others.
        """
        return ConnectionLease(self, within, limit, tenant)

    async def fetch(self, statement: str, *args: object) -> list[asyncpg.Record]:
        """The rows of a statement on a connection of its own. Raises ``StorageUnavailable``; so do the three below."""
        async with self.connection() as connection:
            return await connection.fetch(statement, *args)

    async def fetchrow(self, statement: str, *args: object) -> asyncpg.Record | None:
        """The first row, if there is one."""
        async with self.connection() as connection:
            return await connection.fetchrow(statement, *args)

    async def fetchval(self, statement: str, *args: object) -> Any:  # Any: whatever type the column has
        """The first column of the first row; None without any."""
        async with self.connection() as connection:
            return await connection.fetchval(statement, *args)

    async def execute(self, statement: str, *args: object) -> str:
        """Carry out a statement; its command tag."""
        async with self.connection() as connection:
            return await connection.execute(statement, *args)

    async def transact(self, act: Callable[[DatabaseConnection], Awaitable[R]]) -> R:
        """What an act does in a transaction of its own. PostgreSQL ends one of two that wait for each other: it has
        left nothing then, and the act is done again.
        """
        for _ in range(DEADLOCK_TRIES - 1):
            with suppress(asyncpg.DeadlockDetectedError):
                async with self.connection() as connection, connection.transaction():
                    return await act(connection)
            await asyncio.sleep(DEADLOCK_PAUSE_S)
        async with self.connection() as connection, connection.transaction():
            return await act(connection)

    async def acquire(self, within: timedelta, tenant: TenantId | None = None) -> DatabaseConnection:
        """A connection that the caller must ``release``; prefer ``connection()``, which does so."""
        idle = self.take_idle(tenant)
        if idle is not None:
            return idle
        try:
            async with asyncio.timeout(within.total_seconds()):
                return await self._obtain_connection(tenant)
        except TimeoutError as late:
            raise StorageUnavailable("no connection to the database became free in time") from late

    def take_idle(self, tenant: TenantId | None = None) -> DatabaseConnection | None:
        """A connection that can be had without waiting, if there is one; the caller releases it."""
        if tenant is not None and [*self._leased.values()].count(tenant) >= self._most_of_tenant:
            return None
        while self._idle:
            _, connection = self._idle.pop()  # the one used last: its caches are warm, and the others may grow old
            if not connection.is_closed():
                self._leased[connection] = tenant
                return connection
        return None

    def release(self, connection: DatabaseConnection) -> None:
        """Take back what ``acquire`` gave."""
        tenant = self._leased.pop(connection)
        if self._closing or not connection.is_clean:
            self._retire(connection)
        else:
            loop = asyncio.get_running_loop()
            self._idle.append((loop.time(), connection))
            if self._sweeper is None:
                self._sweeper = loop.call_later(self._idle_timeout_s, self._sweep)
        if self._waiters:
            self._serve_waiters(tenant)

    def give_back(self, connection: DatabaseConnection, error: BaseException) -> None:
        """Take back what a block had that has failed. Raises ``StorageUnavailable`` if the database is to blame."""
        failure = _translate_failure(error, connection)
        if failure is not None:
            self.faults.count(error, is_lost=isinstance(failure, ConnectionLost))
            connection.is_broken = True
        elif _comes_between(error):
            connection.is_broken = True
        self.release(connection)
        if failure is not None:
            raise failure from error

    async def close(self, *, within: timedelta = CLOSE_TIMEOUT) -> None:
        """Refuse new users at once, let the present ones finish, close everything; what lasts longer is cut off."""
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._prober is not None:
            self._prober.cancel()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(StorageUnavailable(STOPPING_MESSAGE))
        self._waiters.clear()
        for opening in self._opening:
            opening.cancel()
        while self._idle:
            self._retire(self._idle.pop()[1])
        await self._drain(within)

    def suspect_silence(self, lease: "ConnectionLease") -> None:
        """Find out whether the database still answers, and cut the lease off if not; else it is watched on."""
        self._suspects.append(lease)
        if self._prober is None and not self._closing:
            self._prober = asyncio.get_running_loop().create_task(self._examine_suspects(), name="probe-database")

    async def _examine_suspects(self) -> None:
        while self._suspects:
            leases, self._suspects = self._suspects, []
            is_silent = not await self._probe()
            if is_silent:
                log.warning("database_silent", connections=len(leases))
            for lease in leases:
                if is_silent:
                    lease.cut_off()
                else:
                    lease.watch()
        self._prober = None

    async def _probe(self) -> bool:
        """Whether the database answers anybody: on a connection that is idle, or on a new one."""
        try:
            async with asyncio.timeout(self._probe_timeout_s):
                idle = self.take_idle()
                if idle is None:
                    (await connect(self._database)).terminate()
                else:
                    with ConnectionGuard(self, idle):
                        await idle.execute(PROBE)
        except TimeoutError:
            return False
        except StorageUnavailable as away:  # it has broken: then so do those that wait, by themselves
            return not isinstance(away.__cause__, TimeoutError)
        return True

    @property
    def _open(self) -> int:
        return len(self._idle) + len(self._leased) + len(self._opening) + len(self._retiring)

    async def _drain(self, within: timedelta) -> None:
        try:
            async with asyncio.timeout(within.total_seconds()):
                if self._open:
                    await self._all_closed.wait()
        except TimeoutError:
            log.warning("pool_cut_off", connections=self._open)
            for connection in self._leased:
                connection.terminate()

    async def _obtain_connection(self, tenant: TenantId | None) -> DatabaseConnection:
        granted = await self._wait(tenant)
        while granted.is_closed():
            del self._leased[granted]  # it broke on its way here
            granted = await self._wait(tenant, is_first=True)  # whoever it was granted to has waited longest
        return granted

    async def _wait(self, tenant: TenantId | None, *, is_first: bool = False) -> DatabaseConnection:
        if self._closing:
            raise StorageUnavailable(STOPPING_MESSAGE)
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        others, self._waiters = (self._waiters, {}) if is_first else ({}, self._waiters)
        self._waiters[waiter] = tenant
        self._waiters.update(others)
        self._open_for_waiters()
        try:
            return await waiter
        except asyncio.CancelledError:
            self._abandon_wait(waiter)
            raise

    def _abandon_wait(self, waiter: _Waiter) -> None:
        """Leave the queue, and pass on what was granted in the very moment of the cancellation."""
        if waiter.cancelled():
            self._waiters.pop(waiter, None)  # unless it was skipped by now
            for opening, expecting in self._opening.items():
                if expecting is waiter and len(self._opening) > len(self._waiters):
                    opening.cancel()
        elif waiter.exception() is None:
            self.release(waiter.result())

    def _open_for_waiters(self) -> None:
        """Open a connection for each waiter for whom none is being opened, as far as there is room."""
        expecting = {*self._opening.values()}
        for waiter in self._waiters:
            if self._open >= self._size or len(self._opening) >= len(self._waiters):
                return
            if waiter not in expecting and not waiter.done():
                task = asyncio.get_running_loop().create_task(self._open_one(waiter), name="open-connection")
                self._opening[task] = waiter
                task.add_done_callback(self._finish_opening)

    async def _open_one(self, waiter: _Waiter) -> None:
        """Open a connection and hand it to whoever is next; ``waiter`` is told of the failure."""
        try:
            connection = await connect(self._database)
        except Exception as error:
            self.faults.count(error.__cause__ or error)
            if not waiter.done():
                del self._waiters[waiter]
                waiter.set_exception(error)
            return
        self._opening = {task: other for task, other in self._opening.items() if other is not waiter}
        self._leased[connection] = None
        self.release(connection)

    def _finish_opening(self, task: "asyncio.Task[None]") -> None:
        self._opening.pop(task, None)  # one that failed, or was cancelled
        self._pass_capacity_on()

    def _serve_waiters(self, last: TenantId | None) -> None:
        """Hand out what is idle, as far as there are waiters who may have it; to ``last``, who had it, after others."""
        while self._idle and (waiter := self._choose_waiter(last)) is not None:
            connection = self.take_idle()
            if connection is None:  # it broke while it was idle, which makes room for another
                self._open_for_waiters()
                return
            tenant = self._leased[connection] = self._waiters.pop(waiter)
            waiter.set_result(connection)
            if tenant is not None and len({*self._waiters.values()}) > 1:
                # What else it waits for is behind those who have not had their turn.
                self._waiters = dict(sorted(self._waiters.items(), key=lambda waiting: waiting[1] == tenant))

    def _choose_waiter(self, last: TenantId | None) -> _Waiter | None:
        """Who is next: the first of those whose tenant has the fewest connections, and not yet as many as it may."""
        firsts: dict[TenantId | None, _Waiter] = {}
        for waiter, tenant in self._waiters.items():
            if tenant not in firsts and not waiter.done():
                firsts[tenant] = waiter
                if tenant is None:  # which has no connections, so nobody behind it is before it
                    break
        taken = Counter(self._leased.values())
        taken[None] = 0
        shares = {
            each: taken[each] + (each is not None and each == last)
            for each in firsts
            if taken[each] < self._most_of_tenant
        }
        return firsts[min(shares, key=shares.__getitem__)] if shares else None

    def _pass_capacity_on(self) -> None:
        if not self._closing:
            self._open_for_waiters()
        elif not self._open:
            self._all_closed.set()

    def _retire(self, connection: DatabaseConnection) -> None:
        """Close a connection that is in none of the four places any more; its room stays taken until then."""
        task = asyncio.get_running_loop().create_task(_close_connection(connection), name="retire-connection")
        self._retiring.add(task)
        task.add_done_callback(self._finish_retiring)

    def _finish_retiring(self, task: "asyncio.Task[None]") -> None:
        self._retiring.remove(task)
        self._pass_capacity_on()

    def _sweep(self) -> None:
        """Close what has been idle for long; come back as long as anything is idle."""
        loop = asyncio.get_running_loop()
        spare = len(self._idle) + len(self._leased) + len(self._opening) - self._min_open
        while spare > 0 and self._idle and self._idle[0][0] + self._idle_timeout_s <= loop.time():
            self._retire(self._idle.popleft()[1])
            spare -= 1
        self._sweeper = loop.call_later(self._idle_timeout_s, self._sweep) if self._idle else None


class ConnectionGuard:
    """``with`` it: the connection is the block's alone, and goes back to the pool at its end."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: Pool, connection: DatabaseConnection) -> None:
        self._pool = pool
        self._connection = connection

    def __enter__(self) -> DatabaseConnection:
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._pool.release(self._connection)
        else:
            self._pool.give_back(self._connection, error)


class ConnectionLease:
    """``async with lease as connection``: the connection is the block's alone."""

    __slots__ = ("_connection", "_limit", "_pool", "_tenant", "_timer", "_within")

    def __init__(self, pool: Pool, within: timedelta, limit: timedelta | None, tenant: TenantId | None = None) -> None:
        self._pool = pool
        self._within = within
        self._limit = limit
        self._tenant = tenant
        self._connection: DatabaseConnection | None = None
        """As long as the block lasts."""

    async def __aenter__(self) -> DatabaseConnection:
        pool, tenant = self._pool, self._tenant
        connection = self._connection = pool.take_idle(tenant) or await pool.acquire(self._within, tenant)
        if self._limit is None:
            self.watch()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._limit.total_seconds(), self.cut_off)
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None  # noqa: S101 - the block had it
        self._timer.cancel()
        if error is None:
            self._pool.release(connection)
        else:
            self._pool.give_back(connection, error)

    def watch(self) -> None:
        """Have a look at the database after a while, should the block not be over by then."""
        if self._connection is not None:
            pool, loop = self._pool, asyncio.get_running_loop()
            self._timer = loop.call_later(pool.watch_interval_s, pool.suspect_silence, self)

    def cut_off(self) -> None:
        """End the connection, and with it the statement that waits for an answer."""
        if self._connection is not None:
            self._connection.terminate()


LOST_ERRORS: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.DatabaseDroppedError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
"""The server says that the session is over."""

UNAVAILABLE_ERRORS: Final = (
    asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError,  # disk full, out of memory, too many connections
    asyncpg.PostgresSystemError,
    asyncpg.ReadOnlySQLTransactionError,  # a fail-over made our server a replica; its successor wants a new connection
)
"""The server is there and cannot do what it is for."""


def is_lost(error: BaseException, connection: DatabaseConnection) -> bool:
    """Whether the connection failed under the statement, so that its outcome is not known."""
    if isinstance(error, LOST_ERRORS):
        return True
    if isinstance(error, TimeoutError):  # of the statement; some other code's leaves the connection clean
        return not connection.is_clean
    return isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError) and connection.is_closed()


def is_unavailable(error: BaseException) -> bool:
    """Whether the database turned the statement down for a reason that has nothing to do with the statement."""
    return isinstance(error, UNAVAILABLE_ERRORS)


def _comes_between(error: BaseException) -> bool:
    """Whether a statement may be prepared and not executed: it was cancelled, its time was over, or an argument cannot
    be encoded. asyncpg sends no Sync before it executes. Until then the server takes the statement for one under way,
    and its ``statement_timeout`` would end what the next user of the connection asks.
    """
    if isinstance(error, TimeoutError):
        return not error.args  # as asyncpg raises it; others say what took too long
    return isinstance(error, asyncio.CancelledError | asyncpg.InterfaceError | asyncpg.DataError)


def _translate_failure(error: BaseException, connection: DatabaseConnection) -> StorageUnavailable | None:
    """What an error inside a lease means to the outside; None when it is not about the database itself."""
    if is_lost(error, connection):
        return ConnectionLost(connection.process_id, connection.started_at)
    if is_unavailable(error):
        return StorageUnavailable()
    return None


async def _close_connection(connection: DatabaseConnection) -> None:
    """Close, after telling the server to stop what may still run; by force when that takes long."""
    try:
        await connection.close(timeout=CLOSE_TIMEOUT.total_seconds())
    except Exception as error:  # it is aborted then, and the reason does not matter
        log.debug("connection_aborted", reason=repr(error))
