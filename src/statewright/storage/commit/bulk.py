"""Many new entities of one transaction, written by COPY.

The commit statement takes its rows as arrays, which cost more per row than COPY does; for a handful of rows its one
round trip is cheaper, for hundreds it is not. What is written is the same: entities, one audit row each, unique keys,
growth of models. It happens in one database transaction:

1. Models grow under the locks of their rows (``storage/commit/growth.py``), those of new entities stay locked (ADR 8).
2. Unique keys are claimed, in the one global order. A claim that another transaction is just taking is waited for;
   one that is taken ends the transaction.
3. The instant is taken behind the fence (``storage/read_barrier.py``), which is held until all of it is visible.
4. Rows are copied.

New entities have no former versions, so there is nothing to lock, to compare or to supersede.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import asyncpg

from statewright.storage.columns import ENTITY_COLUMNS, StagedRow
from statewright.storage.commit.growth import grow_models
from statewright.storage.commit.statement import STATEMENT_TIMEOUT_S, SubmissionRefused, lock_models
from statewright.storage.commit.submission import (
    Applied,
    Attempt,
    ClaimRow,
    ModelLockLost,
    Submission,
    UniqueKeyTaken,
)

MIN_COPY_ROWS: Final = 60
"""Rows from which COPY, with its four round trips, is quicker than the commit statement (measured)."""

AUDIT_COLUMNS: Final = {
    "tenant": "tenant",
    "entity": "id",
    "at": "events_at",
    "transaction_id": "entry_transaction_id",
    "n": "n",
    "events": "events",
}
"""Columns of the audit trail, and the fields of a staged row that they come from."""

_get_version = attrgetter(*ENTITY_COLUMNS.version)
_get_audit = attrgetter(*AUDIT_COLUMNS.values())

CLAIM: Final = """
    -- One of two that claim the same value waits here for the other to commit.
    INSERT INTO unique_claim (tenant, hash, entity)
    SELECT tenant, hash, entity
      FROM unnest($1::text[], $2::uuid[], $3::uuid[]) AS claimed (tenant, hash, entity)
     ORDER BY tenant, hash
        ON CONFLICT (tenant, hash) DO NOTHING
"""

TAKE_INSTANT: Final = """
    SELECT CASE WHEN pg_advisory_xact_lock_shared(5371, 1)::text IS NOT NULL THEN now_us() END
"""


def is_bulk(rows: Sequence[StagedRow]) -> bool:
    """Whether these rows of one transaction are better copied: many new entities, and nothing else."""
    return len(rows) >= MIN_COPY_ROWS and all(row.change == "create" for row in rows)


async def copy_in(connection: asyncpg.Connection, submission: Submission) -> Attempt:
    """Write new entities, all or none. Raises the failures of ``storage.commit.growth.grow_models``."""
    try:
        async with connection.transaction(isolation="read_committed"):
            if submission.growth:
                await grow_models(connection, submission.growth)
            await _lock_models(connection, submission)
            await _claim(connection, [claim for claim in submission.claims if claim[2] is not None])
            at: int = await connection.fetchval(TAKE_INSTANT, timeout=STATEMENT_TIMEOUT_S)
            await _copy(connection, submission.rows, at)
    except SubmissionRefused as refused:
        return refused.attempt
    return Applied(at)


async def _lock_models(connection: asyncpg.Connection, submission: Submission) -> None:
    reason = await lock_models(connection, submission, timeout_s=STATEMENT_TIMEOUT_S)
    if reason is not None:
        raise SubmissionRefused(ModelLockLost(reason))


async def _claim(connection: asyncpg.Connection, claims: Sequence[ClaimRow]) -> None:
    if not claims:
        return
    tenants, entities, hashes = zip(*claims, strict=True)
    done: str = await connection.execute(CLAIM, tenants, hashes, entities, timeout=STATEMENT_TIMEOUT_S)
    if int(done.rpartition(" ")[2]) < len(claims):
        raise SubmissionRefused(UniqueKeyTaken())


async def _copy(connection: asyncpg.Connection, rows: Sequence[StagedRow], at: int) -> None:
    await connection.copy_records_to_table(
        "entity",
        columns=(*ENTITY_COLUMNS.version, "created_at", "valid_from"),
        records=((*_get_version(row), at, at) for row in rows),
        timeout=STATEMENT_TIMEOUT_S,
    )
    await connection.copy_records_to_table(
        "entity_audit",
        columns=(*AUDIT_COLUMNS,),
        records=(_get_audit(row) for row in rows if row.events is not None),
        timeout=STATEMENT_TIMEOUT_S,
    )
