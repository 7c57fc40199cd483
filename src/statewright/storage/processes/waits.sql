-- What fewer advances write beside their entities: tasks, timers, children, what is held or released, definitions (parts.py).
--
-- Rows belong to an instance whose entity is written by the same transaction, and is locked: nobody else inserts, ends or
-- removes them meanwhile. Claims and leases of jobs only change a row in place, and never wait for another. Rows are found
-- by arrays of keys or by ON CONFLICT, not by joins, since the planner would hash a table that was small when it was planned.

-- [writes]
waiting AS MATERIALIZED (
    SELECT part.*
      FROM json_to_recordset($waits::json) AS batch (t int, part json)
      JOIN applied USING (t)
     CROSS JOIN LATERAL json_to_record(batch.part)
        AS part (tenant text, language text, tasks json, closed_tasks uuid[], timers json, ended_timers uuid[], counters json,
                 parts json, children json, cancelled_children uuid[], started_children uuid[], child_ends json, told_ends uuid[], held uuid[], released uuid[],
                 definitions json)
),
process_tasks_opened AS (
    INSERT INTO process_task (tenant, language, id, instance, execution, definition_id, definition_version, node_id, job_type,
                              business_key, created_at, held)
    SELECT waiting.tenant, waiting.language, task.id, task.instance, task.execution, task.definition_id, task.definition_version,
           task.node_id, task.job_type, task.business_key, task.created_at, task.held
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.tasks)
        AS task (id uuid, instance uuid, execution uuid, definition_id text, definition_version int, node_id text, job_type text,
                 business_key text, created_at bigint, held boolean)
),
process_tasks_closed AS (
    DELETE FROM process_task
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(closed_tasks) FROM waiting))
),
process_timers_armed AS (
    INSERT INTO process_timer (tenant, language, id, instance, fire_at, held, topic, matched, counter)
    SELECT waiting.tenant, waiting.language, timer.id, timer.instance, timer.fire_at, timer.held, timer.topic, timer.matched, timer.counter
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.timers)
        AS timer (id uuid, instance uuid, fire_at bigint, held boolean, topic text, matched bigint[], counter text)
),
process_timers_ended AS (
    DELETE FROM process_timer
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(ended_timers) FROM waiting))
),
process_counters AS (
    -- In the order of the key, so that two transactions never wait for each other.
    INSERT INTO process_counter (tenant, name, value)
    SELECT waiting.tenant, counter.name, sum(counter.by)
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.counters) AS counter (name text, by bigint)
     GROUP BY waiting.tenant, counter.name
     ORDER BY waiting.tenant, counter.name
        ON CONFLICT (tenant, name) DO UPDATE SET value = process_counter.value + excluded.value
),
process_parts AS (
    INSERT INTO process_part (tenant, instance, name, value)
    SELECT waiting.tenant, part.instance, part.name, part.value
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.parts) AS part (instance uuid, name text, value json)
),
process_children_due AS (
    INSERT INTO process_child (tenant, language, id, parent, definition_id, business_key, variables, not_before, execution,
                               definition_version)
    SELECT waiting.tenant, waiting.language, child.id, child.parent, child.definition_id, child.business_key, child.variables,
           child.not_before, child.execution, coalesce(child.definition_version, 0)
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.children)
        AS child (id uuid, parent uuid, definition_id text, business_key text, variables json, not_before bigint,
                  execution uuid, definition_version int)
),
process_children_started AS (
    -- What somebody waits for stays known, so that it can be cancelled, until its end is told.
    UPDATE process_child
       SET started = true, not_before = CASE WHEN cancelled THEN 0 ELSE 9223372036854775807 END, takers = '{}'
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(started_children) FROM waiting))
       AND execution IS NOT NULL
),
process_children_gone AS (
    DELETE FROM process_child
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting))
       AND id = ANY (ARRAY(SELECT unnest(started_children || told_ends) FROM waiting))
       AND (execution IS NULL OR id = ANY (ARRAY(SELECT unnest(told_ends) FROM waiting)))
),
process_children_cancelled AS (
    -- Uses process_child_execution. One whose start may be under way is looked at when that is over.
    UPDATE process_child
       SET cancelled = true, not_before = CASE WHEN started OR cardinality(takers) >= 3 THEN 0 ELSE not_before END,
           takers = CASE WHEN cardinality(takers) >= 3 THEN '{}' ELSE takers END
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting))
       AND execution = ANY (ARRAY(SELECT unnest(cancelled_children) FROM waiting))
),
process_child_ends_due AS (
    INSERT INTO process_child_end (tenant, language, id, parent, execution, outcome, not_before)
    SELECT waiting.tenant, waiting.language, ended.id, ended.parent, ended.execution, ended.outcome, ended.not_before
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.child_ends)
        AS ended (id uuid, parent uuid, execution uuid, outcome json, not_before bigint)
        ON CONFLICT (tenant, id) DO UPDATE SET outcome = excluded.outcome, not_before = excluded.not_before
),
process_child_ends_told AS (
    DELETE FROM process_child_end
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(told_ends) FROM waiting))
),
process_jobs_held AS (
    UPDATE process_job SET held = id = ANY (ARRAY(SELECT unnest(held) FROM waiting))
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(held || released) FROM waiting))
),
process_tasks_held AS (
    UPDATE process_task SET held = id = ANY (ARRAY(SELECT unnest(held) FROM waiting))
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(held || released) FROM waiting))
),
process_timers_held AS (
    -- What is parked stays so.
    UPDATE process_timer SET not_before = CASE WHEN cardinality(takers) >= 3 THEN not_before ELSE 0 END, held = id = ANY (ARRAY(SELECT unnest(held) FROM waiting))
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(held || released) FROM waiting))
),
process_definitions AS (
    INSERT INTO process_definition (tenant, language, id, version, name, description, content, uploaded_at, source)
    SELECT waiting.tenant, waiting.language, version.id, version.version, version.name, version.description, version.content,
           version.uploaded_at, version.source
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.definitions)
        AS version (id text, version int, name text, description text, content text, uploaded_at bigint, source text)
),
