-- Scheduled tasks (storage/schedules.py).
--
-- tasks      what each transaction does to scheduled tasks: arms, withdraws, or only relies on them
-- awaited    the stored task behind each one that a transaction expects. Tasks are locked after all entities, in key order. A transaction that arms a task
--            holds the row of its entity; nodes that take due tasks lock these rows too, but never wait
-- stale      fails a transaction, too, when the arming of a task is no longer the expected one

-- [reads]
tasks AS MATERIALIZED (
    SELECT batch.t, task.*
      FROM json_to_recordset($tasks::json) AS batch (t int, tasks json)
     CROSS JOIN LATERAL json_to_recordset(batch.tasks)
        AS task (tenant text, entity uuid, state text, transition text, expected uuid, arms boolean, model uuid, fire_at bigint,
                 timeout_ms bigint, armed_at bigint, armed_in uuid, principal_id text, principal_kind text, trace text)
),
awaited AS MATERIALIZED (
    SELECT wanted.t, wanted.entity, wanted.state, wanted.transition, stored.armed_in
      FROM (SELECT t, tenant, entity, state, transition
              FROM tasks
             WHERE expected IS NOT NULL
             ORDER BY tenant, entity, state, transition) AS wanted
     CROSS JOIN LATERAL (
            SELECT scheduled_task.armed_in
              FROM scheduled_task
             WHERE scheduled_task.tenant = wanted.tenant AND scheduled_task.entity = wanted.entity
               AND scheduled_task.state = wanted.state AND scheduled_task.transition = wanted.transition
               FOR UPDATE) AS stored
),

-- [stale]
     UNION ALL
    -- The nil UUID is of no entity: a version that was demanded of the entity is not what is stale.
    SELECT tasks.t, '00000000-0000-0000-0000-000000000000', false, false
      FROM tasks
      LEFT JOIN awaited USING (t, entity, state, transition)
     WHERE tasks.expected IS NOT NULL
       AND awaited.armed_in IS DISTINCT FROM tasks.expected

-- [writes]
withdrawn AS (
    DELETE FROM scheduled_task
     USING tasks JOIN applied USING (t)
     WHERE NOT tasks.arms
       AND scheduled_task.tenant = tasks.tenant AND scheduled_task.entity = tasks.entity
       AND scheduled_task.state = tasks.state AND scheduled_task.transition = tasks.transition
),
armed AS (
    INSERT INTO scheduled_task (tenant, entity, state, transition, model, fire_at, timeout_ms, armed_at, armed_in, principal_id,
                                principal_kind, trace)
    SELECT tasks.tenant, tasks.entity, tasks.state, tasks.transition, tasks.model, tasks.fire_at, tasks.timeout_ms, tasks.armed_at,
           tasks.armed_in, tasks.principal_id, tasks.principal_kind, tasks.trace
      FROM tasks JOIN applied USING (t)
     WHERE tasks.arms
     ORDER BY tasks.tenant, tasks.entity, tasks.state, tasks.transition
        ON CONFLICT (tenant, entity, state, transition) DO UPDATE
       SET model = excluded.model, fire_at = excluded.fire_at, timeout_ms = excluded.timeout_ms, armed_at = excluded.armed_at,
           armed_in = excluded.armed_in, principal_id = excluded.principal_id, principal_kind = excluded.principal_kind,
           trace = excluded.trace, not_before = 0, attempts = 0, failures = 0,
           takers = '{}'
),
