"""What the database could not do, as operators need to see it: logged with its SQLSTATE, counted by kind, and kept in
mind as long as writes fail.

A log line for each failure would drown the one that matters, so each kind has one every ``LOG_INTERVAL_S``.
"""

import time
from collections import Counter
from typing import Final, Literal, get_args

import asyncpg

from statewright import logs

LOG_INTERVAL_S: Final = 10.0

FaultKind = Literal["unreachable", "lost", "resources", "read_only", "system", "starting"]
"""No connection; a connection that broke; out of disk, memory or connections; a standby, or a database that was made
read-only; the system below the database; a database that is being started or stopped.
"""

FAULT_KINDS: Final = get_args(FaultKind)

MAX_TEXT: Final = 300
"""Characters of a message in the log."""

log = logs.logger(__name__)


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
