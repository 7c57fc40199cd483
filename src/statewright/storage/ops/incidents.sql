-- Incidents that commit with their cause: instances that fail (storage/ops/incidents.py).

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
