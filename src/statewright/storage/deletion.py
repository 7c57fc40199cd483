"""What is removed of entities: all of a model that satisfy a condition, and versions that were superseded.

*Entities* are deleted in one database transaction, however many they are. Such a deletion cannot be a unit of work:
what it concerns is known only to the database, and may not fit into one statement (docs/adr/0004). It goes in three
steps.

1. *Find and lock.* Rows are locked in order of id, like everywhere. What SQL can decide alone is decided again on the
   newest version of a row that was just being written. What has to be judged here, or was looked for in the past, is
   found without locks first; a present version that changed between being judged and being locked is a ``Conflict``.
2. *Take the instant*, behind the fence (storage/entities.py): one for all of them, later than all their versions.
3. *Delete* in portions, each a statement with a snapshot newer than all locks, so that it sees what the locked entities
   have claimed of their unique keys.

Scheduled tasks are left: they are dropped when their time comes and their entity is gone.

*Superseded versions* (docs/retention.md) may be removed, and what is left is never read with a wrong answer. A version
may go when it was superseded at or before the *horizon* of its model. So for instants from the horizon on
nothing is missing. Tombstones stay: that an entity was deleted, and when, is never forgotten.

The horizon is made known before the first version goes. A reader of the past reads first and then looks at the horizon:
if it is not later than the instant asked for, nothing that was wanted had gone. Otherwise the answer is that it has
(``HistoryPruned``), and not that there was nothing: an answer for an instant, once given, never changes
(docs/adr/0012).

No statement waits for another. Versions go in small batches, each a transaction of its own; those that another session
has locked are left for the next run, and writers never touch a superseded version again. Results of asynchronous
searches name versions: as long as they are kept, so are these.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import asyncpg
from msgspec import Struct

from statewright.entity import Actor, ModelKey
from statewright.failures import Conflict, HistoryPruned
from statewright.ids import EntityId, ModelId, TenantId, TransactionId
from statewright.instants import to_us
from statewright.storage.columns import ENTITY_COLUMNS
from statewright.storage.entities import wait_until_visible
from statewright.storage.pool import Pool
from statewright.storage.search.matching import Candidates, iterate_matches
from statewright.storage.search.statements import FIRST_ARGUMENT, EntityQuery, Statement, select_versions
from statewright.storage.versions import VIEW_COLUMNS

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
    rows = await pool.fetch(PRUNABLE)
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
    kept_from: int = await pool.fetchval(MOVE_HORIZON, tenant, model, to_us(period))
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
    """Remove up to ``MAX_BATCH`` versions that were superseded from ``since`` on and at the horizon at the latest."""
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


MAX_DELETE_BATCH: Final = 1000
"""Entities per statement."""


class Stamp(Struct, frozen=True, kw_only=True):
    """Who deletes, in which transaction."""

    transaction: TransactionId
    label: TransactionId
    attributed: Actor
    executor: Actor


class Deletion(Struct, frozen=True):
    """What was found, and how many of it were deleted: a version of the past may have no entity any more."""

    matched: tuple[EntityId, ...]
    removed: int


class _Candidates(Struct, frozen=True):
    """What a search without locks has found: ids in ascending order, and the versions that were judged, if any."""

    ids: tuple[EntityId, ...]
    judged: dict[EntityId, TransactionId]


async def delete_matching(pool: Pool, query: EntityQuery, stamp: Stamp, *, scan_budget: int = 0) -> Deletion:
    """Delete what satisfies the query, or nothing.

    Raises ``Conflict`` when another transaction changed one of the entities at the same time, ``ScanBudgetExhausted``
    when more than ``scan_budget`` rows (0 = any) would have to be judged one by one, ``HistoryPruned``,
    ``StorageUnavailable``.
    """
    if query.instant is not None:
        await wait_until_visible(pool, query.instant)
    try:
        async with pool.connection(limit=None) as connection:
            return await _delete(connection, query, stamp, scan_budget)
    except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as lost:
        raise Conflict from lost


async def _delete(connection: asyncpg.Connection, query: EntityQuery, stamp: Stamp, scan_budget: int) -> Deletion:
    condition = query.search.compile_sql(first=FIRST_ARGUMENT)
    found = None
    if query.instant is not None or not condition.is_exact:
        found = await _find(connection, query, scan_budget)
    if query.instant is not None:
        await check_kept(connection, query.tenant, query.model, query.instant)
    async with connection.transaction(isolation="read_committed"):
        if found is None:
            locked = await _lock(
                connection, select_versions(query, "id, transaction_id, valid_from", condition=condition)
            )
        else:
            locked = await _lock(connection, Statement(SELECT_BY_ID, (query.tenant, found.ids)))
            _refuse_changed(found, locked)
        if locked:
            await _delete_locked(connection, query.tenant, locked, stamp)
    ids = tuple(EntityId(str(row["id"])) for row in locked)
    return Deletion(ids if found is None else found.ids, len(locked))


async def _find(connection: asyncpg.Connection, query: EntityQuery, scan_budget: int) -> _Candidates:
    """What satisfies the query, now or in the past, without locks."""
    condition = query.search.compile_sql(first=FIRST_ARGUMENT)
    statement = select_versions(query, "id" if condition.is_exact else VIEW_COLUMNS, condition=condition)
    if condition.is_exact:
        rows = await connection.fetch(statement.text, *statement.args)
        return _Candidates(tuple(sorted(EntityId(str(row["id"])) for row in rows)), {})
    candidates = Candidates(tenant=query.tenant, statement=statement, columns=VIEW_COLUMNS, most=scan_budget)
    found: dict[EntityId, TransactionId] = {}
    async with connection.transaction(readonly=True):
        async for row, _ in iterate_matches(connection, candidates, query):
            found[EntityId(str(row["id"]))] = TransactionId(str(row["transaction_id"]))
    return _Candidates(tuple(sorted(found)), {} if query.instant is not None else found)


SELECT_BY_ID: Final = """
    SELECT id, transaction_id, valid_from FROM entity WHERE tenant = $1 AND id = ANY($2::uuid[])
