-- Applies the staged writes of several transactions; each of them wholly or not at all.
--
-- staged     what each transaction does to an entity: create, update, delete, read (a version it relied on), at most one of these per entity;
--            audit rows carry nothing but events, tasks rows stand for an entity of which only scheduled tasks are concerned
-- locked     the current row behind each update, delete and read, and beside it what it is to become: joining the two again further down
--            would take the square of the time, since the planner expects few rows. Rows are locked in (tenant, id) order, the one global
--            order, or concurrent batches deadlock at once. FOR NO KEY UPDATE shows the *newest* version, so what is compared below is the
--            committed truth under READ COMMITTED. A row that another session has locked is skipped: its transaction is tried again later
--            (busy, below), the others of the batch need not wait
-- stale      what makes a transaction fail: a version that is no longer the expected one; or busy: a row that is there, as far as this
--            snapshot shows, and was skipped; or suspended: an operator has stopped the entity, whose flag is read with the row
-- moments    the instant of each transaction, taken after the locks: strictly rising for every entity, and equal for all versions one
--            transaction writes. It is taken behind the fence, which is held until what is written here is visible, so that a reader of
--            the past can wait for it (storage/entities.py). CASE, because nothing else says what is evaluated first
-- applied    the surviving transactions
--
-- Columns of entities are not named here: what stands in braces is filled with the lists of storage/columns.py.
--
-- A line with a name in brackets is where optional parts add their section of that name (storage/commit/statement.py), if a transaction of the
-- batch needs them: a CTE costs its start in every execution, also when it is empty (measured: 85 µs for four).
--
-- What stands between a line with kinds of writes in parentheses and the next () is left out of batches that have none of these kinds: that
-- saves opening tables with all their indexes.
--
-- reads      CTEs that look, and lock, after all entities are locked
-- guard      what lets a transaction write entities that are suspended
-- stale      more of what makes a transaction fail because the state it relied on is gone
-- moment     WHEN a transaction fails and must take no instant
-- conditions more of what a transaction must satisfy to be applied
-- writes     CTEs that write
-- refusal    why a transaction is refused: expressions of which the first that is not null counts
WITH staged AS MATERIALIZED (
    SELECT *
      FROM unnest($1::int[], {columns.parameters})
        AS staged (t, {columns.staged})
),
locked AS MATERIALIZED (
    SELECT wanted.t, wanted.change, wanted.expected, {columns.replaced:wanted.next_}, current.*
      FROM (SELECT t, change, tenant, id, expected, {columns.next_columns}
              FROM staged
             WHERE change IN ('update', 'delete', 'read')
             ORDER BY tenant, id) AS wanted
     CROSS JOIN LATERAL (
            SELECT {columns.entity:entity.}, entity.suspended
              FROM entity
             WHERE entity.tenant = wanted.tenant AND entity.id = wanted.id
               FOR NO KEY UPDATE SKIP LOCKED) AS current
),
-- [reads]
stale AS MATERIALIZED (
    SELECT staged.t, staged.id,
           locked.id IS NULL AND EXISTS (SELECT FROM entity WHERE entity.tenant = staged.tenant AND entity.id = staged.id) AS busy,
           coalesce(locked.suspended, false) AND locked.transaction_id IS NOT DISTINCT FROM staged.expected AS suspended
      FROM staged
      LEFT JOIN locked ON locked.t = staged.t AND locked.id = staged.id
     WHERE staged.change IN ('update', 'delete', 'read')
       AND (locked.transaction_id IS DISTINCT FROM staged.expected
            OR (locked.suspended AND staged.change = 'update'
-- [guard]
           ))
-- [stale]
),
moments AS MATERIALIZED (
    SELECT staged.t,
           CASE
-- [moment]
                WHEN pg_advisory_xact_lock_shared(5371, 1)::text IS NOT NULL THEN greatest(now_us(), max(locked.valid_from) + 1)
           END AS at
      FROM staged
      LEFT JOIN locked ON locked.t = staged.t AND locked.id = staged.id
     GROUP BY staged.t
),
applied AS MATERIALIZED (
    SELECT t, at
      FROM moments
     WHERE t NOT IN (SELECT t FROM stale)
-- [conditions]
),
-- (update, delete)
superseded AS (
    INSERT INTO entity_history ({columns.entity}, valid_to)
    SELECT {columns.entity:locked.}, applied.at
      FROM locked JOIN applied USING (t)
     WHERE locked.change IN ('update', 'delete')
),
-- ()
-- (delete)
tombstones AS (
    INSERT INTO entity_history ({columns.kept}, {columns.stamp}, valid_from, valid_to)
    SELECT {columns.kept:locked.}, {columns.stamp:locked.next_}, applied.at, 9223372036854775807
      FROM locked JOIN applied USING (t)
     WHERE locked.change = 'delete'
),
deleted AS (
    DELETE FROM entity
     USING locked JOIN applied USING (t)
     WHERE locked.change = 'delete' AND entity.tenant = locked.tenant AND entity.id = locked.id
),
-- ()
-- (update)
updated AS (
    UPDATE entity
       SET {columns.assignments}, valid_from = applied.at
      FROM locked JOIN applied USING (t)
     WHERE locked.change = 'update' AND entity.tenant = locked.tenant AND entity.id = locked.id
),
-- ()
-- (create)
created AS (
    INSERT INTO entity ({columns.version}, created_at, valid_from)
    SELECT {columns.version_values:staged.}, applied.at, applied.at
      FROM staged JOIN applied USING (t)
     WHERE staged.change = 'create'
),
-- ()
-- [writes]
audited AS (
    INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
    SELECT staged.tenant, staged.id, staged.events_at, staged.entry_transaction_id, staged.n, staged.events
      FROM staged JOIN applied USING (t)
     WHERE staged.events IS NOT NULL
)
SELECT moments.t, moments.at, stale.id AS stale, stale.busy, stale.suspended,
       coalesce(
-- [refusal]
           NULL::text) AS refusal
  FROM moments LEFT JOIN stale USING (t)
