"""What became of submissions whose connection broke before the verdict arrived.

Its backend may still be at work, so it is ended first; from then on what the tables show is the truth. A database that
cannot be asked is asked again until a deadline: one that is started anew takes some seconds to let anybody in.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import asyncpg

from statewright import logs
from statewright.failures import StorageUnavailable
from statewright.storage.commit.submission import Submission
from statewright.storage.pool import ConnectionLost, Pool

ASK_TIMEOUT_S: Final = 6.0
"""For one statement: a little longer than ``END_BACKEND`` may wait."""

PAUSE_S: Final = 0.25
"""Between two attempts."""

log = logs.logger(__name__)


async def find_applied(
    pool: Pool, lost: ConnectionLost, submissions: Sequence[Submission], *, until: float
) -> list[int | None]:
    """When each submission of a batch was applied, in order; None for one that was not.

    ``until``: when to give up, by the clock of the event loop. Raises then what stands in the way of the truth.
    """
    clock = asyncio.get_running_loop().time
    while True:
        try:
            return await _ask(pool, lost, submissions, within_s=max(until - clock(), PAUSE_S))
        except (StorageUnavailable, BackendAlive, asyncpg.PostgresError) as obstacle:
            if clock() + PAUSE_S >= until:
                raise
            log.info("commit_outcome_awaited", error=repr(obstacle.__cause__ or obstacle), commits=len(submissions))
        await asyncio.sleep(PAUSE_S)


async def _ask(
    pool: Pool, lost: ConnectionLost, submissions: Sequence[Submission], *, within_s: float
) -> list[int | None]:
    tenants, entities, transactions = zip(*map(_get_proof_row, submissions), strict=True)
    timeout_s = min(within_s, ASK_TIMEOUT_S)
    async with pool.connection(within=timedelta(seconds=within_s)) as connection:
        await end_backend(connection, lost, timeout_s=timeout_s)
        rows = await connection.fetch(WRITTEN_AT, tenants, entities, transactions, timeout=timeout_s)
    instants: dict[int, int] = {row["n"]: row["valid_from"] for row in rows}
    return [instants.get(number) for number in range(1, len(submissions) + 1)]


# LATERAL … LIMIT 1 keeps the planner at one index probe per transaction.
WRITTEN_AT: Final = """
    -- When transactions wrote their entities; nothing for one that never did.
    SELECT wanted.n, written.valid_from
      FROM unnest($1::text[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS wanted (tenant, id, transaction_id, n)
     CROSS JOIN LATERAL (
            SELECT valid_from FROM entity
             WHERE entity.tenant = wanted.tenant AND entity.id = wanted.id
               AND entity.transaction_id = wanted.transaction_id
             UNION ALL
            SELECT valid_from FROM entity_history AS old
             WHERE old.tenant = wanted.tenant AND old.id = wanted.id AND old.transaction_id = wanted.transaction_id
             LIMIT 1) AS written
"""


class BackendAlive(Exception):
    """A backend could not be ended; it may still commit."""


END_BACKEND: Final = """
    -- Another backend may have got the number since. Waits up to 5 s for this one to be gone.
    SELECT pg_terminate_backend(pid, 5000)
      FROM pg_stat_activity
     WHERE pid = $1 AND backend_start = $2 AND pid <> pg_backend_pid()
"""


async def end_backend(
    connection: asyncpg.Connection, lost: ConnectionLost, *, timeout_s: float = ASK_TIMEOUT_S
) -> None:
    """End the backend of a lost connection, so that a statement it may still run cannot commit any more.

    Raises ``BackendAlive`` when it does not end.
    """
    ended: bool | None = await connection.fetchval(END_BACKEND, lost.process_id, lost.started_at, timeout=timeout_s)
    if ended is False:
        raise BackendAlive(f"backend {lost.process_id} does not end")


def _get_proof_row(submission: Submission) -> tuple[str, str, str | None]:
    """A row whose transaction id proves that the submission was applied."""
    row = next((row for row in submission.rows if row.transaction_id is not None), submission.rows[0])
    return row.tenant, row.id, row.transaction_id


def get_transaction_id(submission: Submission) -> str:
    """The id that the caller knows; that of the run where nothing is written but events."""
    return _get_proof_row(submission)[2] or submission.rows[0].entry_transaction_id
