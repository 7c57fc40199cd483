-- Records of idempotent requests of which something is stored already: a claim, a segment, chunks of a collection
-- (storage/idempotency.py).
--
-- claimed_keys  what each transaction records, each with the token that the stored record must have
-- known_keys    the stored records. They are locked after entities and tasks, in key order
-- key_lost      what makes a transaction fail: its record is not of this attempt any more

-- [reads]
claimed_keys AS MATERIALIZED (
    SELECT *
      FROM json_to_recordset($key_claims::json)
        AS record (t int, tenant text, principal text, key uuid, claim uuid, status text, is_segmented boolean,
                   transaction_id uuid, entities uuid[], element text, answer_status smallint, answer_type text,
                   answer text, kept_us bigint)
),
known_keys AS MATERIALIZED (
    SELECT wanted.t, wanted.key, stored.status, stored.token
      FROM (SELECT t, tenant, principal, key FROM claimed_keys ORDER BY tenant, principal, key) AS wanted
     CROSS JOIN LATERAL (
            SELECT status, token
              FROM idempotency
             WHERE idempotency.tenant = wanted.tenant AND idempotency.principal = wanted.principal
               AND idempotency.key = wanted.key
               FOR UPDATE) AS stored
),
key_lost AS MATERIALIZED (
    SELECT t
      FROM claimed_keys
      LEFT JOIN known_keys USING (t, key)
     WHERE known_keys.status IS DISTINCT FROM 'IN_PROGRESS' OR known_keys.token IS DISTINCT FROM claimed_keys.claim
),

-- [moment]
                WHEN staged.t IN (SELECT t FROM key_lost) THEN NULL

-- [conditions]
       AND t NOT IN (SELECT t FROM key_lost)

-- [writes]
keys_changed AS (
    UPDATE idempotency
       SET status = claimed_keys.status, is_segmented = coalesce(claimed_keys.is_segmented, false),
           transaction_id = claimed_keys.transaction_id, entities = idempotency.entities || coalesce(claimed_keys.entities, '{}'),
           elements = idempotency.elements || array_remove(ARRAY[claimed_keys.element], NULL),
           answer_status = claimed_keys.answer_status, answer_type = claimed_keys.answer_type, answer = claimed_keys.answer,
           expires_at = applied.at + claimed_keys.kept_us
      FROM claimed_keys
      JOIN applied USING (t)
     WHERE idempotency.tenant = claimed_keys.tenant AND idempotency.principal = claimed_keys.principal
       AND idempotency.key = claimed_keys.key
),

-- [refusal]
           CASE WHEN moments.t IN (SELECT t FROM key_lost) THEN 'idempotency_lost' END,
