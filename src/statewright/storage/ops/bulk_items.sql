-- What became of an item of a bulk job, committed with its work (storage/ops/bulk_items.py).
--
-- bulk_done   what each transaction does for a job: one item
-- bulk_held   the jobs, locked, with the attempt that works on them
-- bulk_lost   what makes a transaction fail: another node has taken the job over

-- [reads]
bulk_done AS MATERIALIZED (
    SELECT batch.t, item.*
      FROM json_to_recordset($bulk_items::json) AS batch (t int, part json)
     CROSS JOIN LATERAL json_to_record(batch.part)
        AS item (tenant text, job uuid, worker text, n int, entity uuid, status text, transaction_id uuid)
),
bulk_held AS MATERIALIZED (
    SELECT wanted.tenant, wanted.job, held.worker
      FROM (SELECT DISTINCT tenant, job FROM bulk_done ORDER BY tenant, job) AS wanted
     CROSS JOIN LATERAL (
            SELECT worker FROM bulk_job
             WHERE bulk_job.tenant = wanted.tenant AND bulk_job.id = wanted.job
               FOR NO KEY UPDATE) AS held
),
bulk_lost AS MATERIALIZED (
    SELECT bulk_done.t
      FROM bulk_done
      LEFT JOIN bulk_held USING (tenant, job)
     WHERE bulk_held.worker IS DISTINCT FROM bulk_done.worker
),

-- [moment]
                WHEN staged.t IN (SELECT t FROM bulk_lost) THEN NULL

-- [conditions]
       AND t NOT IN (SELECT t FROM bulk_lost)

-- [writes]
bulk_items_written AS (
    INSERT INTO bulk_item (tenant, job, n, entity, status, transaction_id, at)
    SELECT bulk_done.tenant, bulk_done.job, bulk_done.n, bulk_done.entity, bulk_done.status, bulk_done.transaction_id, applied.at
      FROM bulk_done
      JOIN applied USING (t)
        ON CONFLICT (tenant, job, n) DO UPDATE
       SET status = excluded.status, judged = false, code = NULL, message = NULL, transaction_id = excluded.transaction_id,
           at = excluded.at
),
bulk_jobs_counted AS (
    UPDATE bulk_job
       SET succeeded = bulk_job.succeeded + counted.items
      FROM (SELECT tenant, job, count(*) AS items
              FROM bulk_done
              JOIN applied USING (t)
             WHERE status = 'SUCCEEDED'
             GROUP BY tenant, job) AS counted
     WHERE bulk_job.tenant = counted.tenant AND bulk_job.id = counted.job
),

-- [refusal]
           CASE WHEN moments.t IN (SELECT t FROM bulk_lost) THEN 'bulk_lost' END,
