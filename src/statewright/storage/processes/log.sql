-- Events of the logs of instances (parts.py). An instance is locked by the transaction that writes it, so numbers never meet.

-- [writes]
logged AS MATERIALIZED (
    SELECT part.*
      FROM json_to_recordset($log::json) AS batch (t int, part json)
      JOIN applied USING (t)
     CROSS JOIN LATERAL json_to_record(batch.part) AS part (tenant text, events json)
),
process_events_logged AS (
    INSERT INTO process_event (tenant, instance, number, event)
    SELECT logged.tenant, row.instance, row.number, row.event
      FROM logged
     CROSS JOIN LATERAL json_to_recordset(logged.events) AS row (instance uuid, number bigint, event json)
),
