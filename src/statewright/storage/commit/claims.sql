-- Claims of unique keys (storage/commit/overlay.py).
--
-- claimed    what unique keys each written entity claims from now on; a row without a hash says that it claims nothing (any more)
-- held       what these entities have claimed so far. The snapshot is older than the locks, but claims change only with the version of their
--            entity, and that is compared
-- violating  what makes a transaction fail: a claim that an entity outside of it holds

-- [reads]
claimed AS MATERIALIZED (
    SELECT * FROM json_to_recordset($claims::json) AS claimed (t int, tenant text, entity uuid, hash uuid)
),
held AS MATERIALIZED (
    SELECT keeper.t, keeper.tenant, keeper.entity, claim.hash
      FROM (SELECT DISTINCT t, tenant, entity FROM claimed) AS keeper
     CROSS JOIN LATERAL (
            -- OFFSET 0 keeps the planner at index probes; as a join, it would rather scan a table that was small when it was planned.
            SELECT hash FROM unique_claim
             WHERE unique_claim.tenant = keeper.tenant AND unique_claim.entity = keeper.entity
            OFFSET 0) AS claim
),
violating AS MATERIALIZED (
    -- LATERAL … LIMIT 1 keeps the planner at one index probe per claim, also with statistics taken while the table was empty.
    SELECT DISTINCT claimed.t
      FROM claimed
     CROSS JOIN LATERAL (
            SELECT entity FROM unique_claim
             WHERE unique_claim.tenant = claimed.tenant AND unique_claim.hash = claimed.hash
             LIMIT 1) AS holder
     WHERE NOT EXISTS (SELECT FROM held WHERE held.t = claimed.t AND held.hash = claimed.hash)
),

-- [conditions]
       AND t NOT IN (SELECT t FROM violating)

-- [writes]
-- A claim that passes from one entity to another within a transaction is updated in place: CTEs have no order, so deleting and inserting the
-- same key might happen the wrong way round. Claims are taken in one global order, or concurrent batches deadlock.
passed_on AS (
    UPDATE unique_claim SET entity = claimed.entity
      FROM claimed
      JOIN applied USING (t)
      JOIN held ON held.t = claimed.t AND held.hash = claimed.hash
     WHERE unique_claim.tenant = claimed.tenant AND unique_claim.hash = claimed.hash AND held.entity <> claimed.entity
),
released AS (
    DELETE FROM unique_claim
     USING held JOIN applied USING (t)
     WHERE unique_claim.tenant = held.tenant AND unique_claim.hash = held.hash
       AND NOT EXISTS (SELECT FROM claimed WHERE claimed.t = held.t AND claimed.hash = held.hash)
),
taken AS (
    INSERT INTO unique_claim (tenant, hash, entity)
    SELECT claimed.tenant, claimed.hash, claimed.entity
      FROM claimed JOIN applied USING (t)
     WHERE claimed.hash IS NOT NULL AND NOT EXISTS (SELECT FROM held WHERE held.t = claimed.t AND held.hash = claimed.hash)
     ORDER BY claimed.tenant, claimed.hash
),

-- [refusal]
           CASE WHEN moments.t IN (SELECT t FROM violating) THEN 'taken' END,