"""


async def _lock(connection: asyncpg.Connection, selection: Statement) -> list[asyncpg.Record]:
    """The rows, locked, as they are now. The sort is below the lock: rows are locked in order of id."""
    return await connection.fetch(f"{selection.text} ORDER BY id FOR NO KEY UPDATE", *selection.args)


def _refuse_changed(found: _Candidates, locked: Sequence[asyncpg.Record]) -> None:
    present = {EntityId(str(row["id"])): TransactionId(str(row["transaction_id"])) for row in locked}
    if any(present.get(entity_id) != version for entity_id, version in found.judged.items()):
        raise Conflict


TAKE_INSTANT: Final = """
    SELECT CASE WHEN pg_advisory_xact_lock_shared(5371, 1)::text IS NOT NULL THEN greatest(now_us(), $1::bigint + 1) END
"""

DELETE: Final = f"""
    WITH doomed AS MATERIALIZED (
        SELECT {ENTITY_COLUMNS.entity:entity.}
          FROM entity
         WHERE tenant = $1 AND id = ANY($2::uuid[])
    ),
    superseded AS (
        INSERT INTO entity_history ({ENTITY_COLUMNS.entity}, valid_to)
        SELECT {ENTITY_COLUMNS.entity}, $3
          FROM doomed
    ),
    tombstones AS (
        INSERT INTO entity_history ({ENTITY_COLUMNS.kept}, {ENTITY_COLUMNS.stamp}, valid_from, valid_to)
        SELECT {ENTITY_COLUMNS.kept}, $4, $5, $6, $7, $8, $9, $3, 9223372036854775807
          FROM doomed
    ),
    told AS (
        INSERT INTO event_outbox (tenant, at, transaction_id, entity, model, change, from_state, state,
                                  attributed_id, attributed_kind, executor_id, executor_kind)
        SELECT doomed.tenant, $3, $4, doomed.id, doomed.model, 'delete', doomed.state, doomed.state, $6, $7, $8, $9
          FROM doomed JOIN event_recording USING (tenant)
         WHERE event_recording.enabled OR event_recording.subscribed
    ),
    released AS (
        DELETE FROM unique_claim
         USING doomed
         WHERE unique_claim.tenant = doomed.tenant AND unique_claim.entity = doomed.id
    )
    DELETE FROM entity USING doomed WHERE entity.tenant = doomed.tenant AND entity.id = doomed.id
"""  # noqa: S608 - the column lists are constants


async def _delete_locked(
    connection: asyncpg.Connection, tenant: TenantId, locked: Sequence[asyncpg.Record], stamp: Stamp
) -> None:
    """Delete rows that this transaction has locked."""
    at: int = await connection.fetchval(TAKE_INSTANT, max(row["valid_from"] for row in locked))
    by, executor = stamp.attributed, stamp.executor
    who = (stamp.transaction, stamp.label, by.id, by.kind, executor.id, executor.kind)
    ids = [row["id"] for row in locked]
    for start in range(0, len(ids), MAX_DELETE_BATCH):
        await connection.execute(DELETE, tenant, ids[start : start + MAX_DELETE_BATCH], at, *who)
