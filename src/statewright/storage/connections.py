"""Opening connections to PostgreSQL, and telling a database that is away from a statement that is wrong.

A database is named by a URL as libpq understands it (PostgreSQL manual, §32.1.1.2): several hosts, ``sslmode``, a Unix
socket as ``?host=/directory``. Parameters that only steer other drivers are dropped: asyncpg would pass them on to the
server, which refuses names it does not know. What we ourselves set for a session is set once it has begun: poolers such
as PgBouncer refuse parameters of a start that they do not know (docs/guides/postgresql.md).

What the database could not do is logged with its SQLSTATE, counted by kind, and kept in mind as long as writes fail. A
log line for each failure would drown the one that matters, so each kind has one every ``LOG_INTERVAL_S``.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, cast, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg
from msgspec import Struct
from msgspec.structs import replace

from statewright.failures import StorageUnavailable
from statewright.loop.lru import LruCache
from statewright.network.sockets import enable_keepalive
from statewright.telemetry import logs

CONNECT_TIMEOUT: Final = timedelta(seconds=5)

log = logs.logger(__name__)

IGNORED_PARAMETERS: Final = frozenset(
    {
        # libpq's, for what asyncpg does in its own way or not at all
        "channel_binding",
        "client_encoding",
        "connect_timeout",
        "fallback_application_name",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "sslcompression",
        "sslsni",
        "tcp_user_timeout",
        # pgx's, the driver of the reference server
        "default_query_exec_mode",
        "description_cache_capacity",
        "pool_health_check_period",
        "pool_max_conn_idle_time",
        "pool_max_conns",
        "pool_max_conn_lifetime",
        "pool_max_conn_lifetime_jitter",
        "pool_min_conns",
        "pool_min_idle_conns",
        "statement_cache_capacity",
    }
)


class DatabaseUrl(Struct, frozen=True, kw_only=True):
    """A database and how to connect to it."""

    dsn: str
    application_name: str = "statewright"
    connect_timeout: timedelta = CONNECT_TIMEOUT
    session: tuple[tuple[str, str], ...] = (("jit", "off"),)
    """Parameters of the server that each session sets at its beginning, and their values."""

    @property
    def location(self) -> str:
        """``host:port/database``, for messages: without user and password."""
        parts = urlsplit(self.dsn)
        host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        return f"{host}{parts.path}"


def parse_database_url(url: str, *, application_name: str = "statewright") -> DatabaseUrl:
    """The database that a URL names; a ``connect_timeout`` in it (seconds) is heeded.

    Raises ``ValueError``, which never quotes the URL: it may hold a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError("a database URL starts with postgres:// or postgresql://")
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in parameters if name not in IGNORED_PARAMETERS]
    seconds = dict(parameters).get("connect_timeout", "")
    return DatabaseUrl(
        dsn=parts._replace(query=urlencode(kept)).geturl(),
        application_name=application_name,
        connect_timeout=timedelta(seconds=int(seconds)) if seconds.isdigit() and int(seconds) else CONNECT_TIMEOUT,
    )


def add_session_settings(database: DatabaseUrl, **settings: str) -> DatabaseUrl:
    """The database with more parameters of the server that every session sets."""
    return replace(database, session=(*database.session, *settings.items()))


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


PAUSE_S: Final = 0.5
"""Between attempts to reach a database that is waited for."""

NOT_YET_ERRORS: Final = (
    OSError,  # refused, no such host, no such socket, too late
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.PostgresConnectionError,
    asyncpg.TargetServerAttributeNotMatched,
)
"""What a database says that is being started, or of which no host takes writes yet. All else stays as it is: a wrong
password, say.
"""


async def connect_when_ready(database: DatabaseUrl) -> DatabaseConnection:
    """A new connection to a database that may not be there yet; the caller limits the time.

    Raises ``StorageUnavailable`` for what waiting does not change.
    """
    is_told = False
    while True:
        try:
            return await connect(database)
        except StorageUnavailable as away:
            if not isinstance(away.__cause__, NOT_YET_ERRORS):
                raise
            if not is_told:
                log.warning("database_awaited", database=database.location, error=describe(away))
                is_told = True
        await asyncio.sleep(PAUSE_S)


def describe(failure: StorageUnavailable) -> str:
    """What stood in the way, in a line."""
    cause = failure.__cause__ or failure
    return str(cause) or type(cause).__name__


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


LOG_INTERVAL_S: Final = 10.0

FaultKind = Literal["unreachable", "lost", "resources", "read_only", "system", "starting"]
"""No connection; a connection that broke; out of disk, memory or connections; a standby, or a database that was made
read-only; the system below the database; a database that is being started or stopped.
"""

FAULT_KINDS: Final = get_args(FaultKind)

MAX_TEXT: Final = 300
"""Characters of a message in the log."""


class StorageFaults:
    """The failures of one process's connections. ``cannot_write`` until somebody has shown that it can."""

    def __init__(self) -> None:
        self.counts: Counter[FaultKind] = Counter()
        self.cannot_write = False
        self._told_at: dict[FaultKind, float] = {}
        self._untold: Counter[FaultKind] = Counter()

    def count(self, error: BaseException, *, is_lost: bool = False) -> None:
        """One statement, or one attempt to connect, has failed for a reason that is not its own."""
        kind = classify_fault(error, is_lost=is_lost)
        self.counts[kind] += 1
        self.cannot_write |= kind == "read_only" or isinstance(error, DISK_ERRORS)
        now = time.monotonic()
        if now - self._told_at.get(kind, -LOG_INTERVAL_S) < LOG_INTERVAL_S:
            self._untold[kind] += 1
            return
        self._told_at[kind] = now
        log.error(
            "storage_failed",
            kind=kind,
            sqlstate=getattr(error, "sqlstate", None) or "",
            error=(str(error) or type(error).__name__).splitlines()[0][:MAX_TEXT],
            untold=self._untold.pop(kind, 0),
        )


DISK_ERRORS: Final = (asyncpg.DiskFullError, asyncpg.PostgresIOError)


def classify_fault(error: BaseException, *, is_lost: bool) -> FaultKind:
    """Of which kind a failure is."""
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return "read_only"
    if isinstance(error, asyncpg.InsufficientResourcesError):
        return "resources"
    if isinstance(error, asyncpg.PostgresSystemError):
        return "system"
    if isinstance(error, asyncpg.OperatorInterventionError):
        return "starting"
    return "lost" if is_lost else "unreachable"


IS_READ_ONLY: Final = "SELECT current_setting('transaction_read_only')::boolean"

PROBE: Final = """
    -- Needs space for a table and in the write-ahead log, as a commit may. The table is gone when this is committed.
    CREATE TEMPORARY TABLE statewright_probe ON COMMIT DROP AS
    SELECT n, md5(n::text) FROM generate_series(1, 2000) AS n
"""


async def check_writes(connection: asyncpg.Connection, faults: StorageFaults) -> bool:
    """Whether the database takes writes. It is tried only when a write has failed before."""
    if await connection.fetchval(IS_READ_ONLY):
        return False
    if faults.cannot_write:
        try:
            async with connection.transaction():
                await connection.execute(PROBE)
        except asyncpg.InsufficientPrivilegeError:  # the role may not make tables: only the next commit can tell
            pass
        faults.cannot_write = False
    return True
