"""What became of a submission whose connection broke before the verdict arrived.

Its backend may still be at work, so it is ended first; from then on what the tables show is the truth.
"""

from datetime import timedelta

import asyncpg

from statewright.storage.commit.submission import Submission
from statewright.storage.pool import ConnectionLost, Pool


async def find_applied_at(pool: Pool, within: timedelta, lost: ConnectionLost, submission: Submission) -> int | None:
    """When the submission was applied; None when it was not. Raises whatever stands in the way of the truth."""
    tenant, entity, transaction = _get_proof_row(submission)
    async with pool.connection(within=within) as connection:
        await end_backend(connection, lost)
        at: int | None = await connection.fetchval(WRITTEN_AT, tenant, entity, transaction)
        return at


WRITTEN_AT = """
    -- When a transaction wrote an entity, or null if it never did.
    SELECT valid_from FROM entity WHERE tenant = $1 AND id = $2 AND transaction_id = $3
     UNION ALL
    SELECT valid_from FROM entity_history WHERE tenant = $1 AND id = $2 AND transaction_id = $3
     LIMIT 1
"""


class BackendAlive(Exception):
    """A backend could not be ended; it may still commit."""


END_BACKEND = """
    -- Another backend may have got the number since. Waits up to 5 s for this one to be gone.
    SELECT pg_terminate_backend(pid, 5000)
      FROM pg_stat_activity
     WHERE pid = $1 AND backend_start = $2 AND pid <> pg_backend_pid()
"""


async def end_backend(connection: asyncpg.Connection, lost: ConnectionLost) -> None:
    """End the backend of a lost connection, so that a statement it may still run cannot commit any more.

    Raises ``BackendAlive`` when it does not end.
    """
    ended: bool | None = await connection.fetchval(END_BACKEND, lost.process_id, lost.started_at)
    if ended is False:
        raise BackendAlive(f"backend {lost.process_id} does not end")


def _get_proof_row(submission: Submission) -> tuple[str, str, str | None]:
    """A row whose transaction id proves that the submission was applied."""
    row = next((row for row in submission.rows if row.transaction_id is not None), submission.rows[0])
    return row.tenant, row.id, row.transaction_id


def get_transaction_id(submission: Submission) -> str:
    """The id that the caller knows; that of the run where nothing is written but events."""
    return _get_proof_row(submission)[2] or submission.rows[0].entry_transaction_id
