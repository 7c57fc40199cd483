-- Applies the staged writes of several transactions; each of them wholly or not at all.
--
-- staged     what each transaction does to an entity: create, update, delete, read (a version it relied on), at most one of
--            these per entity; audit rows carry nothing but events, tasks rows stand
--            for an entity of which only scheduled tasks are concerned
-- locked     the current row behind each update, delete and read, and beside it what it is to become: joining the two again further down
--            would take the square of the time, since the planner expects few rows. Rows are locked in (tenant, id) order, the one global order, or
--            concurrent batches deadlock at once. FOR NO KEY UPDATE shows the *newest* version, so what is compared below is the committed truth
--            under READ COMMITTED. A row that somebody else has locked is skipped: its transaction is tried again later (busy, below), the
--            others of the batch need not wait
-- tasks      what each transaction does to scheduled tasks: arms, withdraws, or only relies on them
-- awaited    the stored task behind each one that a transaction expects. Tasks are locked after all entities, in key order. Who arms a task
--            holds the row of its entity; nodes that take due tasks lock these rows too, but wait for nobody
-- stale      what makes a transaction fail: a version, or the arming of a task, that is no longer the expected one; or busy: a row that is there,
--            as far as this snapshot shows, and was skipped
-- claimed    what unique keys each written entity claims from now on; a row without a hash says that it claims nothing (any more)
-- held       what these entities have claimed so far. The snapshot is older than the locks, but claims change only with the version of their
--            entity, and that is compared
-- violating  what makes a transaction fail, too: a claim that an entity outside of it holds
-- lost       and this: new entities whose model is not locked any more as it was when they were judged. The function keeps the models locked
--            from then on, and looks with a snapshot that is newer than this statement's (docs/adr/0008). Such a transaction has no moment, and
--            its filter says so in a way that leaves the planner its estimates: IS NULL would make it expect next to no rows
-- moments    the instant of each transaction, taken after the locks: strictly rising for every entity, and equal for all versions one
--            transaction writes. It is taken behind the fence, which is held until what is written here is visible, so that a reader of
--            the past can wait for it (storage/fence.py). CASE, because nothing else says what is evaluated first
-- applied    the surviving transactions
--
-- What stands between <tasks> and </tasks> is left out for a batch without scheduled tasks, what stands between <claims> and </claims> for
-- one without unique keys, <homes> for one without new entities: a CTE costs its start in every execution, also when it is empty (measured: 85 µs for four). The same holds for
-- <progress> and <waits>, what advances of the step engine write beside their entities (storage/steps/staged.py). The names of these
-- parameters become the next numbers.
--
-- Rows of the step engine belong to an instance whose entity is written by the same transaction, and is locked above: nobody else inserts,
-- ends or removes them meanwhile. Claims and leases of jobs only change a row in place, and never wait for another. Rows are found by
-- arrays of keys or by ON CONFLICT, not by joins, since the planner would hash a table that was small when it was planned.
WITH staged AS MATERIALIZED (
    SELECT *
      FROM unnest($1::int[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[], $8::uuid[], $9::text[], $10::text[],
                  $11::text[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::bigint[], $19::int[],
                  $20::text[])
        AS staged (t, change, tenant, id, model, expected, transaction_id, entry_transaction_id, state, transition,
                   workflow, workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind, document, events_at, n, events)
),
locked AS MATERIALIZED (
    SELECT wanted.t, wanted.change, wanted.expected, wanted.next_transaction_id, wanted.next_entry_transaction_id, wanted.next_state,
           wanted.next_transition, wanted.next_workflow, wanted.next_workflow_revision, wanted.next_attributed_id,
           wanted.next_attributed_kind, wanted.next_executor_id, wanted.next_executor_kind, wanted.next_document, current.*
      FROM (SELECT t, change, tenant, id, expected, transaction_id AS next_transaction_id,
                   entry_transaction_id AS next_entry_transaction_id, state AS next_state, transition AS next_transition,
                   workflow AS next_workflow, workflow_revision AS next_workflow_revision, attributed_id AS next_attributed_id,
                   attributed_kind AS next_attributed_kind, executor_id AS next_executor_id, executor_kind AS next_executor_kind,
                   document AS next_document
              FROM staged
             WHERE change IN ('update', 'delete', 'read')
             ORDER BY tenant, id) AS wanted
     CROSS JOIN LATERAL (
            SELECT entity.tenant, entity.id, entity.model, entity.state, entity.transaction_id, entity.entry_transaction_id,
                   entity.created_at, entity.valid_from, entity.transition, entity.workflow, entity.workflow_revision,
                   entity.attributed_id, entity.attributed_kind, entity.executor_id, entity.executor_kind, entity.document
              FROM entity
             WHERE entity.tenant = wanted.tenant AND entity.id = wanted.id
               FOR NO KEY UPDATE SKIP LOCKED) AS current
),
-- <tasks>
tasks AS MATERIALIZED (
    SELECT batch.t, task.*
      FROM json_to_recordset($tasks::json) AS batch (t int, tasks json)
     CROSS JOIN LATERAL json_to_recordset(batch.tasks)
        AS task (tenant text, entity uuid, state text, transition text, expected uuid, arms boolean, model uuid, fire_at bigint,
                 timeout_ms bigint, armed_at bigint, armed_in uuid, principal_id text, principal_kind text)
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
-- </tasks>
stale AS MATERIALIZED (
    SELECT staged.t, staged.id,
           locked.id IS NULL AND EXISTS (SELECT FROM entity WHERE entity.tenant = staged.tenant AND entity.id = staged.id) AS busy
      FROM staged
      LEFT JOIN locked ON locked.t = staged.t AND locked.id = staged.id
     WHERE staged.change IN ('update', 'delete', 'read')
       AND locked.transaction_id IS DISTINCT FROM staged.expected
-- <tasks>
     UNION ALL
    -- The nil UUID is nobody's: whoever demanded a version of the entity has found that one.
    SELECT tasks.t, '00000000-0000-0000-0000-000000000000', false
      FROM tasks
      LEFT JOIN awaited USING (t, entity, state, transition)
     WHERE tasks.expected IS NOT NULL
       AND awaited.armed_in IS DISTINCT FROM tasks.expected
-- </tasks>
),
-- <claims>
claimed AS MATERIALIZED (
    SELECT * FROM json_to_recordset($claims::json) AS claimed (t int, tenant text, entity uuid, hash uuid)
),
held AS MATERIALIZED (
    SELECT keeper.t, keeper.tenant, keeper.entity, claim.hash
      FROM (SELECT DISTINCT t, tenant, entity FROM claimed) AS keeper
     CROSS JOIN LATERAL (
            -- OFFSET 0 keeps the planner at index probes; as a join, it would rather scan a table that was small when it was planned.
            SELECT hash FROM unique_claim
             WHERE unique_claim.tenant = keeper.tenant AND unique_claim.entity = keeper.entity
            OFFSET 0) AS claim
),
violating AS MATERIALIZED (
    -- LATERAL … LIMIT 1 keeps the planner at one index probe per claim, also with statistics taken while the table was empty.
    SELECT DISTINCT claimed.t
      FROM claimed
     CROSS JOIN LATERAL (
            SELECT entity FROM unique_claim
             WHERE unique_claim.tenant = claimed.tenant AND unique_claim.hash = claimed.hash
             LIMIT 1) AS holder
     WHERE NOT EXISTS (SELECT FROM held WHERE held.t = claimed.t AND held.hash = claimed.hash)
),
-- </claims>
-- <homes>
lost AS MATERIALIZED (
    SELECT model_locks_lost($homes::jsonb) AS reasons
),
-- </homes>
moments AS MATERIALIZED (
    SELECT staged.t,
           CASE
-- <homes>
                WHEN (SELECT reasons FROM lost) ? staged.t::text THEN NULL
-- </homes>
                WHEN pg_advisory_xact_lock_shared(5371, 1)::text IS NOT NULL THEN greatest(now_us(), max(locked.valid_from) + 1)
           END AS at
      FROM staged
      LEFT JOIN locked ON locked.t = staged.t AND locked.id = staged.id
     GROUP BY staged.t
),
applied AS MATERIALIZED (
    SELECT t, at
      FROM moments
     WHERE t NOT IN (SELECT t FROM stale)
-- <claims>
       AND t NOT IN (SELECT t FROM violating)
-- </claims>
-- <homes>
       AND at IS NOT NULL
-- </homes>
),
superseded AS (
    INSERT INTO entity_history (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from, valid_to,
                                transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind,
                                document)
    SELECT locked.tenant, locked.id, locked.model, locked.state, locked.transaction_id, locked.entry_transaction_id, locked.created_at,
           locked.valid_from, applied.at, locked.transition, locked.workflow, locked.workflow_revision, locked.attributed_id,
           locked.attributed_kind, locked.executor_id, locked.executor_kind, locked.document
      FROM locked JOIN applied USING (t)
     WHERE locked.change IN ('update', 'delete')
),
tombstones AS (
    INSERT INTO entity_history (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from, valid_to,
                                transition, workflow, workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind,
                                document)
    SELECT locked.tenant, locked.id, locked.model, locked.state, locked.next_transaction_id, locked.next_entry_transaction_id,
           locked.created_at,
           applied.at, 9223372036854775807, locked.transition, locked.workflow, locked.workflow_revision, locked.next_attributed_id,
           locked.next_attributed_kind, locked.next_executor_id, locked.next_executor_kind, NULL
      FROM locked JOIN applied USING (t)
     WHERE locked.change = 'delete'
),
deleted AS (
    DELETE FROM entity
     USING locked JOIN applied USING (t)
     WHERE locked.change = 'delete' AND entity.tenant = locked.tenant AND entity.id = locked.id
),
updated AS (
    UPDATE entity
       SET state = locked.next_state, transaction_id = locked.next_transaction_id,
           entry_transaction_id = locked.next_entry_transaction_id, valid_from = applied.at, transition = locked.next_transition,
           workflow = locked.next_workflow, workflow_revision = locked.next_workflow_revision,
           attributed_id = locked.next_attributed_id, attributed_kind = locked.next_attributed_kind,
           executor_id = locked.next_executor_id, executor_kind = locked.next_executor_kind, document = locked.next_document::jsonb
      FROM locked JOIN applied USING (t)
     WHERE locked.change = 'update' AND entity.tenant = locked.tenant AND entity.id = locked.id
),
created AS (
    INSERT INTO entity (tenant, id, model, state, transaction_id, entry_transaction_id, created_at, valid_from, transition, workflow,
                        workflow_revision, attributed_id, attributed_kind, executor_id, executor_kind, document)
    SELECT staged.tenant, staged.id, staged.model, staged.state, staged.transaction_id, staged.entry_transaction_id, applied.at, applied.at,
           staged.transition, staged.workflow, staged.workflow_revision, staged.attributed_id, staged.attributed_kind,
           staged.executor_id, staged.executor_kind, staged.document::jsonb
      FROM staged JOIN applied USING (t)
     WHERE staged.change = 'create'
),
-- <claims>
-- A claim that passes from one entity to another within a transaction is updated in place: CTEs have no order, so deleting and inserting the
-- same key might happen the wrong way round. Claims are taken in one global order, or concurrent batches deadlock.
passed_on AS (
    UPDATE unique_claim SET entity = claimed.entity
      FROM claimed
      JOIN applied USING (t)
      JOIN held ON held.t = claimed.t AND held.hash = claimed.hash
     WHERE unique_claim.tenant = claimed.tenant AND unique_claim.hash = claimed.hash AND held.entity <> claimed.entity
),
released AS (
    DELETE FROM unique_claim
     USING held JOIN applied USING (t)
     WHERE unique_claim.tenant = held.tenant AND unique_claim.hash = held.hash
       AND NOT EXISTS (SELECT FROM claimed WHERE claimed.t = held.t AND claimed.hash = held.hash)
),
taken AS (
    INSERT INTO unique_claim (tenant, hash, entity)
    SELECT claimed.tenant, claimed.hash, claimed.entity
      FROM claimed JOIN applied USING (t)
     WHERE claimed.hash IS NOT NULL AND NOT EXISTS (SELECT FROM held WHERE held.t = claimed.t AND held.hash = claimed.hash)
     ORDER BY claimed.tenant, claimed.hash
),
-- </claims>
audited AS (
    INSERT INTO entity_audit (tenant, entity, at, transaction_id, n, events)
    SELECT staged.tenant, staged.id, staged.events_at, staged.entry_transaction_id, staged.n, staged.events
      FROM staged JOIN applied USING (t)
     WHERE staged.events IS NOT NULL
)
-- <tasks>
, withdrawn AS (
    DELETE FROM scheduled_task
     USING tasks JOIN applied USING (t)
     WHERE NOT tasks.arms
       AND scheduled_task.tenant = tasks.tenant AND scheduled_task.entity = tasks.entity
       AND scheduled_task.state = tasks.state AND scheduled_task.transition = tasks.transition
),
armed AS (
    INSERT INTO scheduled_task (tenant, entity, state, transition, model, fire_at, timeout_ms, armed_at, armed_in, principal_id,
                                principal_kind)
    SELECT tasks.tenant, tasks.entity, tasks.state, tasks.transition, tasks.model, tasks.fire_at, tasks.timeout_ms, tasks.armed_at,
           tasks.armed_in, tasks.principal_id, tasks.principal_kind
      FROM tasks JOIN applied USING (t)
     WHERE tasks.arms
     ORDER BY tasks.tenant, tasks.entity, tasks.state, tasks.transition
        ON CONFLICT (tenant, entity, state, transition) DO UPDATE
       SET model = excluded.model, fire_at = excluded.fire_at, timeout_ms = excluded.timeout_ms, armed_at = excluded.armed_at,
           armed_in = excluded.armed_in, principal_id = excluded.principal_id, principal_kind = excluded.principal_kind,
           not_before = 0, attempts = 0
)
-- </tasks>
-- <progress>
, progressed AS MATERIALIZED (
    SELECT part.*
      FROM json_to_recordset($progress::json) AS batch (t int, part json)
      JOIN applied USING (t)
     CROSS JOIN LATERAL json_to_record(batch.part) AS part (tenant text, instances json, executions json, jobs json, closed_jobs uuid[])
),
step_instances AS (
    INSERT INTO step_instance (tenant, id, definition_id, status, business_key, finished_at)
    SELECT progressed.tenant, line.id, line.definition_id, line.status, line.business_key, line.finished_at
      FROM progressed
     CROSS JOIN LATERAL json_to_recordset(progressed.instances)
        AS line (id uuid, definition_id text, status text, business_key text, finished_at bigint)
        ON CONFLICT (tenant, id) DO UPDATE SET status = excluded.status, finished_at = excluded.finished_at
),
step_executions AS (
    INSERT INTO step_execution (tenant, instance, id, step_id, step_type, attempt, status, started_at, ended_at, input, output,
                                failure_reason, work)
    SELECT progressed.tenant, line.instance, line.id, coalesce(line.step_id, ''), coalesce(line.step_type, ''), coalesce(line.attempt, 0),
           line.status, coalesce(line.started_at, 0), line.ended_at, line.input, line.output, line.failure_reason, line.work
      FROM progressed
     CROSS JOIN LATERAL json_to_recordset(progressed.executions)
        AS line (instance uuid, id uuid, step_id text, step_type text, attempt int, status text, started_at bigint, ended_at bigint,
                 input json, output json, failure_reason text, work uuid)
        ON CONFLICT (tenant, instance, id) DO UPDATE
       SET status = excluded.status, ended_at = excluded.ended_at, output = excluded.output, failure_reason = excluded.failure_reason
),
step_jobs_queued AS (
    INSERT INTO step_job (tenant, id, instance, execution, definition_id, step_id, job_type, retries, created_at, held, tags)
    SELECT progressed.tenant, job.id, job.instance, job.execution, job.definition_id, job.step_id, job.job_type, job.retries, job.created_at,
           job.held, job.tags
      FROM progressed
     CROSS JOIN LATERAL json_to_recordset(progressed.jobs)
        AS job (id uuid, instance uuid, execution uuid, definition_id text, step_id text, job_type text, retries int, created_at bigint,
                held boolean, tags text)
),
step_jobs_closed AS (
    DELETE FROM step_job
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM progressed))
       AND id = ANY (ARRAY(SELECT unnest(closed_jobs) FROM progressed))
)
-- </progress>
-- <waits>
, waiting AS MATERIALIZED (
    SELECT part.*
      FROM json_to_recordset($waits::json) AS batch (t int, part json)
      JOIN applied USING (t)
     CROSS JOIN LATERAL json_to_record(batch.part)
        AS part (tenant text, tasks json, closed_tasks uuid[], timers json, ended_timers uuid[], children json, started_children uuid[],
                 held uuid[], released uuid[], definitions json)
),
step_tasks_opened AS (
    INSERT INTO step_task (tenant, id, instance, execution, definition_id, definition_version, step_id, job_type, business_key,
                           created_at, held)
    SELECT waiting.tenant, task.id, task.instance, task.execution, task.definition_id, task.definition_version, task.step_id, task.job_type,
           task.business_key, task.created_at, task.held
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.tasks)
        AS task (id uuid, instance uuid, execution uuid, definition_id text, definition_version int, step_id text, job_type text,
                 business_key text, created_at bigint, held boolean)
),
step_tasks_closed AS (
    DELETE FROM step_task
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(closed_tasks) FROM waiting))
),
step_timers_armed AS (
    INSERT INTO step_timer (tenant, id, instance, fire_at, held)
    SELECT waiting.tenant, timer.id, timer.instance, timer.fire_at, timer.held
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.timers) AS timer (id uuid, instance uuid, fire_at bigint, held boolean)
),
step_timers_ended AS (
    DELETE FROM step_timer
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(ended_timers) FROM waiting))
),
step_children_due AS (
    INSERT INTO step_child (tenant, id, parent, definition_id, business_key, variables, not_before)
    SELECT waiting.tenant, child.id, child.parent, child.definition_id, child.business_key, child.variables, child.not_before
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.children)
        AS child (id uuid, parent uuid, definition_id text, business_key text, variables json, not_before bigint)
),
step_children_started AS (
    DELETE FROM step_child
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(started_children) FROM waiting))
),
step_jobs_held AS (
    UPDATE step_job SET held = id = ANY (ARRAY(SELECT unnest(held) FROM waiting))
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(held || released) FROM waiting))
),
step_tasks_held AS (
    UPDATE step_task SET held = id = ANY (ARRAY(SELECT unnest(held) FROM waiting))
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(held || released) FROM waiting))
),
step_timers_held AS (
    UPDATE step_timer SET not_before = 0, held = id = ANY (ARRAY(SELECT unnest(held) FROM waiting))
     WHERE tenant = ANY (ARRAY(SELECT tenant FROM waiting)) AND id = ANY (ARRAY(SELECT unnest(held || released) FROM waiting))
),
step_definitions AS (
    INSERT INTO step_definition (tenant, id, version, name, description, content, uploaded_at, source)
    SELECT waiting.tenant, version.id, version.version, version.name, version.description, version.content, version.uploaded_at,
           version.source
      FROM waiting
     CROSS JOIN LATERAL json_to_recordset(waiting.definitions)
        AS version (id text, version int, name text, description text, content text, uploaded_at bigint, source text)
)
-- </waits>
SELECT moments.t, moments.at, stale.id AS stale, stale.busy,
       false
-- <claims>
       OR moments.t IN (SELECT t FROM violating)
-- </claims>
       AS violates,
       coalesce(
-- <homes>
           (SELECT reasons FROM lost) ->> moments.t::text,
-- </homes>
           NULL::text) AS homeless
  FROM moments LEFT JOIN stale USING (t)
