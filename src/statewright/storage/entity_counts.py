"""How many entities there are, by model, workflow and state, whatever their number.

Triggers note what every statement changes as rows of ``entity_count_change``, in its transaction, so that no writer
waits for another. :func:`merge_changes` adds these rows to those of ``entity_count`` and removes them. Readers add up
both, by the view ``counted_entity``, and so count what is committed, exactly.

Entities that were there before the triggers are counted once, by :func:`complete_counts`, beside all writers. Until
then ``entity_count_state`` says so, and readers count the entities themselves. Whoever has reason to doubt the counts,
after work on the database with triggers switched off, sets ``is_complete`` to false and restarts a node.
"""

from typing import Final

from statewright.storage.pool import Pool

MAX_MERGED: Final = 10_000
"""Changes that are merged at a time."""

MERGE: Final = """
    -- Counts are locked in one order, so that no two nodes wait for each other; changes that another takes are skipped.
    WITH taken AS MATERIALIZED (
        DELETE FROM entity_count_change
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM entity_count_change
                                  WHERE (SELECT is_complete FROM entity_count_state)
                                  LIMIT $1 FOR UPDATE SKIP LOCKED))
     RETURNING tenant, model, workflow, state, count
    ),
    merged AS (
        INSERT INTO entity_count AS kept (tenant, model, workflow, state, count)
        SELECT tenant, model, workflow, state, sum(count) FROM taken
         GROUP BY tenant, model, workflow, state
         ORDER BY tenant, model, workflow, state
            ON CONFLICT (tenant, model, workflow, state) DO UPDATE SET count = kept.count + excluded.count
     RETURNING tenant, model, workflow, state, count
    )
    SELECT (SELECT count(*) FROM taken) AS taken, tenant, model, workflow, state FROM merged WHERE count = 0
     UNION ALL
    SELECT (SELECT count(*) FROM taken), NULL, NULL, NULL, NULL
"""

REMOVE_EMPTY: Final = """
    DELETE FROM entity_count AS kept
     USING unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) AS empty (tenant, model, workflow, state)
     WHERE kept.tenant = empty.tenant AND kept.model = empty.model AND kept.workflow = empty.workflow
       AND kept.state = empty.state AND kept.count = 0
"""


async def merge_changes(pool: Pool) -> bool:
    """Merge the changes that were noted, if the counts are complete; whether there may be more.

    Raises ``StorageUnavailable``.
    """
    async with pool.connection() as connection:
        *empty, last = await connection.fetch(MERGE, MAX_MERGED)
        if empty:
            await connection.execute(REMOVE_EMPTY, *zip(*[tuple(row)[1:] for row in empty], strict=True))
    return bool(last["taken"] == MAX_MERGED)


IS_COMPLETE: Final = "SELECT is_complete FROM entity_count_state"

TRY_COMPLETE: Final = "SELECT pg_try_advisory_xact_lock(5374)"

CLEAR: Final = (
    "LOCK TABLE entity_count IN SHARE ROW EXCLUSIVE MODE",  # whoever is merging ends first
    "DELETE FROM entity_count",
)

COUNT_ANEW: Final = """
    -- Of one snapshot: the changes that go are those of which the counts know.
    WITH noted AS (DELETE FROM entity_count_change),
         completed AS (UPDATE entity_count_state SET is_complete = true)
    INSERT INTO entity_count (tenant, model, workflow, state, count)
    SELECT tenant, model, workflow, state, count(*) FROM entity GROUP BY tenant, model, workflow, state
"""


async def complete_counts(pool: Pool) -> bool:
    """Count the entities that were there before the triggers; whether the counts are complete now. False says that
    another node is counting.

    It reads all entities, and no writer waits for it. Raises ``StorageUnavailable``.
    """
    async with pool.connection(limit=None) as connection, connection.transaction():
        if await connection.fetchval(IS_COMPLETE):
            return True
        if not await connection.fetchval(TRY_COMPLETE):
            return False
        if not await connection.fetchval(IS_COMPLETE):  # seen after the lock: another may just have counted
            for statement in (*CLEAR, COUNT_ANEW):
                await connection.execute(statement)
    return True
