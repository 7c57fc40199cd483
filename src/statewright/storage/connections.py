"""Which database there is, and what it could not do.

A database is named by a URL as libpq understands it (PostgreSQL manual, §32.1.1.2): several hosts, ``sslmode``, a Unix
socket as ``?host=/directory``. Parameters that only steer other drivers are dropped: asyncpg would pass them on to the
server, which refuses names it does not know. What we ourselves set for a session is set once it has begun: poolers such
as PgBouncer refuse parameters of a start that they do not know (docs/guides/postgresql.md).

What the database could not do is logged with its SQLSTATE, counted by kind, and kept in mind as long as writes fail. A
log line for each failure would drown the one that matters, so each kind has one every ``LOG_INTERVAL_S``.
"""

import time
from collections import Counter
from datetime import timedelta
from typing import Final, Literal, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg
from msgspec import Struct
from msgspec.structs import replace

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


SESSION: Final = (
    ("jit", "off"),
    ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"),
    ("transform_null_equals", "off"),
)
"""What the statements count on, whatever the server, the database or the role is set to: each looks at what others have
committed by then, and texts in them have no escapes.
"""


class DatabaseUrl(Struct, frozen=True, kw_only=True):
    """A database and how to connect to it."""

    dsn: str
    application_name: str = "statewright"
    connect_timeout: timedelta = CONNECT_TIMEOUT
    session: tuple[tuple[str, str], ...] = SESSION
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


NOTIFY: Final = "SELECT pg_notify($1, $2)"


async def announce(connection: asyncpg.Connection, channel: str, payload: str) -> None:
    """Tell all nodes that listen to the channel, when the transaction commits that the connection is in."""
    await connection.execute(NOTIFY, channel, payload)
