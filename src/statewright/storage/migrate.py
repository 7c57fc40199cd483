"""The schema's migrations: numbered ``.sql`` files, each applied once, in order, by whichever node comes first.

A file is named ``0001_what_it_does.sql`` and runs in a transaction of its own together with its entry in
``schema_migration``, so it is applied wholly or not at all, and a killed migration leaves nothing to repair. It must
not contain ``BEGIN`` or ``COMMIT``, nor what PostgreSQL runs outside transactions only. An applied file is never
edited, its comments included: its checksum is on record, and a difference stops the start. ``checksums.txt`` beside the
files has the checksum of each that ever landed. A second line of a file there has that of another text of it, which
some databases were migrated with, which did the same, and which counts as well.

Several nodes may start at once. Each migration begins by taking an advisory lock and looks at the record only then:
one node applies a file, the others wait, look, and find it done. The lock ends with the transaction, whatever happens
to its holder.

Nodes of the version before may go on serving meanwhile. A migration that waits for one of their locks keeps all later
ones waiting behind it, and where it holds a lock that they want it is a deadlock, of which PostgreSQL ends either side.
So a migration gives way first: it waits less than a second for a lock, and starts again from the beginning.

Why the service does not start on a storage is said in one line for the operator.

StartRefused
├── ServerUnfit                the server or its database is none that this program works on
├── EmbeddedServerRefused      the embedded PostgreSQL cannot run here
│   └── DataDirectoryInUse     another service holds the data directory
└── SchemaRefused              the database's schema does not fit this program
    ├── SchemaNotReadable      the role may not read or change what it has to
    ├── SchemaNewer            a newer program migrated it
    ├── SchemaOutdated         migrations are pending and may not be applied
    └── SchemaDiffers          an applied migration is not the one this program knows
"""

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import asyncpg
from msgspec import Struct

from statewright.telemetry import logs


class StartRefused(Exception):
    """The storage cannot be used as it is; an operator has to act before a restart makes sense."""


class ServerUnfit(StartRefused):
    """The server or its database is none that this program works on."""


class EmbeddedServerRefused(StartRefused):
    """The embedded PostgreSQL cannot run here."""


class DataDirectoryInUse(EmbeddedServerRefused):
    """Another service holds the data directory."""

    def __init__(self, data_directory: Path, holder: str) -> None:
        by = f" (process {holder})" if holder else ""
        super().__init__(f"data directory {data_directory} is in use by another service{by}")


class SchemaRefused(StartRefused):
    """The database's schema does not fit this program."""


class SchemaNotReadable(SchemaRefused):
    """The database does not let this role read or change the schema."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the schema of the database cannot be read or changed: {reason}")


class SchemaNewer(SchemaRefused):
    """A newer program migrated the database; going back would need its knowledge."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database schema has version {found}, newer than {known} of this program: install a newer release"
        )


class SchemaOutdated(SchemaRefused):
    """Migrations are pending, and this start is not allowed to apply them."""

    def __init__(self, found: int, needed: int) -> None:
        super().__init__(
            f"the database schema has version {found}, this program needs {needed}:"
            " run `statewright migrate` or allow auto-migrate"
        )


class SchemaDiffers(SchemaRefused):
    """An applied migration is not the one this program knows."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"migration {name} {reason}: this database was migrated by a different build of the program")


OLDEST_SERVER: Final = 15
"""Of the major versions of PostgreSQL (docs/guides/postgresql.md)."""

FILE_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")

LOCK_KEY: Final = int.from_bytes(hashlib.sha256(b"statewright schema_migration").digest()[:8], signed=True)
"""Advisory locks are numbers; other software is unlikely to use this one."""

TRIES: Final = 20
"""Of one migration. The last waits for locks as long as it takes, so that a busy database is migrated in the end."""

LOCK_TIMEOUT_MS: Final = 900
"""Below PostgreSQL's ``deadlock_timeout`` of a second, so that it is never a running node whose statement ends."""

TRY_INTERVAL_S: Final = 0.25
"""What waited behind the migration is done meanwhile."""

log = logs.logger(__name__)


class Migration(Struct, frozen=True, kw_only=True):
    """One file."""

    version: int
    name: str
    sql: str
    equivalents: frozenset[str] = frozenset()
    """Checksums of other texts of it that did the same."""

    @property
    def checksum(self) -> str:
        """SHA-256 in hex; line ends do not count, since tools like to change them."""
        return hashlib.sha256("\n".join(self.sql.splitlines()).encode()).hexdigest()


