"""The database of a service: where it is, that its schema is the one of this program, and the connections of a process,
divided so that nothing slow can take those of what must be quick.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Final

import asyncpg
from msgspec import Struct

from statewright.failures import StorageUnavailable
from statewright.services.search_runner import MAX_CONCURRENT_JOBS as JOB_CONNECTIONS
from statewright.settings import Settings
from statewright.storage import migrate
from statewright.storage.commit.group_commit import COMMIT_CONNECTIONS as COMMIT_CONNECTIONS
from statewright.storage.commit.group_commit import configure_commit_sessions
from statewright.storage.connections import DatabaseUrl, StorageFaults, parse_database_url
from statewright.storage.embedded.server import run_embedded_server as embedded_server
from statewright.storage.entities import MAX_IN_FLIGHT as READ_CONNECTIONS
from statewright.storage.migrate import StartRefused
from statewright.storage.pool import DatabaseConnection, Pool, connect
from statewright.storage.search.query import (
    configure_lookup_sessions,
    configure_past_sessions,
    configure_search_sessions,
)
from statewright.telemetry import logs

CLOSE_TIMEOUT_S: Final = 2.0
"""How long a database may take to say goodbye."""

log = logs.logger(__name__)


class StartFailed(Exception):
    """The service cannot start; the message is one line for the operator."""


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[DatabaseUrl]:
    """The database of the settings; the embedded server runs inside the block."""
    if settings.storage == "postgres":
        assert settings.postgres_url is not None  # noqa: S101 - the settings demand it
        yield parse_database_url(settings.postgres_url.reveal())
        return
    async with embedded_server(settings.data_directory) as url:
        yield parse_database_url(url)


async def migrate_database(settings: Settings, database: DatabaseUrl) -> None:
    """Bring the schema up to this program, or see that it is. Raises ``StartFailed`` and ``StartRefused``."""
    within = settings.startup_timeout.total_seconds()
    try:
        async with asyncio.timeout(within):
            connection = await connect_when_ready(database)
            try:
                await (
                    migrate.apply_pending(connection)
                    if settings.postgres_auto_migrate
                    else migrate.check_schema(connection)
                )
            finally:
                await connection.close(timeout=CLOSE_TIMEOUT_S)
    except TimeoutError as late:
        raise StartFailed(f"the database at {database.location} was not ready within {within:g} s") from late
    except StorageUnavailable as away:
        raise StartFailed(f"cannot connect to the database at {database.location}: {describe(away)}") from away


async def apply_migrations(settings: Settings, within: timedelta) -> int:
    """Apply pending migrations and exit; the exit code of the process."""
    logs.configure(settings.log_level, settings.log_format)
    try:
        async with asyncio.timeout(within.total_seconds()), open_database(settings) as database:
            connection = await connect_when_ready(database)
            try:
                applied = await migrate.apply_pending(connection)
            finally:
                await connection.close()
    except TimeoutError:
        sys.stderr.write(f"statewright: migrations were not complete within {within.total_seconds():g} s\n")
        return 1
    except (StartFailed, OSError, StorageUnavailable, StartRefused) as failure:
        sys.stderr.write(f"statewright: {failure}\n")
        return 1
    log.info("migrations_applied", count=len(applied))
    return 0


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


MAX_SEARCH_CONNECTIONS: Final = 8
"""Of the connections of a process; searches take a quarter of them."""

LOOKUP_CONNECTIONS: Final = 2
"""For searches by a declared index, which take a fraction of a millisecond."""

PAST_CONNECTIONS: Final = 3
"""Searches of the past at a time, of one tenant one less."""


class Pools(Struct, frozen=True, kw_only=True):
    """Each for one kind of work."""

    shared: Pool
    """For everything that has no pool of its own."""
    reads: Pool
    """By id."""
    commits: Pool
    searches: Pool
    lookups: Pool
    past: Pool
    jobs: Pool
    """Search jobs, which have no limit in time."""


@asynccontextmanager
async def open_pools(settings: Settings, database: DatabaseUrl) -> AsyncIterator[Pools]:
    """All pools, open inside the block; together they have ``postgres_max_conns``, if that is enough for all."""
    within = settings.search_timeout
    searching = max(1, min(settings.postgres_max_conns // 4, MAX_SEARCH_CONNECTIONS))
    searchers = searching + LOOKUP_CONNECTIONS + PAST_CONNECTIONS + JOB_CONNECTIONS
    reserved = COMMIT_CONNECTIONS + READ_CONNECTIONS + searchers
    shared = max(settings.postgres_max_conns - reserved, 1)
    faults = StorageFaults()
    async with AsyncExitStack() as stack:

        async def open_pool(sessions: DatabaseUrl, *, size: int, keep: int = 0, others: int = 0) -> Pool:
            pool = Pool(sessions, size=size, min_open=keep, kept_for_others=others, faults=faults)
            return await stack.enter_async_context(pool)

        yield Pools(
            shared=await open_pool(database, size=shared, keep=min(settings.postgres_min_conns, shared)),
            reads=await open_pool(database, size=READ_CONNECTIONS, keep=READ_CONNECTIONS),
            commits=await open_pool(
                configure_commit_sessions(database), size=COMMIT_CONNECTIONS, keep=COMMIT_CONNECTIONS
            ),
            searches=await open_pool(configure_search_sessions(database, timeout=within), size=searching, others=1),
            lookups=await open_pool(configure_lookup_sessions(database, timeout=within), size=LOOKUP_CONNECTIONS),
            past=await open_pool(configure_past_sessions(database, timeout=within), size=PAST_CONNECTIONS, others=1),
            jobs=await open_pool(configure_search_sessions(database), size=JOB_CONNECTIONS),
        )
