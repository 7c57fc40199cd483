-- Events of the logs of instances (parts.py), numbered behind those that are there. An instance is locked by the transaction
-- that writes it, and written only if it is at the version that was read; so its last number is known to the statement.

-- [writes]
logged AS MATERIALIZED (
    SELECT part.*
      FROM json_to_recordset($log::json) AS batch (t int, part json)
      JOIN applied USING (t)
     CROSS JOIN LATERAL json_to_record(batch.part) AS part (tenant text, instance uuid, at bigint, events json,
                                                          "values" json)
),
process_events_logged AS (
    INSERT INTO process_event (tenant, instance, number, at, event)
    SELECT logged.tenant, logged.instance, known.last + listed.n, logged.at, listed.event
      FROM logged
     CROSS JOIN LATERAL (
            SELECT coalesce(max(number), 0) AS last FROM process_event
             WHERE process_event.tenant = logged.tenant AND process_event.instance = logged.instance) AS known
     CROSS JOIN LATERAL json_array_elements(logged.events) WITH ORDINALITY AS listed (event, n)
),
process_log_values AS (
    INSERT INTO process_part (tenant, instance, name, value)
    SELECT DISTINCT ON (logged.tenant, logged.instance, one.name) logged.tenant, logged.instance, one.name, one.value
      FROM logged
     CROSS JOIN LATERAL json_to_recordset(logged."values") AS one (name text, value json)
     ORDER BY logged.tenant, logged.instance, one.name
        ON CONFLICT (tenant, instance, name) DO NOTHING
),