def read_migrations(directory: Traversable) -> tuple[Migration, ...]:
    """The migrations of a directory, in order; raises ``ValueError`` unless they are numbered 1, 2, 3 …"""
    names = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(".sql"))
    landed = read_checksums(directory)
    migrations = tuple(_read_migration(directory, name, landed.get(name, ())) for name in names)
    if [migration.version for migration in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(f"migrations must be numbered from 0001 without a gap: {', '.join(names)}")
    return migrations


def read_checksums(directory: Traversable) -> Mapping[str, Sequence[str]]:
    """The checksums of ``checksums.txt``, by name of the file: first that of its text, then those of equivalents.
    Empty where there is no such file.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    file = directory.joinpath("checksums.txt")
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        if line and not line.startswith("#"):
            checksum, name = line.split()
            found[name].append(checksum)
    return found


def _read_migration(directory: Traversable, name: str, landed: Sequence[str]) -> Migration:
    match = FILE_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is not named like 0001_what_it_does.sql")
    sql = directory.joinpath(name).read_text(encoding="utf-8")
    return Migration(version=int(match[1]), name=name, sql=sql, equivalents=frozenset(landed[1:]))


MIGRATIONS: Final = read_migrations(files("statewright.storage").joinpath("migrations"))
"""Those of this program."""


async def list_pending(
    connection: asyncpg.Connection, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[Migration, ...]:
    """What ``apply`` would do, in order; raises ``SchemaNewer`` and ``SchemaDiffers``."""
    return _find_pending(await _read_recorded(connection), migrations)


async def check_schema(connection: asyncpg.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Refuse a database that is not exactly at this program's schema; raises ``ServerUnfit`` or ``SchemaRefused``."""
    await _check_server(connection)
    with _explain_refusals():
        left = await list_pending(connection, migrations)
    if left:
        raise SchemaOutdated(found=left[0].version - 1, needed=left[-1].version)


async def apply_pending(
    connection: asyncpg.Connection, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[Migration, ...]:
    """Bring the schema up to this program; what this call itself applied. Raises ``ServerUnfit``, ``SchemaNewer``,
    ``SchemaDiffers`` and ``SchemaNotReadable``.
    """
    await _check_server(connection)
    applied: list[Migration] = []
    with _explain_refusals():
        while (migration := await _apply_next_between_others(connection, migrations)) is not None:
            log.info("migration_applied", name=migration.name)
            applied.append(migration)
    return tuple(applied)


READ_SERVER: Final = """
    SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding
"""


async def _check_server(connection: asyncpg.Connection) -> None:
    server = await connection.fetchrow(READ_SERVER)
    assert server is not None  # noqa: S101 - it selects from nothing
    refuse_server(**server)


def refuse_server(*, version: int, encoding: str) -> None:
    """Raises ``ServerUnfit`` for a server of this ``server_version_num``, or a database of this encoding: one that
    takes some texts only would fail requests. ``SQL_ASCII`` takes all, and counts their bytes as characters.
    """
    major = version // 10_000
    if major < OLDEST_SERVER:
        raise ServerUnfit(f"the database server is PostgreSQL {major}: {OLDEST_SERVER} or newer is needed")
    if encoding == "SQL_ASCII":
        log.warning("database_counts_bytes", encoding=encoding, better="UTF8")
    elif encoding != "UTF8":
        raise ServerUnfit(f"the database has the encoding {encoding}: create it with ENCODING 'UTF8'")


@contextmanager
def _explain_refusals() -> Iterator[None]:
    """Raises ``SchemaNotReadable`` for what a role, or a schema that is not there, makes fail."""
    try:
        yield
    except (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.InvalidSchemaNameError,
        asyncpg.ReadOnlySQLTransactionError,
    ) as refused:
        raise SchemaNotReadable(str(refused)) from refused


TAKE_LOCK: Final = "SELECT pg_advisory_xact_lock($1)"

CREATE_RECORD: Final = """
    CREATE TABLE IF NOT EXISTS schema_migration (
        version    integer     PRIMARY KEY,
        name       text        NOT NULL,
        checksum   text        NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
"""

RECORD: Final = "INSERT INTO schema_migration (version, name, checksum) VALUES ($1, $2, $3)"


LIMIT_WAITS: Final = f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"


async def _apply_next_between_others(
    connection: asyncpg.Connection, migrations: Sequence[Migration]
) -> Migration | None:
    """As ``_apply_next``, giving way to what others have locked."""
    for number in range(1, TRIES):
        try:
            return await _apply_next(connection, migrations, gives_way=True)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as reason:
            log.info("migration_waits", attempt=number, reason=str(reason))
            await asyncio.sleep(TRY_INTERVAL_S)
    return await _apply_next(connection, migrations)


async def _apply_next(
    connection: asyncpg.Connection, migrations: Sequence[Migration], *, gives_way: bool = False
) -> Migration | None:
    """Apply the first pending migration, in one transaction; None when nothing is left to do. One that ``gives_way``
    fails when it waits for a lock of others, except for that of another node that migrates.
    """
    # Read committed, whatever the database's default: the look at the record must come after the lock.
    async with connection.transaction(isolation="read_committed"):
        await connection.execute(TAKE_LOCK, LOCK_KEY)
        left = await list_pending(connection, migrations)
        if not left:
            return None
        migration = left[0]
        if gives_way:
            await connection.execute(LIMIT_WAITS)
        await connection.execute(CREATE_RECORD)
        await connection.execute(migration.sql)
        if not connection.is_in_transaction():
            raise ValueError(f"{migration.name} ends its transaction")
        await connection.execute(RECORD, migration.version, migration.name, migration.checksum)
        return migration


RECORD_EXISTS: Final = "SELECT to_regclass('schema_migration') IS NOT NULL"

RECORDED: Final = "SELECT version, name, checksum FROM schema_migration"


async def _read_recorded(connection: asyncpg.Connection) -> Mapping[int, tuple[str, str]]:
    """Name and checksum of what was applied, by version."""
    if not await connection.fetchval(RECORD_EXISTS):
        return {}
    return {version: (name, checksum) for version, name, checksum in await connection.fetch(RECORDED)}


def _find_pending(recorded: Mapping[int, tuple[str, str]], migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    newest = max(recorded, default=0)
    if newest > len(migrations):
        raise SchemaNewer(found=newest, known=len(migrations))
    for migration in migrations[:newest]:
        if migration.version not in recorded:
            raise SchemaDiffers(migration.name, "was left out")
        if recorded[migration.version][1] not in {migration.checksum, *migration.equivalents}:
            raise SchemaDiffers(migration.name, "has changed since it was applied")
    return tuple(migrations[newest:])
