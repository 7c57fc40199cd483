"""Forgetting superseded versions, and reading honestly what is left (docs/retention.md).

A version may go when it was superseded at or before the *horizon* of its model. So for instants from the horizon on
nothing is missing. Tombstones stay: that an entity was deleted, and when, is never forgotten.

The horizon is made known before the first version goes. A reader of the past reads first and then looks at the horizon:
if it is not later than his instant, nothing that he wanted had gone. Otherwise he is told so (``HistoryPruned``), and
not that there was nothing: an answer for an instant, once given, never changes (decision S11).

Nobody waits. Versions go in small batches, each a transaction of its own; those that somebody else has locked are left
for the next run, and writers never touch a superseded version again. Results of asynchronous searches name versions: as
long as they are kept, so are these.
"""

from datetime import timedelta

import asyncpg
from msgspec import Struct

from statewright.entity import ModelKey
from statewright.failures import HistoryPruned
from statewright.identity import ModelId, TenantId
from statewright.storage.pool import Pool

BATCH = 1000
"""Versions removed by one statement: a few milliseconds."""

LOCK_TIMEOUT = "1s"
"""Somebody who alters the table goes first."""


class Prunable(Struct, frozen=True):
    """A model that has superseded versions; ``key`` is None when the model itself was deleted."""

    tenant: TenantId
    model: ModelId
    key: ModelKey | None


class Batch(Struct, frozen=True):
    """What one statement has removed, and where the next one goes on: at versions superseded at ``up_to`` or later."""

    removed: int
    up_to: int


# A loose walk over the index: one probe per model, however many versions it has.
PRUNABLE = """
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


async def prunable(pool: Pool) -> list[Prunable]:
    """Every model of every tenant that has superseded versions."""
    async with pool.connection() as connection:
        rows = await connection.fetch(PRUNABLE)
    return [
        Prunable(row["tenant"], ModelId(str(row["model"])), row["name"] and ModelKey(row["name"], row["version"]))
        for row in rows
    ]


MOVE_HORIZON = """
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


REMOVE = """
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


async def remove_batch(pool: Pool, tenant: TenantId, model: ModelId, *, since: int, kept_from: int) -> Batch:
    """Remove up to ``BATCH`` versions that were superseded from ``since`` on and at the horizon at the latest."""
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        row = await connection.fetchrow(REMOVE, tenant, model, since, kept_from, BATCH)
    assert row is not None, "an aggregate has one row"  # noqa: S101
    return Batch(row["removed"], row["up_to"] or kept_from)


HORIZON = "SELECT kept_from FROM history_horizon WHERE tenant = $1 AND model = $2"


async def require_kept(pool: Pool, tenant: TenantId, model: ModelId, instant: int) -> None:
    """To be asked after versions of ``instant`` were read: whether they were all there. Raises ``HistoryPruned``."""
    async with pool.connection() as connection:
        await check_kept(connection, tenant, model, instant)


async def check_kept(connection: asyncpg.Connection, tenant: TenantId, model: ModelId, instant: int) -> None:
    """The same on a connection that the caller has; not within a transaction that has a snapshot of its own."""
    kept_from: int | None = await connection.fetchval(HORIZON, tenant, model)
    if kept_from is not None and instant < kept_from:
        raise HistoryPruned(instant, kept_from)
