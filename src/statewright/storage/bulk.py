"""Many new entities of one transaction, written by COPY.

The commit statement takes its rows as arrays, which cost more per row than COPY does; for a handful of rows its one
round trip is cheaper, for hundreds it is not. What is written is the same: entities, one audit row each, unique keys,
growth of models. It happens in one database transaction:

1. Models grow under the locks of their rows (``storage/growth.py``), those of new entities stay locked (ADR 8).
2. Unique keys are claimed, in the one global order. A claim that somebody else is just taking is waited for; one that
   is taken ends the transaction.
3. The instant is taken behind the fence (``storage/fence.py``), which is held until all of it is visible.
4. Rows are copied.

New entities have no former versions, so there is nothing to lock, to compare or to supersede.
"""

from collections.abc import Sequence

import asyncpg

from statewright.storage.commit_statement import (
    STATEMENT_WITHIN_S,
    Applied,
    Attempt,
    ClaimRow,
    Homeless,
    Refused,
    StagedRow,
    Submission,
    Violation,
    encoded_homes,
)
from statewright.storage.growth import grow

WORTH_A_COPY = 60
"""Rows from which COPY, with its four round trips, is quicker than the commit statement (measured)."""

ENTITY_COLUMNS = (
    "tenant",
    "id",
    "model",
    "state",
    "transaction_id",
    "entry_transaction_id",
    "created_at",
    "valid_from",
    "transition",
    "workflow",
    "workflow_revision",
    "attributed_id",
    "attributed_kind",
    "executor_id",
    "executor_kind",
    "document",
)
AUDIT_COLUMNS = ("tenant", "entity", "at", "transaction_id", "n", "events")

CLAIM = """
    -- One of two that claim the same value waits here for the other to commit.
    INSERT INTO unique_claim (tenant, hash, entity)
    SELECT tenant, hash, entity
      FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS claimed (tenant, hash, entity)
     ORDER BY tenant, hash
        ON CONFLICT (tenant, hash) DO NOTHING
"""

INSTANT = """
    SELECT CASE WHEN pg_advisory_xact_lock_shared(5371, 1)::text IS NOT NULL THEN now_us() END
"""


def is_bulk(rows: Sequence[StagedRow]) -> bool:
    """Whether these rows of one transaction are better copied: many new entities, and nothing else."""
    return len(rows) >= WORTH_A_COPY and all(row[0] == "create" for row in rows)


async def copy_in(connection: asyncpg.Connection, submission: Submission) -> Attempt:
    """Write new entities, all or none. Raises the failures of ``storage.growth.grow``."""
    try:
        async with connection.transaction(isolation="read_committed"):
            if submission.growth:
                await grow(connection, submission.growth)
            await _hold_homes(connection, submission)
            await _claim(connection, [claim for claim in submission.claims if claim[2] is not None])
            at: int = await connection.fetchval(INSTANT, timeout=STATEMENT_WITHIN_S)
            await _copy(connection, submission.rows, at)
    except Refused as refused:
        return refused.attempt
    return Applied(at)


LOCK_LOST = "SELECT model_locks_lost($1::jsonb) ->> '0'"
"""Why; null when none is."""


async def _hold_homes(connection: asyncpg.Connection, submission: Submission) -> None:
    homes = encoded_homes([submission])
    if homes is None:
        return
    reason: str | None = await connection.fetchval(LOCK_LOST, homes, timeout=STATEMENT_WITHIN_S)
    if reason is not None:
        raise Refused(Homeless(reason))


async def _claim(connection: asyncpg.Connection, claims: Sequence[ClaimRow]) -> None:
    if not claims:
        return
    tenants, entities, hashes = zip(*claims, strict=True)
    done: str = await connection.execute(CLAIM, tenants, hashes, entities, timeout=STATEMENT_WITHIN_S)
    if int(done.rpartition(" ")[2]) < len(claims):
        raise Refused(Violation())


async def _copy(connection: asyncpg.Connection, rows: Sequence[StagedRow], at: int) -> None:
    await connection.copy_records_to_table(
        "entity",
        columns=ENTITY_COLUMNS,
        records=((row[1], row[2], row[3], row[7], row[5], row[6], at, at, *row[8:16]) for row in rows),
        timeout=STATEMENT_WITHIN_S,
    )
    await connection.copy_records_to_table(
        "entity_audit",
        columns=AUDIT_COLUMNS,
        records=((row[1], row[2], row[16], row[6], row[17], row[18]) for row in rows if row[18] is not None),
        timeout=STATEMENT_WITHIN_S,
    )
