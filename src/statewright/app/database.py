"""The database of a service: where it is, and that its schema is the one of this program."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from statewright import logs
from statewright.failures import StorageUnavailable
from statewright.settings import Settings
from statewright.storage import migrate
from statewright.storage.connections import Target, connect, target
from statewright.storage.embedded import running as embedded_server
from statewright.storage.refusals import StartRefused

CLOSE_WITHIN_S = 2.0
"""How long a database may take to say goodbye."""

log = logs.logger("app")


class StartFailed(Exception):
    """The service cannot start; the message is one line for the operator."""


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncIterator[Target]:
    """The database of the settings; the embedded server runs inside the block."""
    if settings.storage == "postgres":
        assert settings.postgres_url is not None  # noqa: S101 - the settings demand it
        yield target(settings.postgres_url.reveal())
        return
    async with embedded_server(settings.data_directory) as url:
        yield target(url)


async def migrated(settings: Settings, database: Target) -> None:
    """Bring the schema up to this program, or see that it is. Raises ``StartFailed`` and ``StartRefused``."""
    within = settings.startup_timeout.total_seconds()
    try:
        async with asyncio.timeout(within):
            connection = await connect(database)
            try:
                await (migrate.apply(connection) if settings.postgres_auto_migrate else migrate.check(connection))
            finally:
                await connection.close(timeout=CLOSE_WITHIN_S)
    except TimeoutError as late:
        raise StartFailed(f"the database was not ready within {within:g} s") from late
    except StorageUnavailable as away:
        raise StartFailed(f"cannot connect to the database at {database.place}: {away.__cause__ or away}") from away


async def apply_migrations(settings: Settings, within: timedelta) -> int:
    """Apply pending migrations and exit; the exit code of the process."""
    logs.configure(settings.log_level, settings.log_format)
    try:
        async with asyncio.timeout(within.total_seconds()), database_of(settings) as database:
            connection = await connect(database)
            try:
                applied = await migrate.apply(connection)
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
