-- Acts of operators that commit with what they do to an entity (storage/ops/history.py).

-- [writes]
acts_recorded AS (
    INSERT INTO ops_audit (tenant, at, id, actor_id, actor_kind, action, target_kind, target_id, reason, details, trace_id)
    SELECT act.tenant, applied.at, act.id, act.actor_id, act.actor_kind, act.action, act.target_kind, act.target_id, act.reason,
           act.details, act.trace_id
      FROM json_to_recordset($acts::json) AS batch (t int, part json)
      JOIN applied USING (t)
     CROSS JOIN LATERAL json_to_record(batch.part)
        AS act (tenant text, id uuid, actor_id text, actor_kind text, action text, target_kind text, target_id text, reason text,
                details text, trace_id text)
),
