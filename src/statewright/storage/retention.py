"""Removing superseded versions, and reading what is left without a wrong answer (docs/retention.md).

A version may go when it was superseded at or before the *horizon* of its model. So for instants from the horizon on
nothing is missing. Tombstones stay: that an entity was deleted, and when, is never forgotten.

The horizon is made known before the first version goes. A reader of the past reads first and then looks at the horizon:
if it is not later than the instant asked for, nothing that was wanted had gone. Otherwise the answer is that it has
(``HistoryPruned``), and not that there was nothing: an answer for an instant, once given, never changes
(docs/adr/0012).

No statement waits for another. Versions go in small batches, each a transaction of its own; those that another session
has locked are left for the next run, and writers never touch a superseded version again. Results of asynchronous
searches name versions: as long as they are kept, so are these.
"""

from datetime import timedelta
from typing import Final

import asyncpg
from msgspec import Struct

from statewright.entity import ModelKey
from statewright.failures import HistoryPruned
from statewright.ids import ModelId, TenantId
from statewright.storage.pool import Pool

MAX_BATCH: Final = 1000
"""Versions removed by one statement: a few milliseconds."""

LOCK_TIMEOUT: Final = "1s"
"""A statement that alters the table goes first."""


class Prunable(Struct, frozen=True):
    """A model that has superseded versions; ``key`` is None when the model itself was deleted."""

    tenant: TenantId
    model: ModelId
    key: ModelKey | None


class PrunedBatch(Struct, frozen=True):
    """What one statement has removed, and where the next one goes on: at versions superseded at ``up_to`` or later."""

    removed: int
    up_to: int


# A loose walk over the index: one probe per model, however many versions it has.
PRUNABLE: Final = """
    WITH RECURSIVE found AS (
        (SELECT tenant, model FROM entity_history WHERE document IS NOT NULL ORDER BY tenant, model LIMIT 1)
        UNION ALL
        SELECT beyond.tenant, beyond.model
          FROM found
         CROSS JOIN LATERAL (
                SELECT tenant, model FROM entity_history
                 WHERE document IS NOT NULL
                   AND (entity_history.tenant, entity_history.model) > (found.tenant, found.model)
                 ORDER BY tenant, model
                 LIMIT 1) AS beyond
    )
    SELECT found.tenant, found.model, model.name, model.version
      FROM found LEFT JOIN model ON model.tenant = found.tenant AND model.id = found.model
"""


async def fetch_prunable(pool: Pool) -> list[Prunable]:
    """Every model of every tenant that has superseded versions."""
    async with pool.connection() as connection:
        rows = await connection.fetch(PRUNABLE)
    return [
        Prunable(row["tenant"], ModelId(str(row["model"])), row["name"] and ModelKey(row["name"], row["version"]))
        for row in rows
    ]


MOVE_HORIZON: Final = """
    INSERT INTO history_horizon (tenant, model, kept_from)
    SELECT $1, $2, least(now_us() - $3::bigint, min(instant))
      FROM search_job
     WHERE tenant = $1 AND model = $2 AND status IN ('RUNNING', 'SUCCESSFUL')
        ON CONFLICT (tenant, model) DO UPDATE
       SET kept_from = greatest(history_horizon.kept_from, excluded.kept_from)
 RETURNING kept_from
"""


async def move_horizon(pool: Pool, tenant: TenantId, model: ModelId, *, period: timedelta) -> int:
    """Say that versions superseded longer than ``period`` ago may go; from which instant on everything is kept.

    It may be earlier, for the sake of search results; it never moves back.
    """
    async with pool.connection() as connection:
        kept_from: int = await connection.fetchval(MOVE_HORIZON, tenant, model, period // timedelta(microseconds=1))
    return kept_from


REMOVE: Final = """
    -- Starts where the batch before ended, not at the entries that are already dead. Uses entity_history_model.
    WITH old AS MATERIALIZED (
        SELECT ctid AS place, valid_to FROM entity_history
         WHERE tenant = $1 AND model = $2 AND valid_to >= $3 AND valid_to <= $4 AND document IS NOT NULL
         ORDER BY valid_to
         LIMIT $5 FOR UPDATE SKIP LOCKED
    ),
    removed AS (
        DELETE FROM entity_history USING old WHERE entity_history.ctid = old.place RETURNING old.valid_to
    )
    SELECT count(*) AS removed, max(valid_to) AS up_to FROM removed
"""


async def remove_batch(pool: Pool, tenant: TenantId, model: ModelId, *, since: int, kept_from: int) -> PrunedBatch:
    """Remove up to ``BATCH`` versions that were superseded from ``since`` on and at the horizon at the latest."""
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        row = await connection.fetchrow(REMOVE, tenant, model, since, kept_from, MAX_BATCH)
    assert row is not None, "an aggregate has one row"  # noqa: S101
    return PrunedBatch(row["removed"], row["up_to"] or kept_from)


HORIZON: Final = "SELECT kept_from FROM history_horizon WHERE tenant = $1 AND model = $2"
LAST_HORIZON: Final = "SELECT max(kept_from) FROM history_horizon WHERE tenant = $1"


async def require_kept(pool: Pool, tenant: TenantId, model: ModelId | None, instant: int) -> None:
    """To be asked after versions of ``instant`` were read, of one model or of all models of the tenant: whether they
    were all there. Raises ``HistoryPruned``.
    """
    async with pool.connection() as connection:
        await check_kept(connection, tenant, model, instant)


async def check_kept(connection: asyncpg.Connection, tenant: TenantId, model: ModelId | None, instant: int) -> None:
    """``require_kept`` on a connection that is already there; not within a transaction with a snapshot of its own."""
    asked = (LAST_HORIZON, tenant) if model is None else (HORIZON, tenant, model)
    kept_from: int | None = await connection.fetchval(*asked)
    if kept_from is not None and instant < kept_from:
        raise HistoryPruned(instant, kept_from)
