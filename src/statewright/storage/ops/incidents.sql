-- Incidents (storage/ops/incidents.py): [writes] are those that commit with their cause, instances that fail; the other
-- sections are of the statements that read them. Columns are named as the members of records (storage/ops/records.py).

-- [writes]
incidents_noted AS (
    INSERT INTO incident (tenant, id, kind, severity, fingerprint, title, first_at, last_at, occurrences, subject_kind, subject_id,
                          model, state, entity_transaction, language, workflow, transition, step, component, code, cause, message,
                          attempts, principal_id, principal_kind, trace_id, payload, payload_omitted)
    SELECT new.tenant, new.id, new.kind, new.severity, new.fingerprint, new.title, new.at, new.at, new.occurrences, new.subject_kind,
           new.subject_id, new.model, new.state, new.entity_transaction, new.language, new.workflow, new.transition, new.step,
           new.component, new.code, new.cause, new.message, coalesce(new.attempts, '[]'), new.principal_id, new.principal_kind,
           new.trace_id, new.payload, coalesce(new.payload_omitted, false)
      FROM json_to_recordset($incidents::json) AS batch (t int, part json)
      JOIN applied USING (t)
     CROSS JOIN LATERAL json_to_recordset(batch.part -> 'rows')
        AS new (tenant text, id uuid, kind text, severity text, fingerprint text, title text, at bigint, occurrences bigint,
                subject_kind text, subject_id text, model text, state text, entity_transaction uuid, language text, workflow text,
                transition text, step text, component text, code text, cause text, message text, attempts text,
                principal_id text, principal_kind text, trace_id text, payload text, payload_omitted boolean)
        ON CONFLICT (tenant, subject_id, fingerprint) WHERE status = 'OPEN' DO UPDATE
       SET occurrences = incident.occurrences + excluded.occurrences, last_at = excluded.last_at, message = excluded.message,
           entity_transaction = excluded.entity_transaction, attempts = excluded.attempts, payload = excluded.payload,
           payload_omitted = excluded.payload_omitted, state = excluded.state, trace_id = excluded.trace_id
),

-- [members]
    id, kind, severity, status, fingerprint, title, first_at, last_at, occurrences, subject_kind, subject_id,
    model AS subject_model, state AS subject_state, entity_transaction AS subject_transaction_id, workflow, transition,
    step, component, code, cause, message, attempts, principal_id, principal_kind, trace_id, payload_omitted,
    resolved_by_id AS resolution_by_id, resolved_by_kind AS resolution_by_kind, resolved_at AS resolution_at,
    resolution AS resolution_how, resolution_reason

-- [matching]
      FROM incident
     WHERE tenant = $1
       AND ($2::text[] IS NULL OR status = ANY ($2))
       AND ($3::text[] IS NULL OR kind = ANY ($3))
       AND ($4::text[] IS NULL OR severity = ANY ($4))
       AND ($5::text[] IS NULL OR fingerprint = ANY ($5))
       AND ($6::text[] IS NULL OR model = ANY ($6) OR split_part(model, '/', 1) = ANY ($6))
       AND ($7::text[] IS NULL OR subject_id = ANY ($7))
       AND ($8::text[] IS NULL OR component = ANY ($8))
       AND ($9::text[] IS NULL OR code = ANY ($9))
       AND first_at >= coalesce($10::bigint, 0) AND first_at < coalesce($11::bigint, 9223372036854775807)
       AND last_at >= coalesce($12::bigint, 0) AND last_at < coalesce($13::bigint, 9223372036854775807)

-- [groups]
    SELECT fingerprint, max(title) AS title, max(kind) AS kind, count(*) AS open,
           sum(occurrences)::bigint AS occurrences, min(first_at) AS first_at, max(last_at) AS last_at,
           (array_agg(id::text ORDER BY last_at DESC))[1:3] AS sample_ids
      FROM incident
     WHERE tenant = $1 AND status = 'OPEN'
     GROUP BY fingerprint
    HAVING $2::bigint IS NULL OR (count(*), fingerprint) < ($2, $3)
     ORDER BY count(*) DESC, fingerprint DESC
     LIMIT $4
