-- Records of idempotent requests of which nothing is stored yet (storage/idempotency.py): nearly all there are.
--
-- keyed      what each transaction records of its requests: one, but for callbacks with keys that have joined it
-- key_taken  what makes a transaction fail: there is a record. One that another transaction is just inserting is not seen here; inserting ours
--            ends the batch then, and run again it sees the other

-- [reads]
keyed AS MATERIALIZED (
    SELECT *
      FROM json_to_recordset($keys::json)
        AS record (t int, tenant text, principal text, key uuid, request_hash text, token uuid, node text, status text,
                   is_segmented boolean, transaction_id uuid, entities uuid[], element text, answer_status smallint,
                   answer_type text, answer text, kept_us bigint)
),
key_taken AS MATERIALIZED (
    SELECT keyed.t
      FROM keyed
     CROSS JOIN LATERAL (
            -- OFFSET 0 keeps the planner at index probes.
            SELECT FROM idempotency
             WHERE idempotency.tenant = keyed.tenant AND idempotency.principal = keyed.principal AND idempotency.key = keyed.key
            OFFSET 0) AS stored
),

-- [moment]
                WHEN staged.t IN (SELECT t FROM key_taken) THEN NULL

-- [conditions]
       AND t NOT IN (SELECT t FROM key_taken)

-- [writes]
keys_added AS (
    INSERT INTO idempotency (tenant, principal, key, request_hash, status, token, node, is_segmented, transaction_id, entities,
                             elements, answer_status, answer_type, answer, created_at, expires_at)
    SELECT keyed.tenant, keyed.principal, keyed.key, decode(keyed.request_hash, 'hex'), keyed.status,
           coalesce(keyed.token, '00000000-0000-0000-0000-000000000000'), coalesce(keyed.node, ''),
           coalesce(keyed.is_segmented, false), keyed.transaction_id, coalesce(keyed.entities, '{}'),
           array_remove(ARRAY[keyed.element], NULL),
           keyed.answer_status, keyed.answer_type, keyed.answer, applied.at, applied.at + keyed.kept_us
      FROM keyed
      JOIN applied USING (t)
     ORDER BY keyed.tenant, keyed.principal, keyed.key
),

-- [refusal]
           CASE WHEN moments.t IN (SELECT t FROM key_taken) THEN 'idempotency_taken' END,
