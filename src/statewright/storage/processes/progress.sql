-- What nearly every advance of an instance writes beside its entities: its line in the list, executions, jobs (parts.py).
--
-- Rows belong to an instance whose entity is written by the same transaction, and is locked: nobody else inserts, ends or
-- removes them meanwhile. Claims and leases of jobs only change a row in place, and never wait for another. Rows are found
-- by arrays of keys or by ON CONFLICT, not by joins, since the planner would hash a table that was small when it was planned.

-- [writes]
-- Rows of all transactions of a batch come table by table: read transaction by transaction, most of the time would go into
-- calling functions.
given AS MATERIALIZED (
    SELECT transactions, instances, executions, jobs
      FROM json_to_record($progress::json) AS batch (transactions json, instances json, executions json, jobs json)
),
progressed AS MATERIALIZED (
    SELECT transaction.*
      FROM given
     CROSS JOIN LATERAL json_to_recordset(given.transactions) AS transaction (t int, tenant text, language text, closed_jobs uuid[])
      JOIN applied USING (t)
),
process_instances AS (
    INSERT INTO process_instance (tenant, language, id, definition_id, status, business_key, finished_at)
    SELECT progressed.tenant, progressed.language, line.id, line.definition_id, line.status, line.business_key, line.finished_at
      FROM given
     CROSS JOIN LATERAL json_to_recordset(given.instances)
        AS line (t int, id uuid, definition_id text, status text, business_key text, finished_at bigint)
      JOIN progressed USING (t)
        ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, finished_at = excluded.finished_at
),
process_executions AS (
    INSERT INTO process_execution (tenant, language, instance, id, node_id, node_type, attempt, status, started_at, ended_at,
                                   input, output, failure_reason, work, element)
    SELECT progressed.tenant, progressed.language, line.instance, line.id, coalesce(line.node_id, ''),
           coalesce(line.node_type, ''), coalesce(line.attempt, 0), line.status, coalesce(line.started_at, 0),
           line.ended_at, line.input, line.output, line.failure_reason, line.work, line.element
      FROM given
     CROSS JOIN LATERAL json_to_recordset(given.executions)
        AS line (t int, instance uuid, id uuid, node_id text, node_type text, attempt int, status text, started_at bigint,
                 ended_at bigint, input json, output json, failure_reason text, work uuid, element int)
      JOIN progressed USING (t)
        ON CONFLICT (tenant, instance, id) DO UPDATE
       SET status = excluded.status, ended_at = excluded.ended_at, output = excluded.output,
           failure_reason = excluded.failure_reason, work = coalesce(excluded.work, process_execution.work)
),
process_jobs_queued AS (
    INSERT INTO process_job (tenant, language, id, instance, execution, definition_id, node_id, job_type, retries, created_at,
                             held, tags, definition_version, input_bytes, max_losses)
    SELECT progressed.tenant, progressed.language, job.id, job.instance, job.execution, job.definition_id, job.node_id,
           job.job_type, job.retries, job.created_at, job.held, job.tags, job.definition_version, job.input_bytes,
           job.max_losses
      FROM given
     CROSS JOIN LATERAL json_to_recordset(given.jobs)
        AS job (t int, id uuid, instance uuid, execution uuid, definition_id text, node_id text, job_type text, retries int,
                created_at bigint, held boolean, tags text, definition_version int, input_bytes int, max_losses int)
      JOIN progressed USING (t)
),
process_jobs_closed AS (
    DELETE FROM process_job
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM progressed))
       AND id = ANY (ARRAY(SELECT unnest(closed_jobs) FROM progressed))
),
