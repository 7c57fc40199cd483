-- The incident whose cause a transaction does again, closed with the first commit of that (storage/ops/incidents.py).
--
-- retried      what each transaction closes: at most one incident
-- retry_lost   what makes a transaction fail: the incident is closed, or somebody else has taken it over

-- [reads]
retried AS MATERIALIZED (
    SELECT batch.t, retry.*
      FROM json_to_recordset($incident_retries::json) AS batch (t int, part json)
     CROSS JOIN LATERAL json_to_record(batch.part)
        AS retry (tenant text, id uuid, claim bigint, act_id uuid, by_id text, by_kind text, action text, details text, trace_id text)
),
retry_lost AS MATERIALIZED (
    SELECT wanted.t
      FROM (SELECT t, tenant, id, claim FROM retried ORDER BY tenant, id) AS wanted
      LEFT JOIN LATERAL (
            SELECT retried_until
              FROM incident
             WHERE incident.tenant = wanted.tenant AND incident.id = wanted.id AND incident.status = 'OPEN'
               FOR NO KEY UPDATE) AS held ON true
     WHERE held.retried_until IS DISTINCT FROM wanted.claim
),

-- [moment]
                WHEN staged.t IN (SELECT t FROM retry_lost) THEN NULL

-- [conditions]
       AND t NOT IN (SELECT t FROM retry_lost)

-- [writes]
incidents_closed AS (
    UPDATE incident
       SET status = 'RESOLVED', resolved_at = applied.at, resolved_by_id = retried.by_id, resolved_by_kind = retried.by_kind,
           resolution = 'RETRIED', retried_until = 0
      FROM retried
      JOIN applied USING (t)
     WHERE incident.tenant = retried.tenant AND incident.id = retried.id
),
retries_audited AS (
    INSERT INTO ops_audit (tenant, at, id, actor_id, actor_kind, action, target_kind, target_id, details, trace_id)
    SELECT retried.tenant, applied.at, retried.act_id, retried.by_id, retried.by_kind, retried.action, 'INCIDENT', retried.id,
           retried.details, retried.trace_id
      FROM retried
      JOIN applied USING (t)
),

-- [refusal]
           CASE WHEN moments.t IN (SELECT t FROM retry_lost) THEN 'incident_taken' END,
