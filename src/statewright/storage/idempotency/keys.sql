-- Records of idempotent requests (storage/idempotency/parts.py).
--
-- keyed      what each transaction records of its requests: nearly always one; more where callbacks with keys have joined it
-- known      the stored records of these keys. They are locked after entities and tasks, in key order
-- unkeyed    what makes a transaction fail: a record that was not expected ('taken'), or one that is no longer this attempt's ('lost'). A record
--            that another transaction is just inserting is not seen here; inserting ours ends the batch then, and run again it sees the other

-- [reads]
keyed AS MATERIALIZED (
    SELECT batch.t, record.*
      FROM json_to_recordset($keys::json) AS batch (t int, part json)
     CROSS JOIN LATERAL json_to_recordset(batch.part -> 'records')
        AS record (tenant text, principal text, key uuid, request_hash text, claim uuid, token uuid, node text, status text,
                   is_segmented boolean, transaction_id uuid, entities uuid[], element text, answer_status smallint,
                   answer_type text, answer text, kept_us bigint)
),
known AS MATERIALIZED (
    SELECT wanted.t, wanted.principal, stored.*
      FROM (SELECT t, tenant, principal, key FROM keyed ORDER BY tenant, principal, key) AS wanted
     CROSS JOIN LATERAL (
            SELECT tenant, key, status, token, expires_at
              FROM idempotency
             WHERE idempotency.tenant = wanted.tenant AND idempotency.principal = wanted.principal
               AND idempotency.key = wanted.key
               FOR UPDATE) AS stored
),
unkeyed AS MATERIALIZED (
    SELECT keyed.t, CASE WHEN keyed.claim IS NULL THEN 'taken' ELSE 'lost' END AS reason
      FROM keyed
      LEFT JOIN known ON known.t = keyed.t AND known.tenant = keyed.tenant AND known.principal = keyed.principal AND known.key = keyed.key
     WHERE CASE WHEN keyed.claim IS NULL
                THEN known.key IS NOT NULL AND (known.status = 'IN_PROGRESS' OR known.expires_at > now_us())
                ELSE known.status IS DISTINCT FROM 'IN_PROGRESS' OR known.token IS DISTINCT FROM keyed.claim
           END
),

-- [moment]
                WHEN staged.t IN (SELECT t FROM unkeyed) THEN NULL

-- [conditions]
       AND t NOT IN (SELECT t FROM unkeyed)

-- [writes]
keys_changed AS (
    UPDATE idempotency
       SET request_hash = decode(keyed.request_hash, 'hex'), status = keyed.status, token = keyed.token, node = keyed.node,
           is_segmented = keyed.is_segmented, transaction_id = keyed.transaction_id,
           entities = CASE WHEN keyed.claim IS NULL THEN keyed.entities ELSE idempotency.entities || keyed.entities END,
           elements = CASE WHEN keyed.claim IS NULL THEN '{}' ELSE idempotency.elements END
                      || CASE WHEN keyed.element IS NULL THEN '{}' ELSE ARRAY[keyed.element] END,
           answer_status = keyed.answer_status, answer_type = keyed.answer_type, answer = keyed.answer,
           created_at = CASE WHEN keyed.claim IS NULL THEN applied.at ELSE idempotency.created_at END,
           expires_at = applied.at + keyed.kept_us
      FROM keyed
      JOIN applied USING (t)
      JOIN known ON known.t = keyed.t AND known.tenant = keyed.tenant AND known.principal = keyed.principal AND known.key = keyed.key
     WHERE idempotency.tenant = keyed.tenant AND idempotency.principal = keyed.principal AND idempotency.key = keyed.key
),
keys_added AS (
    INSERT INTO idempotency (tenant, principal, key, request_hash, status, token, node, is_segmented, transaction_id, entities,
                             elements, answer_status, answer_type, answer, created_at, expires_at)
    SELECT keyed.tenant, keyed.principal, keyed.key, decode(keyed.request_hash, 'hex'), keyed.status, keyed.token, keyed.node,
           keyed.is_segmented, keyed.transaction_id, keyed.entities,
           CASE WHEN keyed.element IS NULL THEN '{}' ELSE ARRAY[keyed.element] END,
           keyed.answer_status, keyed.answer_type, keyed.answer, applied.at, applied.at + keyed.kept_us
      FROM keyed
      JOIN applied USING (t)
     WHERE NOT EXISTS (
            SELECT FROM known
             WHERE known.t = keyed.t AND known.tenant = keyed.tenant AND known.principal = keyed.principal AND known.key = keyed.key)
     ORDER BY keyed.tenant, keyed.principal, keyed.key
),

-- [refusal]
           (SELECT 'idempotency:' || min(reason) FROM unkeyed WHERE unkeyed.t = moments.t),
